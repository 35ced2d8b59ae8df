// Learn: what operators marked, what the next version would make of it, and the way back.
let preview = null, historyAsked = 0, marks = [], marksAsked = 0, learning = false;

onPress($("learn-preview"), loadPreview);
onPress($("learn-start"), async () => {
  const loss = preview && preview.loss;
  if (loss && loss.asks && !personName()) { complain($("learn"), t("name_needed_second")); return $("person").focus(); }
  if (!await act("/teach/learn", {of: preview.of, name: personName()}, $("learn"))) return;
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
onPress($("withdraw-asked"), async () => {
  if (!personName()) { complain($("asked"), t("name_needed")); return $("asked").querySelector(".person").focus(); }
  if (await act("/teach/confirm/withdraw", {name: personName()}, $("asked"))) toast(t("asked_withdrawn"));
});
onPress($("learn-cancel"), () => act("/teach/learn/cancel", {}, $("learn")));
onPress($("rollback"), async () => {
  if (!confirm(t("rollback_sure", {version: state.model.before}))) return;
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
  if (answer && answer.state === "failed") complain($("learn"), ...spoken(answer));
  preview = answer && answer.state === "ready" ? answer : null;
  if (preview) await Promise.all([loadMarks(), loadMissed()]);  // each can be taken back where it stands
  showPreview();
}

const listOf = (title, cards) => cards.length ? [make("h3", {textContent: t(title, {n: number(cards.length)})}), make("ul", {className: "cards"}, ...cards)] : [];
const alarmAt = name => "/teach/alarms/" + encodeURIComponent(name);
const withdrawals = (name, place) => (marks.find(item => item.id === name)?.marks || []).map(one => [t("withdraw_of", {name: one.name}), () => withdrawMark(name, one, place), one.who === "supervisor"]);

function alarmCards(title, items) {  // what was marked, with its picture
  return listOf(title, items.map(item => {
    const name = typeof item === "string" ? item : item.name;
    return card({picture: alarmAt(name) + "?width=320", large: alarmAt(name), title: name, actions: withdrawals(name, $("learn")),
      lines: [item.why || item.reason ? saidOf("p", item, item.why ? "why" : "reason") : said("p", name)]});
  }));
}

// What stands against a learning: known defects for whose sake pictures are held back, and golden
// pictures that the next version would get wrong. Each can be taken back here, if it is an error.
async function takeBack(name) {
  await removePicture(name, $("learn"));
  lookAgain();
}
async function withdrawGolden(file) {  // one that is in the recipe alone
  const name = personName();
  if (!name) { complain($("learn"), t("name_needed")); return $("person").focus(); }
  if (!await act("/teach/golden/withdraw", {file, name}, $("learn"))) return;
  toast(t("withdrawn", {name: file}));
  lookAgain();
}
function lookAgain() {
  preview = null;
  showPreview();
  $("learn-preview").focus();
}
function knownCard(name, kind, words, ours) {
  const at = (ours ? "/teach/pictures/" : "/teach/golden/") + `${kind}/${encodeURIComponent(name)}`, picture = kind === "mark" ? alarmAt(name) : at;
  const actions = kind === "mark" ? withdrawals(name, $("learn")) : ours ? [[t(kind === "bad" ? "not_bad" : "not_good"), () => takeBack(name), true]]
    : [[t("withdraw_all"), () => withdrawGolden(`${kind}/${name}`), true]];
  return card({picture: picture + "?width=320", large: picture, title: name, kind: "flagged", actions,
    lines: [said("p", name), make("p", {textContent: t(words)})]});
}
const blockers = () => [
  ...listOf("golden_wrong", preview.golden.map(item => knownCard(item.name, item.kind, "golden_" + (item.approved === false ? "unknown" : item.kind), item.ours))),
  ...listOf("guards", preview.guards.map(item => knownCard(item.name, item.kind === "golden" ? "bad" : item.kind, "guard_" + item.kind, item.kind === "bad")))];
function changeFigures(change) {  // of missed defects
  if (!change) return [];
  const known = found => t("n_of_m", {n: number(found), m: number(change.known)});
  const alarms = (rate, {alarms: n, parts: m}) => t("of_parts", {value: few(rate), n: number(n), m: number(m)});
  const others = change.by_others ? [["known_others", t("n_of_m", {n: number(change.by_others.found), m: number(change.by_others.of)})]] : [];
  return [["known_before", known(change.found_before)], ["known_after", known(change.found_after)], ...others,
    ["alarms_before", alarms(change.per_thousand_before, change.good_before)], ["alarms_after", alarms(change.per_thousand_after, change.good_after)]];
}
const canLearn = () => Boolean(preview && preview.would_learn.length && !preview.problems.length && isSupervisor());
function showPreview() {
  $("preview").hidden = !preview;
  $("learn-start").disabled = !canLearn();
  if (!preview) return;
  const found = preview.still_found || {}, learned = preview.would_learn.map(item => item.name);
  const passing = (preview.now_passes || []).filter(name => !learned.includes(name));  // those stand above
  $("preview").replaceChildren(
    said("p", spoken(preview)[0], preview.problems.length ? "problem" : "", spoken(preview)[1]),
    ...blockers(),
    preview.loss ? said("p", spoken(preview.loss)[0], preview.loss.asks ? "flag" : "", spoken(preview.loss)[1]) : "",
    preview.loss?.asks ? make("p", {className: "flag", textContent: t("really_good")}) : "",
    make("dl", {className: "figures"}, ...[["threshold_old", few(preview.threshold_old)], ["threshold_new", few(preview.threshold_new)],
      ["still_found", found.of == null ? "–" : t("n_of_m", {n: number(found.found), m: number(found.of)})], ...changeFigures(preview.change)].map(([key, value]) =>
      make("div", {}, make("dt", {textContent: t(key)}), make("dd", {textContent: value})))),
    ...(preview.change?.kinds || []).map(kind => saidOf("p", kind, "sentence")),
    ...(preview.missed?.length
      ? [...missedCards("missed_would", preview.would_learn, "why"), ...missedCards("missed_held", preview.held_back, "reason")]
      : [...alarmCards("would_learn", preview.would_learn), ...alarmCards("now_passes", passing), ...alarmCards("held_back", preview.held_back || [])]));
}

async function showHistory() {
  if (!$("history").open || Date.now() - historyAsked < 3000) return;
  historyAsked = Date.now();
  try {
    const lines = await ask("/teach/history?most=50");
    showList($("history").querySelector("ol"), lines, line => JSON.stringify(line), line => {
      const {event, when, why, why_said: _, lost, lost_said: __, ...facts} = line;
      const shown = value => Array.isArray(value) ? value.slice(0, 3).join(" + ") + (value.length > 3 ? " + …" : "") : typeof value === "number" ? few(value) : value;
      const text = flat(facts).filter(([, value]) => value !== null && value !== "" && value !== false && !(Array.isArray(value) && !value.length))
        .map(([name, value]) => `${name.replaceAll("_", " ")} ${shown(value)}`).join(", ");
      const words = LANGUAGES[language].texts["event_" + event];
      return make("li", {}, make("span", {className: "dim", textContent: clock(when) + " "}),
        words ? make("strong", {textContent: words}) : said("strong", String(event).replaceAll("_", " ")), said("span", text ? " · " + text : ""),
        ...["lost", "why"].map(name => line[name] ? make("span", {}, " · ", saidOf("span", line, name)) : null));
    });
  } catch (error) { complain($("learn"), error.message, error.lang); }
}
// What is marked and not learned, also when its alarm is no longer kept: here it can be taken back.
async function loadMarks() {
  marksAsked = Date.now();
  try { marks = await ask("/teach/marks"); } catch (error) { complain($("marks"), error.message, error.lang); }
}
async function showMarks() {
  if (!$("marks").open || Date.now() - marksAsked < 3000) return;
  await loadMarks();
  $("no-marks").hidden = marks.length > 0;
  showList($("marks").querySelector("ul"), marks, item => item.id + state.role, item => {
    const broken = item.said === "damaged", picture = broken ? null : alarmAt(item.id);
    const all = [[t("withdraw_all"), () => withdrawMark(item.id, null, $("marks")), true]];
    return card({picture: picture && picture + "?width=320", large: picture, marked: item, title: item.id,
      lines: [make("p", {textContent: t("said_" + item.said)}), ...item.marks.map(one => make("p", {className: one.counts ? "" : "dim", textContent: markWords(one)}))],
      actions: broken ? all : withdrawals(item.id, $("marks"))});
  });
}
async function withdrawMark(alarm, one, place) {
  const name = personName();
  if (!name) { complain(place, t("name_needed")); return $("person").focus(); }
  const of = one ? {of_who: one.who, of_name: one.name} : {};
  if (!await act("/teach/withdraw", {alarm, name, ...of}, place)) return;
  toast(t("withdrawn", {name: alarm}));
  marksAsked = rejectsAsked = 0;
  preview = null;
  showPreview();
  await showMarks();
}
$("marks").ontoggle = () => { marksAsked = 0; showMarks(); };
$("history").ontoggle = () => { historyAsked = 0; showHistory(); };

jobs.push(() => {
  $("learn").hidden = tab !== "run";
  if (tab !== "run") return;
  const learn = state.learn || {state: "none"}, feedback = state.feedback || {waiting: 0, agreed: 0}, running = learn.state === "running";
  $("learn-waiting").textContent = t("learn_waiting", {waiting: number(feedback.waiting), agreed: number(feedback.agreed)});
  $("learn-preview").disabled = $("rollback").disabled = !isSupervisor() || running;
  $("rollback").hidden = !state.model?.before;
  $("learn-cancel").hidden = !running || learn.sentence_said?.key === "run_checking";
  $("learn-cancel").disabled = !isSupervisor();
  $("learn-start").disabled = running || !canLearn();
  showLeft($("learn-left"), learn);
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
  $("confirm").disabled = $("withdraw-asked").disabled = !isSupervisor();
});
