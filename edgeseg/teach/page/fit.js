// Fit: one button, how far it is, and how it ended.
onPress($("fit-start"), () => act("/teach/fit", {}, $("fit")));
onPress($("fit-cancel"), () => act("/teach/fit/cancel", {}, $("fit")));
onPress($("fit-next"), () => openTab("judge"));
onPress($("fit-region"), () => openTab("region"));

function showProgress(bar, share, running) {
  const percentDone = Math.round(100 * (share || 0));
  bar.firstElementChild.style.width = percentDone + "%";
  bar.setAttribute("aria-valuenow", percentDone);
  bar.setAttribute("aria-busy", String(running));
}

// How long it still takes, by how fast it got on of late, and how much of the computer it gets.
function showLeft(line, work) {
  const left = work.left_s, minutes = Math.ceil(left / 60);
  const words = work.state !== "running" ? "" : left == null ? t("left_unknown") : left < 15 ? t("left_few")
    : left < 100 ? t("left_seconds", {n: number(10 * Math.ceil(left / 10))}) : t("left_minutes", {n: number(minutes)});
  const busy = work.core != null && work.core < .5 ? " " + t("core_low", {percent: number(100 * work.core)}) : "";
  line.textContent = words + busy;
}

jobs.push(() => {
  const fit = state.fit, running = fit.state === "running";
  $("fit-what").textContent = t(state.good ? "fit_what" : "fit_nothing", {n: number(state.good)});
  $("fit-start").disabled = running || !state.good || !isSupervisor();
  $("fit-cancel").hidden = !running;
  $("fit-cancel").disabled = !isSupervisor();
  showProgress($("fit-bar"), fit.state === "done" ? 1 : running ? fit.share : 0, running);
  const done = fit.state === "none" && state.model ? "there" : fit.state, ended = ["there", "done"].includes(done), look = ended && state.look;
  const key = look ? look === 1 ? "fit_done_one" : "fit_done_look" : "fit_" + done;
  const words = t(key, {percent: number(100 * (fit.share || 0)), n: number(look), time: state.model && clock(state.model.when)});
  if ($("fit-end").textContent !== words) $("fit-end").textContent = words;
  showLeft($("fit-left"), fit);
  report($("fit-sentence"), fit, fit.state === "failed");
  $("fit-next").hidden = !ended;
  $("fit-region").hidden = !refusedLocate(fit);
});
