// The page of a stream: the operator's screen, its sources and buttons, and how it is connected.
const canMark = false, POLL_MS = 500, RETRY_MS = 2000;
const screenWanted = () => true;
const idleWord = () => t("run_running");
$("who").hidden = true;  // nobody marks here
let pollTimer = 0, polling = false, sourcesShown = "";

async function poll() {
  clearTimeout(pollTimer);
  if (document.hidden || polling) return;
  polling = true;
  const asked = source;
  try {
    const answer = await ask(`/state?source=${asked}&after=${lastBucket()}`);
    if (asked === source) { state = answer; takeScores(answer.scores); show(); }
    if ($("figures").open) await showEvents();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  } finally {
    polling = false;
    clearTimeout(pollTimer);
    pollTimer = setTimeout(poll, connected ? POLL_MS : RETRY_MS);
  }
}

function show() {
  const now = state.sources[source];
  if (!now) return;
  document.title = (now.alarm ? "● " : "") + state.title + " – edgeseg";
  $("title").textContent = state.title;
  const lost = !now.connected && !now.ended, age = state.age_s ?? state.uptime_s;
  const stale = state.stale_after_s != null && age > state.stale_after_s;  // without a limit somebody triggers, or nobody
  const status = t(lost ? "camera_lost" : stale ? "no_frames" : now.ended ? "ended" : "live");
  if ($("status").textContent !== status) $("status").textContent = status;
  $("status").className = "pill " + (lost || stale ? "bad" : now.ended ? "" : "good");
  const halt = screenNow && screenNow.halt;
  if (lost) showNotice(t("camera_lost_now"), "bad");
  else if (stale) showNotice(t("no_frames_for", {time: short(age)}), "bad");
  else if (halt) showNotice(t("halted", {why: halt.reason}), "bad");
  else showNotice(driftWords(now.drift));
  $("screen").classList.toggle("old", lost || stale);
  $("record").hidden = state.recording === null;
  $("record").setAttribute("aria-pressed", String(state.recording === true));
  $("record").textContent = t(state.recording ? "record_stop" : "record");
  showSources();
  showRecipes();
  showCheck();
  if ($("figures").open) showFigures(now);
  document.documentElement.dataset.ready = "yes";
}

const short = seconds => seconds < 90 ? number(seconds) + " s" : seconds < 5400 ? number(seconds / 60) + " min" : number(seconds / 3600, 1) + " h";

function showSources() {
  const key = JSON.stringify(state.sources.map(one => [one.name, one.alarm, one.connected])) + source;
  if (key === sourcesShown) return;
  sourcesShown = key;
  $("sources").hidden = state.sources.length < 2;
  const focused = [...$("sources").children].indexOf(document.activeElement);
  $("sources").replaceChildren(...state.sources.map((one, index) => {
    const mark = one.alarm ? "● " : one.connected || one.ended ? "" : "× ";
    const button = make("button", {textContent: mark + one.name, className: "said"});
    button.setAttribute("aria-pressed", String(index === source));
    button.onclick = () => chooseSource(index);
    return button;
  }));
  if (focused >= 0) $("sources").children[focused]?.focus();
}

function chooseSource(index) {
  source = index;
  sourcesShown = "";
  announcedAlarm = null;
  forgetScores();
  for (const place of Object.values(partPlaces)) place.clear();
  showHeld(null);
  poll();
  askScreen();
}

function showRecipes() {
  const choice = state.recipes, select = $("recipe");
  select.hidden = !choice;
  if (!choice) return;
  select.disabled = choice.loading;
  if (document.activeElement === select && !choice.loading) return;  // somebody is choosing
  const names = choice.names.includes(choice.current) ? choice.names : ["", ...choice.names];
  if (names.join("\n") !== [...select.options].map(option => option.value).join("\n"))
    select.replaceChildren(...names.map(name => make("option", {value: name, textContent: name || t("no_recipe"), className: "said"})));
  select.value = choice.current;
}
function showCheck() {
  const check = state.station && state.station.check;
  $("check").hidden = !state.recipes;
  $("check").disabled = check === "running";
  $("check").textContent = t("check_" + (["running", "passed", "failed"].includes(check) ? check : "none"));
}

// A button or a choice of this page: what was refused is said, and so is a station that takes nothing.
async function wish(path, body, refused) {
  try {
    const result = await answerOf(path, {method: "POST", headers: {"X-Edgeseg": "page"}, body: JSON.stringify(body)});
    if (result.accepted === false) alert(t(refused));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    alert(error.message);
  }
  await poll();
}
onPress($("check"), async () => { if (confirm(t("check_sure"))) await wish("/check", {check: true}, "check_refused"); });
onPress($("record"), () => wish("/recording", {active: state.recording !== true}));
$("recipe").onchange = async () => {
  const wanted = $("recipe").value;
  $("recipe").blur();
  if (!wanted || !confirm(t("recipe_sure", {name: wanted}))) return poll();
  return wish("/recipe", {recipe: wanted}, "recipe_refused");
};

$("language").onchange = () => {
  language = $("language").value;
  kept("language", language);
  applyTexts();
  sourcesShown = "";
  if (state) { show(); showScreenAgain(); }
};
document.onvisibilitychange = () => { poll(); askScreen(); };
reconnected.push(() => { for (const place of Object.values(partPlaces)) place.again(); });
applyTexts();
askScreen().then(poll);  // the verdict comes first
