// The camera's picture, which keeps its place and its size whether or not there is one.
const LIVE_TABS = ["collect", "region", "fit"];
let shownLive = "", held = true;

function showStage() {
  const live = $("live"), wanted = (LIVE_TABS.includes(tab) || sketch) && !document.hidden && connected;
  const still = tab === "region" && (held || inspecting() || Boolean(referencePicture()));
  const source = !wanted ? "" : sketch ? sketch.picture : still ? stillPicture() : "/teach/live.mjpg";
  $("stage").hidden = !LIVE_TABS.includes(tab) && !sketch;
  $("drawing").toggleAttribute("hidden", tab !== "region" && !sketch);
  if (source === shownLive) return;
  shownLive = source;
  live.hidden = true;
  $("waiting").hidden = false;
  if (source) live.src = source + (source.includes("?") ? "&" : "?") + "t=" + Date.now();
  else live.removeAttribute("src");  // a hidden page asks for nothing
}

const inspecting = () => state !== null && state.run.state !== "stopped";

// Without a camera, and while the station shows no more than its region, a region is drawn on a
// picture of the project: those are whole. Where parts are followed, it is the one they go from.
function stillPicture() {
  const drawnOn = referencePicture(), camera = state && state.camera.ok;
  if (drawnOn) return thumbnail(drawnOn.kind, drawnOn.name, 1600);
  if (camera && !(view && inspecting())) return "/teach/live.jpg";
  return view ? thumbnail("good", view.name, 1600) : "";  // which comes with the region
}

function showLive() {
  if (!$("live").hidden) return;
  $("live").hidden = false;
  $("waiting").hidden = true;
  measureDrawing();
}
$("live").onload = showLive;
$("live").onerror = () => {
  $("live").hidden = true;
  $("waiting").hidden = false;
  shownLive = "";
  if (!document.hidden && connected) setTimeout(showStage, 1500);
};

jobs.push(() => {
  const camera = state.camera, pill = $("camera");
  const [words, rate] = pill.children, said = t(camera.ok ? "camera_ok" : "camera_lost");
  if (words.textContent !== said) words.textContent = said;  // announced when it changes
  rate.textContent = camera.ok ? " " + t("per_second", {n: number(camera.fps)}) : "";
  pill.className = "pill " + (camera.ok ? "good" : "bad");
  const [told, lang] = spoken(camera), waits = camera.ok || !camera.sentence;
  pill.title = told;
  $("waiting").textContent = waits ? t("waiting_picture") : told;
  $("waiting").lang = waits ? language : lang;
  showStage();
  if (shownLive && $("live").naturalWidth) showLive();  // not every browser says that a stream has begun
});
reconnected.push(showStage);
