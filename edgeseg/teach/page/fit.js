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

jobs.push(() => {
  const fit = state.fit, running = fit.state === "running";
  $("fit-what").textContent = t(state.good ? "fit_what" : "fit_nothing", {n: number(state.good)});
  $("fit-start").disabled = running || !state.good || !isSupervisor();
  $("fit-cancel").hidden = !running;
  $("fit-cancel").disabled = !isSupervisor();
  showProgress($("fit-bar"), fit.state === "done" ? 1 : running ? fit.share : 0, running);
  const words = t("fit_" + fit.state, {percent: number(100 * (fit.share || 0))});
  if ($("fit-end").textContent !== words) $("fit-end").textContent = words;
  report($("fit-sentence"), fit, fit.state === "failed");
  $("fit-next").hidden = fit.state !== "done";
  $("fit-region").hidden = !refusedLocate(fit);
});
