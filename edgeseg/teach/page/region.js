// Region: what is drawn is stored at once, so a reload loses nothing; each step can be undone.
let undone = [], regionAsked = false, regionLoaded = false, regionSaving = 0;

function rememberRegion() {
  if (sketch) return;
  try { sessionStorage.setItem("edgeseg.region", JSON.stringify({undone: undone.slice(-50), draft})); } catch (error) { /* forbidden */ }
}
async function loadRegion() {
  try {
    const told = await ask("/teach/region");
    if (sketch) return;  // it is asked again with the tab
    ({view, ...drawn} = told);
    const before = JSON.parse(sessionStorage.getItem("edgeseg.region") || "null");
    if (before) ({undone, draft} = before);
    if (draft.length) document.querySelector("input[name=tool][value=ignore]").checked = true;
    regionLoaded = true;
  } catch (error) {
    regionAsked = false;  // again with the next state
    complain($("region"), error.message, error.lang);
  }
  showStage();
  measureDrawing();
  showRegion();
}

async function change(next, {undoing = false} = {}) {
  if (sketch) { drawn = next; if (chosen !== null && !shapeOf(chosen)) chosen = null; return showSketch(); }
  const before = drawn;
  if (!undoing) undone.push(before);
  drawn = next;
  if (chosen !== null && !shapeOf(chosen)) chosen = null;
  if (anchorOf(drawn)) markWanted = false;
  rememberRegion();
  showRegion();
  const turn = ++regionSaving;
  const stored = await act("/teach/region", {roi: next.roi, ignore: next.ignore, locate: next.locate, drawn_on: next.drawn_on, smallest: next.smallest}, $("region"));
  if (turn !== regionSaving) return;
  if (stored) { view = stored.view; drawn = {...drawn, drawn_on: stored.drawn_on, seen: stored.seen, seen_said: stored.seen_said}; $("region-saved").textContent = t("region_saved"); showRegion(); }
  else { drawn = before; if (!undoing) undone.pop(); rememberRegion(); showRegion(); }  // as it is stored
}

// How parts lie. A mark has to be drawn first: until then parts are taken to lie alike.
let markWanted = false, lastMark = null;
const locateNow = () => markWanted || anchorOf(drawn) ? "anchor" : drawn.locate;
function pickTool(name) { document.querySelector(`input[name=tool][value=${name}]`).checked = true; }
function chooseLocate(wanted) {
  if (anchorOf(drawn)) lastMark = drawn.locate;
  const locate = wanted === "anchor" ? lastMark || "none" : wanted;
  markWanted = wanted === "anchor" && !lastMark;
  if (wanted === "anchor") pickTool("anchor");
  else if (tool() === "anchor") pickTool("roi");
  draft = [];
  if (locate !== drawn.locate) return change({...drawn, locate, drawn_on: locate === "none" ? "" : drawn.drawn_on});
  return showRegion();
}
for (const choice of document.querySelectorAll("input[name=locate]")) choice.onchange = () => chooseLocate(choice.value);

// How far parts with a mark may turn; what somebody wrote into the project is one more choice.
const turnNow = () => String(Number(anglesOf(drawn).slice(",angles=".length)));
function chooseTurn(degrees) {
  const angles = degrees === "0" ? "" : ",angles=" + degrees;
  if (anchorOf(drawn)) return change({...drawn, locate: "anchor:" + anchorOf(drawn).join() + angles});
  anglesWanted = angles;
  return showRegion();
}
function showTurns(writable) {
  const choices = [...document.querySelectorAll("input[name=turns]")], other = choices.pop(), now = turnNow();
  $("turns").hidden = locateNow() !== "anchor";
  if (!choices.some(choice => choice.value === now)) other.value = now;
  $("turns-other").hidden = other.value === "on";  // as long as it was never needed
  for (const choice of [...choices, other]) {
    choice.checked = choice.value === now;
    choice.disabled = !writable;
    choice.nextElementSibling.textContent = number(Number(choice.value), choice.value.includes(".") ? 1 : 0) + "°";
  }
}
for (const choice of document.querySelectorAll("input[name=turns]")) choice.onchange = () => chooseTurn(choice.value);

// What the last fit said of the way that is chosen.
const refusedLocate = fit => fit.state === "failed" && fit.setting?.name === "locate";
function showLocate(writable) {
  for (const choice of document.querySelectorAll("input[name=locate]")) {
    choice.checked = choice.value === locateNow();
    choice.disabled = !writable;
  }
  showTurns(writable);
  const drawnOn = referencePicture(), fit = state ? state.fit : {};
  $("tool-anchor").hidden = locateNow() !== "anchor";
  if (tool() === "anchor" && locateNow() !== "anchor") pickTool("roi");  // the mark was deleted
  $("locate-picture").textContent = locateNow() === "none" ? "" : drawnOn ? t("locate_drawn_on", {name: drawnOn.name}) : t("locate_no_picture");
  const refused = refusedLocate(fit) && fit.setting.value === drawn.locate;
  $("locate-refused").hidden = !refused;
  if (refused) $("locate-refused").lastElementChild.textContent = fit.sentence;
}

