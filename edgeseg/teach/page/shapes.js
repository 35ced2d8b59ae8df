// Shapes over the camera's picture: drawing, choosing and moving them by mouse, finger and keys.
const NEAR = 16;  // pixels of the screen
let sketch = null;  // {part, size, picture, region}: a missed defect is drawn, and not the region
let drawn = {roi: null, ignore: [], locate: "none", drawn_on: "", smallest: 0}, draft = [], chosen = null, size = [640, 480], drag = null;

const anchorOf = region => region.locate.startsWith("anchor:") ? region.locate.slice(7).split(",").slice(0, 4).map(Number) : null;
let anglesWanted = "";  // of a mark that is still to be drawn
const anglesOf = region => anchorOf(region) ? region.locate.match(/,angles=.*/)?.[0] || "" : anglesWanted;
const tool = () => document.querySelector(`input[name=${sketch ? "missed-tool" : "tool"}]:checked`).value;
const mayDraw = () => sketch !== null || isSupervisor() && regionLoaded;
const newKey = () => ["roi", "anchor"].includes(tool()) ? tool() : drawn.ignore.length;
const clamp = (value, low, high) => Math.round(Math.max(low, Math.min(high, value)));

function measureDrawing() {  // the camera's own pixels, however large its picture is shown
  const camera = state && state.camera, drawnOn = referencePicture();
  const known = drawnOn ? drawnOn.size : camera && camera.ok && camera.width ? [camera.width, camera.height] : null;
  size = sketch?.size || known || view?.size || [$("live").naturalWidth || 640, $("live").naturalHeight || 480];
  $("drawing").setAttribute("viewBox", `0 0 ${size[0]} ${size[1]}`);
  showShapes();
}
let view = null;  // {name, size, reference: {name, size, kind}}: to draw on where the camera's picture does not do
// A fit takes the part of one picture as the place that shapes go with it from.
const referencePicture = () => locateNow() !== "none" && view ? view.reference : null;

const perPixel = () => { const matrix = $("drawing").getScreenCTM(); return matrix && matrix.a ? 1 / matrix.a : 1; };
function place(event) {
  const matrix = $("drawing").getScreenCTM(), point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
  return [clamp(point.x, 0, size[0]), clamp(point.y, 0, size[1])];
}

// A shape by its key: "roi", "anchor", or the number of a polygon; its corners are its handles.
const cornersOf = ([x, y, w, h]) => [[x, y], [x + w, y], [x + w, y + h], [x, y + h]];
function shapeOf(key) {
  return key === "roi" ? drawn.roi && cornersOf(drawn.roi) : key === "anchor" ? anchorOf(drawn) && cornersOf(anchorOf(drawn)) : drawn.ignore[key];
}
function boxOf(corners) {
  const xs = corners.map(c => c[0]), ys = corners.map(c => c[1]), x = Math.min(...xs), y = Math.min(...ys);
  return [x, y, Math.max(1, Math.max(...xs) - x), Math.max(1, Math.max(...ys) - y)];
}
function putShape(key, corners) {
  const next = structuredClone(drawn);
  if (key === "roi") next.roi = corners && boxOf(corners);
  else if (key === "anchor") next.locate = corners ? "anchor:" + boxOf(corners).join() + anglesOf(drawn) : "none";
  else if (corners) next.ignore[key] = corners; else next.ignore.splice(key, 1);
  return next;
}
function withCorner(key, index, point) {
  const corners = structuredClone(shapeOf(key));
  if (typeof key === "number") { corners[index] = point; return putShape(key, corners); }
  return putShape(key, [point, corners[(index + 2) % 4]]);  // the opposite corner stays
}
function moved(key, dx, dy) {
  const corners = shapeOf(key), [x, y, w, h] = boxOf(corners);
  dx = clamp(x + dx, 0, Math.max(0, size[0] - w)) - x;
  dy = clamp(y + dy, 0, Math.max(0, size[1] - h)) - y;
  return putShape(key, corners.map(c => [c[0] + dx, c[1] + dy]));
}
const keys = () => [drawn.roi && "roi", anchorOf(drawn) && "anchor", ...drawn.ignore.keys()].filter(key => key !== null);
const nameOf = key => typeof key === "number" ? t(sketch ? "shape_missed" : "shape_ignore", {n: key + 1}) : t("shape_" + key);

