// Run: the verdict for whoever stands three metres away, the shift, and the last alarms.
const KINDS = {good: "good", unsure: "warn", defect: "bad", invalid: "warn", not_found: "warn"};
const SIGNS = {good: "✓", unsure: "?", defect: "✕", invalid: "!", not_found: "?"};
let alarms = [], alarmsAsked = 0, announcedAlarm = null;

onPress($("run-start"), () => act("/teach/run", {}, $("run")));
onPress($("run-stop"), () => act("/teach/stop", {}, $("run")));
for (const input of document.querySelectorAll(".person")) {  // who is at the page, wherever that is said
  input.value = kept("person") || "";
  input.oninput = () => {
    for (const other of document.querySelectorAll(".person")) if (other !== input) other.value = input.value;
    kept("person", input.value.trim());
  };
}
const personName = () => $("person").value.trim();

function showVerdict(run) {
  const verdict = run.state === "running" ? run.verdict : null;
  $("verdict").className = "card " + (verdict ? KINDS[verdict] || "warn" : "");
  $("verdict-word").textContent = verdict ? `${SIGNS[verdict] || "!"} ${t("verdict_" + verdict)}` : t("run_" + run.state);
  $("verdict-detail").textContent = verdict && run.score != null ? t("score_of", {score: few(run.score), threshold: few(run.threshold ?? (state.model && state.model.threshold))}) : "";
}

function showCounters(counters) {
  const always = ["parts", "good", "defect"], seldom = ["unsure", "invalid", "not_found", "missed", "no_inspection"];
  const names = [...always, ...seldom.filter(name => counters[name])];
  $("counters").replaceChildren(...names.map(name => make("div", {}, make("dt", {textContent: t("count_" + name)}),
    make("dd", {textContent: number(counters[name] ?? 0)}))));
}

function flat(figures, before = "") {  // {"latency": {"p50": 3}} as "latency p50": 3
  return Object.entries(figures || {}).flatMap(([name, value]) => value !== null && typeof value === "object" && !Array.isArray(value)
    ? flat(value, before + name + " ") : [[before + name, value]]);
}

function showFigures(run) {
  const {stages_ms: stages = {}, ...others} = run.figures || {}, sides = ["p50", "p95", "p99", "max"];
  const head = make("tr", {}, make("th", {scope: "col", textContent: t("stages_ms")}), ...sides.map(side => said("th", side)));
  $("figures").querySelector("table").replaceChildren(head, ...Object.entries(stages).map(([name, stage]) =>
    make("tr", {}, said("th", name.replaceAll("_", " ")), ...sides.map(side => make("td", {textContent: few(stage[side])})))));
  const facts = flat({...others, frames: run.counters?.frames, dropped: run.counters?.dropped}).filter(([, value]) => value != null && value !== "");
  $("figures").querySelector("dl").replaceChildren(...facts.flatMap(([name, value]) => [said("dt", name.replaceAll("_", " ").replace("drift 0", "drift")),
    make("dd", {className: "said", textContent: typeof value === "number" ? few(value) : String(value)})]));
}
$("figures").ontoggle = () => { if (state) showFigures(state.run); };

async function showAlarms() {
  if (Date.now() - alarmsAsked < 1000) return;
  alarmsAsked = Date.now();
  try { alarms = await ask("/teach/alarms?most=24"); } catch (error) { return; }
  $("no-alarms").hidden = alarms.length > 0;
  showList($("alarms"), alarms, alarm => alarm.id + state.role, alarmCard);
  const newest = alarms.length ? alarms[0].id : "";
  if (announcedAlarm !== null && newest && newest !== announcedAlarm)
    $("announced").textContent = t("alarm_heard", {verdict: t("verdict_" + alarms[0].verdict), time: clock(alarms[0].when)});
  announcedAlarm = newest;
}

async function markAlarm(id, mark) {
  const name = personName();
  if (!name) {
    complain($("alarms-card"), t("name_needed"));
    return $("person").focus();
  }
  if (await act("/teach/mark", {alarm: id, mark, name}, $("alarms-card"))) { alarmsAsked = 0; await showAlarms(); }
  return undefined;
}

const markWords = one => `${t("mark_" + one.mark)} (${one.name}, ${t("who_" + one.who)})`;

function alarmCard(alarm) {
  const address = "/teach/alarms/" + encodeURIComponent(alarm.id), marks = alarm.marks || [], counting = marks.filter(one => one.counts !== false);
  const mark = value => [t("mark_" + value), () => markAlarm(alarm.id, value), false, counting.length > 0 && counting.every(one => one.mark === value)];
  return card({picture: address + "?width=640", large: address, marked: alarm, title: t("alarm_title", {time: clock(alarm.when)}),
    lines: [make("p", {textContent: `${t("verdict_" + alarm.verdict)} · ${t("score_is", {score: few(alarm.score)})}`}),
      make("p", {className: "dim", textContent: clock(alarm.when)}),
      marks.length ? make("p", {textContent: t("marked", {list: marks.map(markWords).join(", ")})}) : null],
    actions: [mark("good"), mark("defect"), mark("ignore")]});
}

jobs.push(() => {
  const run = state.run, on = run.state !== "stopped";
  $("run-start").hidden = on;
  $("run-stop").hidden = !on;
  $("run-start").disabled = !isSupervisor() || !state.model && state.fit.state !== "done";
  $("run-stop").disabled = !isSupervisor();
  report($("run-sentence"), run.sentence_said?.key === {stopped: "run_ended", running: "run_runs"}[run.state] ? {} : run, run.state === "stopped");
  $("verdict").hidden = $("alarms-card").hidden = tab !== "run";
  if (tab !== "run") return;
  showVerdict(run);
  showCounters(run.counters || {});
  if ($("figures").open) showFigures(run);
  showAlarms();
});
