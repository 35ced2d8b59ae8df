// The tabs, the language, who is at the page, and the question that is asked twice a second.
const TABS = ["collect", "region", "fit", "judge", "run"];
const POLL_MS = 500, RETRY_MS = 2000;
let tab = "collect", pollTimer = 0, polling = null;

function openTab(name, {focus = false} = {}) {
  tab = name;
  for (const each of TABS) {
    const button = $("tab-" + each), own = each === name;
    button.setAttribute("aria-selected", String(own));
    button.tabIndex = own ? 0 : -1;
    $(each).hidden = !own;
    if (own && focus) button.focus();
  }
  if (location.hash !== "#" + name) history.replaceState(null, "", "#" + name);
  showStage();
  if (state) show();
  askScreen();
}
TABS.forEach((name, index) => {
  $("tab-" + name).onclick = () => openTab(name);
  $("tab-" + name).onkeydown = event => {
    const to = {ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: TABS.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    openTab(TABS[(to + TABS.length) % TABS.length], {focus: true});
  };
});

function show() {
  document.title = `${state.project} – edgeseg`;
  $("project").textContent = state.project;
  $("unlock").hidden = !state.roles;
  $("unlock").textContent = t(isSupervisor() ? "lock" : "unlock");
  $("unlock").ariaLabel = t(isSupervisor() ? "leave_supervisor" : "unlock");
  const reached = TABS.indexOf(state.step);
  TABS.forEach((name, index) => {
    const done = index < reached || name === "run" && state.run.state === "running";
    $("tab-" + name).classList.toggle("done", done);
    $("tab-" + name).querySelector("i").textContent = done ? "✓" : index + 1;
  });
  for (const hint of document.querySelectorAll(".needs")) hint.hidden = isSupervisor();
  for (const job of jobs) job();
  document.documentElement.dataset.ready = "yes";
}

async function poll() {
  clearTimeout(pollTimer);
  if (document.hidden) return;
  while (polling) await polling;  // what it asks may be older than what was just done
  let ended;
  polling = new Promise(resolve => { ended = resolve; });
  try {
    const first = state === null;
    state = await ask("/teach/state");
    if (first) openTab(TABS.includes(location.hash.slice(1)) ? location.hash.slice(1) : state.step);
    else show();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (state === null) Object.assign($("waiting"), {textContent: error.message, lang: error.lang});
  } finally {
    polling = null;
    ended();
    clearTimeout(pollTimer);
    pollTimer = setTimeout(poll, connected ? POLL_MS : RETRY_MS);
  }
}

function speak(name) {
  language = name;
  kept("language", name);
  applyTexts();
  if (state) { picturesKey = judgedKey = ""; historyAsked = marksAsked = 0; show(); showRegion(); if (judged) showJudge(); showPreview(); showPassed(); showMissed(); showScreenAgain(); }
}
$("language").onchange = () => speak($("language").value);
onPress($("unlock"), async () => {
  if (!isSupervisor()) return $("unlock-box").showModal();
  await fetch("/logout", {method: "POST", headers: {"X-Edgeseg": "page"}, body: ""});
  return location.reload();
});
$("unlock-form").onsubmit = async event => {
  event.preventDefault();
  const body = new URLSearchParams({token: $("unlock-token").value});
  try {
    const answer = await fetch("/login", {method: "POST", body});
    if (answer.ok) return location.reload();
    return complain($("unlock-box"), t("wrong_token"));
  } catch (error) { return complain($("unlock-box"), t("no_answer")); }
};
$("unlock-cancel").onclick = () => $("unlock-box").close();
addEventListener("hashchange", () => { if (TABS.includes(location.hash.slice(1))) openTab(location.hash.slice(1)); });
document.onvisibilitychange = () => { showStage(); poll(); askScreen(); };
applyTexts();
poll();
askScreen();
