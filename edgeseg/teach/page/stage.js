// The camera's picture, which keeps its place and its size whether or not there is one.
const LIVE_TABS = ["collect", "region", "fit", "run"];
let shownLive = "", held = true;

function showStage() {
  const live = $("live"), wanted = LIVE_TABS.includes(tab) && !document.hidden && connected;
  const still = tab === "region" && held;
  const source = !wanted ? "" : still ? stillPicture() : "/teach/live.mjpg";
  $("stage").hidden = !LIVE_TABS.includes(tab);
  $("stage").classList.toggle("free", tab === "run");
  $("drawing").toggleAttribute("hidden", tab !== "region");
  if (source === shownLive) return;
  shownLive = source;
  live.hidden = true;
  $("waiting").hidden = false;
  if (source) live.src = source + (source.includes("?") ? "&" : "?") + "t=" + Date.now();
  else live.removeAttribute("src");  // a hidden page asks for nothing
}

// Without a camera the region is drawn on a picture that was uploaded.
function stillPicture() {
  if (state && !state.camera.ok && pictures.good.length)
    return "/teach/pictures/good/" + encodeURIComponent(pictures.good[0].name) + "?width=1600";
  return "/teach/live.jpg";
}

$("live").onload = () => {
  $("live").hidden = false;
  $("waiting").hidden = true;
  measureDrawing();
};
$("live").onerror = () => {
  $("live").hidden = true;
  $("waiting").hidden = false;
  shownLive = "";
  if (!document.hidden && connected) setTimeout(showStage, 1500);
};

jobs.push(() => {
  const camera = state.camera, pill = $("camera");
  pill.textContent = camera.ok ? t("camera_ok", {fps: number(camera.fps)}) : t("camera_lost");
  pill.className = "pill " + (camera.ok ? "good" : "bad");
  pill.title = camera.sentence || "";
  $("waiting").textContent = camera.ok || !camera.sentence ? t("waiting_picture") : camera.sentence;
  showStage();
});