function showShapes() {
  const svg = $("drawing"), focus = document.activeElement?.dataset?.at, unit = perPixel();
  const touch = matchMedia("(pointer: coarse)").matches, parts = [];
  if (drawn.roi) {
    const [x, y, w, h] = drawn.roi;
    parts.push(draw("path", {class: "outside", d: `M0 0H${size[0]}V${size[1]}H0Z M${x} ${y}h${w}v${h}h${-w}Z`}));
  }
  for (const key of keys()) {
    const kind = typeof key !== "number" ? key : sketch ? "missed" : "ignore";
    parts.push(draw("polygon", {points: shapeOf(key).map(c => c.join()).join(" "), class: kind + (key === chosen ? " chosen" : ""),
      tabindex: 0, role: "button", "aria-label": nameOf(key), "data-key": key, "data-at": key}));
  }
  if (chosen !== null && shapeOf(chosen)) shapeOf(chosen).forEach((corner, index) => parts.push(draw("circle", {
    cx: corner[0], cy: corner[1], r: (touch ? 13 : 8) * unit, tabindex: 0, role: "button", "data-key": chosen, "data-corner": index,
    "data-at": chosen + ":" + index, "aria-label": t("corner", {n: index + 1, name: nameOf(chosen)})})));
  if (draft.length) {
    parts.push(draw("polyline", {class: "draft", points: draft.map(c => c.join()).join(" ")}));
    for (const corner of draft) parts.push(draw("circle", {cx: corner[0], cy: corner[1], r: 7 * unit, class: "draft-corner"}));
  }
  if (drag && drag.rect) {
    const [x, y, w, h] = boxOf(drag.rect);
    parts.push(draw("rect", {class: "draft", x, y, width: w, height: h}));
  }
  svg.replaceChildren(...parts);
  if (focus) svg.querySelector(`[data-at="${focus}"]`)?.focus();
}

function keyOf(target) {
  const key = target.dataset?.key;
  return key === undefined ? null : /^\d+$/.test(key) ? Number(key) : key;
}
$("drawing").onpointerdown = event => {
  if (!mayDraw() || event.button) return;
  $("drawing").setPointerCapture(event.pointerId);
  const at = place(event), key = draft.length ? null : keyOf(event.target), corner = event.target.dataset?.corner;
  drag = {at, from: drawn, key, corner: corner === undefined ? null : Number(corner), moved: false};
  if (key !== null) { chosen = key; showRegion(); }
};
$("drawing").onpointermove = event => {
  if (!drag) return;
  const at = place(event), dx = at[0] - drag.at[0], dy = at[1] - drag.at[1];
  if (!drag.moved && Math.hypot(dx, dy) < 4 * perPixel()) return;
  drag.moved = true;
  if (drag.key !== null) {
    drawn = drag.from;
    drawn = drag.corner === null ? moved(drag.key, dx, dy) : withCorner(drag.key, drag.corner, at);
  } else if (tool() !== "ignore") drag.rect = [drag.at, at];
  showShapes();
};
$("drawing").onpointerup = event => {
  if (!drag) return;
  const {from, key, rect} = drag, at = place(event), wasMoved = drag.moved;
  drag = null;
  if (key !== null) {
    const next = drawn;
    drawn = from;
    if (wasMoved) change(next); else showRegion();
  } else if (tool() === "ignore") addCorner(at);
  else if (rect) { chosen = newKey(); change(putShape(chosen, cornersOf(boxOf(rect)))); }
  else showShapes();
};
$("drawing").onpointercancel = () => { if (drag) drawn = drag.from; drag = null; showShapes(); };

function addCorner(at) {
  const near = draft.length > 2 && Math.hypot(at[0] - draft[0][0], at[1] - draft[0][1]) < NEAR * perPixel();
  if (near) return closePolygon();
  draft.push(at);
  rememberRegion();
  showRegion();
}
function closePolygon() {
  if (draft.length < 3) return;
  const corners = draft;
  draft = [];
  chosen = drawn.ignore.length;
  change({...drawn, ignore: [...drawn.ignore, corners]});
}

function addInMiddle() {  // for whoever draws with keys: a shape in the middle, to be moved
  const [w, h] = size.map(side => Math.round(side / 2)), box = cornersOf([Math.round(size[0] / 4), Math.round(size[1] / 4), w, h]);
  chosen = newKey();
  change(putShape(chosen, box));
  $("drawing").querySelector(`polygon[data-key="${chosen}"]`)?.focus();
}

const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
$("drawing").onkeydown = event => {
  const key = keyOf(event.target), corner = event.target.dataset?.corner;
  if (key === null || !mayDraw()) return;
  const step = event.shiftKey ? 10 : 1, arrow = ARROWS[event.key];
  if (arrow) {
    const [dx, dy] = arrow.map(part => part * step);
    if (corner === undefined) change(moved(key, dx, dy));
    else {
      const [x, y] = shapeOf(key)[corner];
      change(withCorner(key, Number(corner), [clamp(x + dx, 0, size[0]), clamp(y + dy, 0, size[1])]));
    }
  } else if (event.key === "Delete" || event.key === "Backspace") {
    const corners = shapeOf(key);
    if (corner !== undefined && typeof key === "number" && corners.length > 3) change(putShape(key, corners.filter((_, index) => index !== Number(corner))));
    else deleteShape(key);
  } else if (event.key === "Enter" || event.key === " ") { chosen = key; showRegion(); }
  else return;
  event.preventDefault();
};
