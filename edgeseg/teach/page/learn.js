// Learn: what operators marked, what the next version would make of it, and the way back.
let preview = null, historyAsked = 0, learning = false;

onPress($("learn-preview"), loadPreview);
onPress($("learn-start"), async () => {
  if (!await act("/teach/learn", {}, $("learn"))) return;
  learning = true;
  preview = null;
  showPreview();
});
onPress($("rollback"), async () => {
  if (!confirm(t("rollback_sure"))) return;
  const back = await act("/teach/rollback", {}, $("learn"));
  if (back) toast(t("rolled_back", {version: back.version ?? "", threshold: few(back.threshold)}));
});

async function loadPreview() {
  preview = null;
  showPreview();
  let answer;
  do {  // the first answer may be that it is being found out
    if (answer) await new Promise(resume => setTimeout(resume, 500));
    answer = await act("/teach/preview", {}, $("learn"));
  } while (answer && answer.state === "running");
  if (answer && answer.state !== "ready") complain($("learn"), ...spoken(answer));
  else preview = answer || null;
  showPreview();
}

function alarmCards(title, items) {  // what was marked, with its picture
  return items.length ? [make("h3", {textContent: t(title, {n: number(items.length)})}), make("ul", {className: "cards"}, ...items.map(item => {
    const name = typeof item === "string" ? item : item.name, address = "/teach/alarms/" + encodeURIComponent(name);
    return card({picture: address + "?width=320", large: address, title: name, lines: [item.why || item.reason ? saidOf("p", item, item.why ? "why" : "reason") : said("p", name)]});
  }))] : [];
}
function showPreview() {
  $("preview").hidden = !preview;
  $("learn-start").disabled = !preview || !preview.would_learn.length || !isSupervisor();
  if (!preview) return;
  const found = preview.still_found || {}, learned = preview.would_learn.map(item => item.name);
  const passing = (preview.now_passes || []).filter(name => !learned.includes(name));  // those stand above
  $("preview").replaceChildren(
    saidOf("p", preview),
    make("dl", {className: "figures"}, ...[["threshold_old", few(preview.threshold_old)], ["threshold_new", few(preview.threshold_new)],
      ["still_found", found.of == null ? "–" : t("n_of_m", {n: number(found.found), m: number(found.of)})]].map(([key, value]) =>
      make("div", {}, make("dt", {textContent: t(key)}), make("dd", {textContent: value})))),
    ...alarmCards("would_learn", preview.would_learn), ...alarmCards("now_passes", passing),
    ...alarmCards("held_back", preview.held_back || []));
}

async function showHistory() {
  if (!$("history").open || Date.now() - historyAsked < 3000) return;
  historyAsked = Date.now();
  try {
    const lines = await ask("/teach/history");
    showList($("history").querySelector("ol"), lines.slice(0, 50), line => JSON.stringify(line), line => {
      const {event, when, why, why_said: whySaid, ...facts} = line;
      const text = flat(facts).filter(([, value]) => value !== null && !Array.isArray(value))
        .map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "number" ? few(value) : value}`).join(", ");
      const words = TEXTS[language]["event_" + event];
      return make("li", {}, make("span", {className: "dim", textContent: clock(when) + " "}),
        words ? make("strong", {textContent: words}) : said("strong", String(event).replaceAll("_", " ")), said("span", text ? " · " + text : ""),
        why ? make("span", {}, " · ", saidOf("span", {why, why_said: whySaid}, "why")) : null);
    });
  } catch (error) { complain($("learn"), error.message, error.lang); }
}
$("history").ontoggle = () => { historyAsked = 0; showHistory(); };

jobs.push(() => {
  $("learn").hidden = tab !== "run";
  if (tab !== "run") return;
  const learn = state.learn || {state: "none"}, feedback = state.feedback || {waiting: 0, agreed: 0}, running = learn.state === "running";
  $("learn-waiting").textContent = t("learn_waiting", {waiting: number(feedback.waiting), agreed: number(feedback.agreed)});
  $("learn-preview").disabled = $("rollback").disabled = !isSupervisor() || running;
  if (running || !isSupervisor()) $("learn-start").disabled = true;
  $("learn-bar").hidden = !running;
  showProgress($("learn-bar"), learn.share, running);
  report($("learn-state"), learn, learn.state === "failed");
  if (learning && !running) { learning = false; historyAsked = 0; toast(t(learn.state === "done" ? "learned" : "not_learned")); }
  showHistory();
});