// The smallest defect that matters, and whether the model could see it.
$("smallest").onchange = () => change({...drawn, smallest: Math.max(0, Math.round(Number($("smallest").value) || 0))});
function showSmallest(writable) {
  if (document.activeElement !== $("smallest")) $("smallest").value = drawn.smallest || 0;
  $("smallest").disabled = !writable;
  const [words, lang] = drawn.smallest && drawn.seen ? spoken(drawn, "seen") : ["", language];
  $("smallest-seen").textContent = words;
  $("smallest-seen").lang = lang;
}

function deleteShape(key) {
  chosen = null;
  if (key === "anchor") { lastMark = null; anglesWanted = anglesOf(drawn); }
  change(putShape(key, null));
}

$("region-undo").onclick = () => {  // as fast as it is pressed: every press is one step
  if (draft.length) { draft.pop(); rememberRegion(); return showRegion(); }
  const before = undone.pop();
  markWanted = false;
  return before && change(before, {undoing: true});
};
onPress($("close-polygon"), closePolygon);
onPress($("add-shape"), addInMiddle);
onPress($("hold"), () => { held = !held; shownLive = ""; showStage(); showRegion(); });
for (const choice of document.querySelectorAll("input[name=tool]"))
  choice.onchange = () => { draft = []; rememberRegion(); showRegion(); };
addEventListener("keydown", event => {
  if (tab !== "region" && !sketch || event.target.tagName === "INPUT" && event.target.type === "number") return;
  if (event.key === "Escape" && draft.length) { draft = []; rememberRegion(); showRegion(); }
  else if (event.key === "Enter" && draft.length > 2 && event.target.tagName !== "BUTTON") closePolygon();
  else if ((event.ctrlKey || event.metaKey) && event.key === "z" && !sketch) $("region-undo").click();
  else return;
  event.preventDefault();
});

function numbers(key) {
  const box = key === "roi" ? drawn.roi : anchorOf(drawn);
  return ["x", "y", "w", "h"].map((side, index) => {
    const input = make("input", {type: "number", min: 0, max: size[index % 2], value: box[index], disabled: !isSupervisor(),
      ariaLabel: t("side_" + side) + ": " + nameOf(key)});
    input.onchange = () => {
      const next = [...(key === "roi" ? drawn.roi : anchorOf(drawn))];
      next[index] = clamp(Number(input.value), index < 2 ? 0 : 1, size[index % 2]);
      next[0] = Math.min(next[0], size[0] - next[2]);
      next[1] = Math.min(next[1], size[1] - next[3]);
      if (Math.min(...next) >= 0) change(putShape(key, cornersOf(next))); else input.value = box[index];
    };
    return make("label", {}, make("span", {textContent: t("side_" + side)}), input);
  });
}
function shapeLine(item) {
  const {key} = item, choose = make("button", {textContent: t("choose_shape"), ariaLabel: t("choose_shape") + ": " + nameOf(key),
    onclick: () => { chosen = key; showRegion(); }});
  choose.setAttribute("aria-pressed", String(key === chosen));
  const remove = make("button", {textContent: t("delete"), disabled: !isSupervisor(), ariaLabel: t("delete") + ": " + nameOf(key)});
  onPress(remove, () => deleteShape(key));
  return make("li", {}, make("span", {className: "name", textContent: nameOf(key)}), choose, remove,
    typeof key === "number" ? null : make("div", {className: "numbers"}, ...numbers(key)));
}

function showRegion() {
  if (sketch) return showSketch();
  const count = draft.length, writable = isSupervisor() && regionLoaded;
  showLocate(writable);
  showSmallest(writable);
  $("tool-help").textContent = !isSupervisor() ? t("needs_supervisor") : t(tool() === "ignore" && count ? "help_polygon" : "help_" + tool(), {n: number(count)});
  $("close-polygon").hidden = count < 3;
  $("region-undo").disabled = !writable || !count && !undone.length;
  $("add-shape").disabled = !writable;
  $("hold").hidden = inspecting() || Boolean(referencePicture());
  $("hold").setAttribute("aria-pressed", String(held));
  const items = keys().map(key => ({key, corners: shapeOf(key), chosen: key === chosen, writable}));
  if (!$("shapes").contains(document.activeElement) || document.activeElement.tagName !== "INPUT")
    showList($("shapes"), items, item => item.key, shapeLine);
  $("no-shapes").hidden = items.length > 0;
  showStage();
  measureDrawing();
}

jobs.push(() => {
  if (tab !== "region") { regionAsked = false; return; }  // good pictures may have come meanwhile
  if (!regionAsked) { regionAsked = true; loadRegion(); }
  showLocate(isSupervisor() && regionLoaded);  // a fit may have ended
});
addEventListener("resize", () => { if (tab === "region") showShapes(); });
