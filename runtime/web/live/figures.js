// The figures for engineers: scores over time, drift, latency and events.
const KEEP = 1200, SPANS = [60, 300];
let span = SPANS[0], scores = [], lastEvent = 0, driftShown = "";

const lastBucket = () => scores.length ? scores[scores.length - 1][0] : 0;
function takeScores(news) {
  while (scores.length && news.length && scores[scores.length - 1][0] >= news[0][0]) scores.pop();
  scores = scores.concat(news).slice(-KEEP);
}
function forgetScores() { scores = []; driftShown = ""; }

function showPartFigures(part) {
  $("part-score").textContent = part && part.score != null ? t("score_of", {score: few(part.score), threshold: few(part.threshold)}) : "";
  [$("part-oddness").textContent, $("part-oddness").lang] = part ? part.oddness ? spoken(part, "oddness") : [part.reason, "en"] : ["", "en"];
  [$("part-told").textContent, $("part-told").lang] = part?.told ? spoken(part, "told") : ["", "en"];
}

function showFigures(now) {
  const size = now.size_hw ? `${now.size_hw[1]}×${now.size_hw[0]}` : "";
  const {model, backend, precision, uptime_s: up, fps_out: scored, fps_in: captured, errors} = state;
  showTable($("latency"), state.stages, {model, backend, precision, "up": short(up), source: now.name, size, "scored / s": scored, "captured / s": captured,
    scored: now.scored, ...now.verdicts, dropped: now.dropped, reconnects: now.reconnects, errors});
  $("accuracy").textContent = state.accuracy.map(a => `On ${a.dataset}: PRO ${few(a.pro)}, image AUROC ${few(a.image_auroc)} (${a.images} images).`).join(" ");
  showDrift(now.drift);
  drawScores();
}

function showDrift(drift) {
  $("drift-body").hidden = !drift || !["ok", "warn"].includes(drift.level);
  $("drift-message").textContent = drift ? sentence(drift.message) : "The model gives no grid of distances.";
  if ($("drift-body").hidden) return;
  const share = value => `${Math.round(100 * value)} %`, times = value => value == null ? "–" : "×" + number(value, 2);
  const facts = [["median d²", `${times(drift.median_ratio)}, limit ${times(drift.median_limit)}`], ["cells risen", `${share(drift.moved_share)}, limit ${share(drift.share_limit)}`],
    ["mean d²", times(drift.ratio)], ["brightness", times(drift.brightness)], ["sharpness", times(drift.sharpness)]];
  $("drift-body").querySelector("dl").replaceChildren(...facts.flatMap(([name, value]) => [said("dt", name), make("dd", {textContent: value, className: "said"})]));
  const key = source + ":" + Math.floor(Date.now() / 3000);  // the picture changes slowly
  if (key !== driftShown && state.age_s != null) {
    driftShown = key;
    $("drift-picture").src = `/drift/${source}.jpg?t=${key}`;
  }
}

async function showEvents() {
  const events = await ask(`/events?after=${lastEvent}`);
  for (const event of events) {
    lastEvent = Math.max(lastEvent, event.number);
    const detail = event.event === "alarm" && !event.reason ? `score ${few(event.score)} of ${few(event.threshold)}` : event.message || event.reason || "";
    $("event-list").prepend(make("li", {}, make("span", {className: "dim", textContent: clock(event.wall_s) + " "}),
      make("strong", {textContent: event.event.replaceAll("_", " ")}), ` ${event.source || ""} ${detail}`));
  }
  while ($("event-list").children.length > 100) $("event-list").lastChild.remove();
  $("no-events").hidden = lastEvent > 0;
}

function drawScores() {
  const canvas = $("chart"), ratio = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
  const colour = name => style.getPropertyValue("--" + name);
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * ratio; canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "12px system-ui, sans-serif";
  const end = state.now_s, begin = end - span, bucket = state.bucket_s;
  const points = scores.filter(p => p[0] * bucket >= begin - 1 && p[1] != null);
  const top = Math.max(state.threshold * 1.5, ...points.map(p => p[1] * 1.08), 1e-9);
  const left = 40, bottom = height - 20;
  const x = seconds => left + (seconds - begin) / span * (width - left - 6), y = value => bottom - value / top * (bottom - 8);
  pen.textBaseline = "middle";
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000], step = steps.find(s => top / s <= 5) || top;
  for (let value = 0; value <= top; value += step) {
    pen.strokeStyle = colour("line"); pen.beginPath(); pen.moveTo(left, y(value)); pen.lineTo(width, y(value)); pen.stroke();
    pen.fillStyle = colour("dim"); pen.textAlign = "right"; pen.fillText(number(value), left - 6, y(value));
  }
  pen.textAlign = "center"; pen.textBaseline = "bottom";
  for (let part = 0; part < 4; part++) {
    const ago = span * (1 - part / 4);
    pen.fillText(`−${short(ago)}`, Math.max(left + 14, x(end - ago)), height - 2);
  }
  pen.textAlign = "right"; pen.fillText(t("now"), width - 4, height - 2);
  pen.lineWidth = 1.6; pen.lineJoin = "round"; pen.strokeStyle = colour("mark"); pen.beginPath();
  let before = -1e9;  // a gap in the frames is a gap in the line
  for (const [at, value] of points) {
    const place = x(at * bucket);
    if ((at - before) * bucket > 2) pen.moveTo(place, y(value)); else pen.lineTo(place, y(value));
    before = at;
  }
  pen.stroke();
  pen.fillStyle = colour("bad");
  for (const [at, value, bad] of points) if (bad) {
    pen.beginPath(); pen.arc(x(at * bucket), y(value), 2.6, 0, 7); pen.fill();
  }
  pen.strokeStyle = colour("bad"); pen.lineWidth = 1.3; pen.setLineDash([6, 4]); pen.beginPath();
  pen.moveTo(left, y(state.threshold)); pen.lineTo(width, y(state.threshold)); pen.stroke(); pen.setLineDash([]);
  pen.textAlign = "left"; pen.fillText(t("threshold_at", {score: few(state.threshold)}), left + 4, y(state.threshold) - 2);
}

function showSpan() { $("span").textContent = span / 60 + " min"; }
$("span").onclick = () => {
  span = SPANS[(SPANS.indexOf(span) + 1) % SPANS.length];
  showSpan();
  if (state) drawScores();
};
showSpan();
$("figures").ontoggle = () => { if (state) { show(); poll(); } };
addEventListener("resize", () => { if (state && $("figures").open) drawScores(); });
