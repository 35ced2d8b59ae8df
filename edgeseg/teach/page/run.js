// Run: the operator's screen over this station, and the figures for engineers.
const canMark = true;
const screenWanted = () => tab === "run" && state !== null;
const idleWord = () => t("run_" + (state ? state.run.state : "stopped"));

onPress($("run-start"), () => act("/teach/run", {}, $("run")));
onPress($("run-stop"), () => act("/teach/stop", {}, $("run")));

function showPartFigures(part) {
  $("part-score").textContent = part && part.score != null ? t("score_of", {score: few(part.score), threshold: few(part.threshold)}) : "";
}

function showFigures(run) {
  const {stages_ms: stages, ...others} = run.figures || {};
  showTable($("figures"), stages, {...others, frames: run.counters?.frames, dropped: run.counters?.dropped});
}
$("figures").ontoggle = () => { if (state) showFigures(state.run); };

jobs.push(() => {
  const run = state.run, on = run.state !== "stopped";
  $("run-start").hidden = on;
  $("run-stop").hidden = !on;
  $("run-start").disabled = !isSupervisor() || !state.model && state.fit.state !== "done";
  $("run-stop").disabled = !isSupervisor();
  report($("run-sentence"), run.sentence_said?.key === {stopped: "run_ended", running: "run_runs"}[run.state] ? {} : run, run.state === "stopped");
  $("alarms-card").hidden = tab !== "run";
  if (tab !== "run") return;
  const lost = on && !state.camera.ok;
  showNotice(lost ? t("camera_lost_now") : driftWords(run.figures?.drift?.["0"]), lost ? "bad" : "warn");
  if ($("figures").open) showFigures(run);
});
