// Learn: what operators marked, what the next version would make of it, and the way back.
let preview = null, historyAsked = 0, marksAsked = 0, learning = false;

onPress($("learn-preview"), loadPreview);
onPress($("learn-start"), async () => {
  const loss = preview && preview.loss;
  if (loss && loss.asks && !personName()) { complain($("learn"), t("name_needed_second")); return $("person").focus(); }
  if (!await act("/teach/learn", {name: personName()}, $("learn"))) return;
  learning = true;
  preview = null;
  showPreview();
});
onPress($("confirm"), async () => {
  if (!personName()) { complain($("asked"), t("name_needed_second")); return $("asked").querySelector(".person").focus(); }
  const what = state.asked && state.asked.what;
  if (!await act("/teach/confirm", {name: personName()}, $("asked"))) return;
  if (what === "choose") return loadJudge(true);
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
    preview.loss ? said("p", spoken(preview.loss)[0], preview.loss.asks ? "flag" : "", spoken(preview.loss)[1]) : "",
    preview.loss?.asks ? make("p", {className: "flag", textContent: t("really_good")}) : "",
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
    const lines = await ask("/teach/history?most=50");
    showList($("history").querySelector("ol"), lines, line => JSON.stringify(line), line => {
      const {event, when, why, why_said: _, lost, lost_said: __, ...facts} = line;
      const text = flat(facts).filter(([, value]) => value !== null && value !== "" && value !== false && !Array.isArray(value))
        .map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "number" ? few(value) : value}`).join(", ");
      const words = TEXTS[language]["event_" + event];
      return make("li", {}, make("span", {className: "dim", textContent: clock(when) + " "}),
        words ? make("strong", {textContent: words}) : said("strong", String(event).replaceAll("_", " ")), said("span", text ? " · " + text : ""),
        ...["lost", "why"].map(name => line[name] ? make("span", {}, " · ", saidOf("span", line, name)) : null));
    });
  } catch (error) { complain($("learn"), error.message, error.lang); }
}
// What is marked and not learned, also when its alarm is no longer kept: here it can be taken back.
async function showMarks() {
  if (!$("marks").open || Date.now() - marksAsked < 3000) return;
  marksAsked = Date.now();
  try {
    const items = await ask("/teach/marks");
    $("no-marks").hidden = items.length > 0;
    showList($("marks").querySelector("ul"), items, item => item.id + state.role, item => {
      const address = "/teach/alarms/" + encodeURIComponent(item.id);
      return card({picture: address + "?width=320", large: address, marked: item, title: item.id,
        lines: [make("p", {textContent: t("said_" + item.said)}), ...item.marks.map(one => make("p", {className: one.counts ? "" : "dim", textContent: markWords(one)}))],
        actions: item.marks.map(one => [t("withdraw_of", {name: one.name}), () => withdrawMark(item.id, one), one.who === "supervisor"])});
    });
  } catch (error) { complain($("marks"), error.message, error.lang); }
}
async function withdrawMark(alarm, one) {
  const name = personName();
  if (!name) { complain($("marks"), t("name_needed")); return $("person").focus(); }
  if (await act("/teach/withdraw", {alarm, name, of_who: one.who, of_name: one.name}, $("marks"))) { marksAsked = alarmsAsked = 0; preview = null; showPreview(); await showMarks(); }
}
$("marks").ontoggle = () => { marksAsked = 0; showMarks(); };
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
  if (learning && !running) { learning = false; historyAsked = marksAsked = 0; toast(t(learn.state === "done" ? "learned" : "not_learned")); }
  showMarks();
  showHistory();
});
jobs.push(() => {
  const asked = state.asked;
  $("asked").hidden = !asked || tab !== (asked.what === "choose" ? "judge" : "run");
  if (!asked) return;
  $("asked-who").textContent = t(asked.what === "choose" ? "asked_choose" : "asked_learn", {name: asked.name, time: clock(asked.when)});
  [$("asked-what").textContent, $("asked-what").lang] = spoken(asked);
  $("confirm").disabled = !isSupervisor();
});
