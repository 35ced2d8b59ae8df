// Judge: what the fit is worth, and how many false alarms are accepted for what it finds.
const WORST = 12;  // more of them have no map
let judged = null, judgedKey = "", rateChanging = false;

async function loadJudge(now) {
  const model = state.model, key = [state.fit.state, model && model.when, model && model.version, state.good, state.bad, state.look, language, state.role].join();
  if (!now && key === judgedKey) return;
  judgedKey = key;
  if (state.fit.state === "none" && !model) { judged = null; return showJudge(); }
  try { judged = await ask("/teach/judge"); } catch (error) { judged = null; }
  showJudge();
}

function rowNow() { return judged.table[Number($("rate").value)]; }

function showJudge() {
  $("judged").hidden = $("look-card").hidden = $("worst-card").hidden = !judged;
  $("bad-card").hidden = !judged || !judged.bad.length;
  $("no-judge").hidden = Boolean(judged);
  if (!judged) return;
  $("rate").max = judged.table.length - 1;
  if (!rateChanging) $("rate").value = nearest(judged.table.map(row => row.per_thousand), judged.chosen);
  $("rate").disabled = !isSupervisor();
  showRate();
  showLook();
  const others = judged.worst.filter(item => !item.asks).slice(0, WORST);
  $("worst-card").hidden = !others.length;
  showList($("worst"), others, item => item.name + state.role, worstCard);
  showList($("bad-list"), judged.bad, item => item.name, item => card({picture: mapOf(item.name), title: item.name,
    lines: [said("p", item.name), make("p", {textContent: t("score_is", {score: few(item.score)})}),
      make("p", {textContent: t(item.found ? "bad_found" : "bad_missed"), className: item.found ? "" : "flag"})]}));
}
const nearest = (values, wanted) => values.reduce((best, value, index) =>
  Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? index : best, 0);
const mapOf = name => "/teach/maps/" + encodeURIComponent(name);

const oddness = item => item.oddest ? " · " + t("oddest", {n: number(judged.parts - 1)}) : item.p_value == null || item.p_value > .34 ? ""
  : " · " + t("one_in", {n: number(Math.max(1, Math.round(1 / item.p_value)))});

// What sets the threshold, or looks like no other, stands first: somebody has to say that it is good.
function showLook() {
  const {asks, waiting, gone} = judged, added = judged.new;
  $("look-title").textContent = t(waiting === 1 ? "look_one" : waiting ? "look_some" : asks.length ? "look_done" : "look_none", {n: number(waiting)});
  $("look-intro").hidden = !asks.length;
  showList($("look"), judged.worst.filter(item => item.asks), item => item.name + state.role, lookCard);
  $("changed").hidden = !gone && !added;
  $("changed-words").textContent = [gone ? t(gone === 1 ? "gone_one" : "gone_some", {n: number(gone)}) : "", added ? t(added === 1 ? "new_one" : "new_some", {n: number(added)}) : ""].filter(Boolean).join(" ");
  $("fit-again").disabled = !isSupervisor();
  $("judge-next").classList.toggle("main", !waiting && !gone);
}

function lookCard(item) {
  return card({picture: mapOf(item.name), title: item.name, kind: item.kept ? "kept" : "asks",
    lines: [said("p", item.name), make("p", {textContent: t("score_is", {score: few(item.score)}) + (item.oddest ? oddness(item) : "")}),
      item.threshold_without == null ? null : make("p", {textContent: t("decides", {score: few(item.threshold_without)}), className: "flag"}),
      item.foreign ? make("p", {textContent: t("foreign"), className: "flag"}) : null],
    actions: [[t(item.kept ? "kept" : "keep"), () => keepPicture(item.name), true, item.kept],
      [t("remove_bad"), async () => { await removePicture(item.name, $("look-card")); await loadJudge(true); goOn(); }, true]]});
}

async function keepPicture(name) {
  if (!await act("/teach/keep", {name}, $("look-card"))) return;
  await loadJudge(true);
  goOn();
}
// The next thing to do has the focus: the card that was pressed is another one now, or gone.
const goOn = () => ($("look").querySelector(".asks .actions button") || ($("changed").hidden ? $("judge-next") : $("fit-again"))).focus();

function worstCard(item) {
  return card({picture: mapOf(item.name), title: item.name,
    lines: [said("p", item.name), make("p", {textContent: t("score_is", {score: few(item.score)}) + oddness(item)})],
    actions: [[t("remove"), async () => { await removePicture(item.name, $("worst-card")); await loadJudge(true); }, true]]});
}

function showRate() {
  const row = rowNow(), rate = t("rate_words", {n: few(row.per_thousand)});
  $("rate-words").textContent = rate;
  $("rate").setAttribute("aria-valuetext", rate);
  $("not-kept").hidden = row.kept !== false;
  const [promise, lang] = row.kept ? [t("promise", {n: few(row.per_thousand), all: number(1000)}), language] : spoken(row, "promise");
  $("promise").textContent = promise;
  $("promise").lang = lang;
  [$("judge-sentence").textContent, $("judge-sentence").lang] = spoken(judged, "guarantee");
  const items = [["threshold", few(row.threshold)], ["planted_found", percent(row.planted_found), row.warning], ["bad_share", percent(row.bad_found), row.bad_found < 1 && row.bad_found != null]];
  if (row.good_alarms != null) items.push(["good_alarms", few(row.good_alarms)]);
  $("recall").replaceChildren(...items.map(([key, value, low]) => make("div", {className: low ? "flag" : ""}, make("dt", {textContent: t(key)}),
    make("dd", {textContent: (low ? "⚠ " : "") + value}))));
  $("smallest-found").hidden = !row.smallest;
  if (row.smallest) [$("smallest-found").textContent, $("smallest-found").lang] = spoken(row, "smallest");
  $("weak").hidden = !row.warning;
  if (row.warning) [$("weak").textContent, $("weak").lang] = spoken(row, "warning");
  const loss = row.loss;  // against what runs; null where nothing of this fit does
  $("rate-loss").hidden = !loss || !(loss.planted_lost || loss.known_lost || loss.asks);
  if (loss) [$("rate-loss").textContent, $("rate-loss").lang] = spoken(loss);
  $("chooser").hidden = !loss?.asks;
  $("histogram").replaceChildren(histogram(judged.scores, row.threshold));
}

// Three rows over one axis: held-out good parts, planted defects, known bad parts.
function histogram(scores, threshold) {
  const width = Math.max(280, $("histogram").clientWidth), left = 2, right = width - 2, lane = 74;
  const edges = scores.edges, count = edges.length - 1, step = (right - left) / count;
  const rows = ["good", "planted", "bad"].filter(name => (scores[name] || []).some(n => n));
  const bottom = 18 + rows.length * lane, parts = [], labels = [];
  let at = edges.findIndex((edge, index) => index < count && threshold < edges[index + 1]);
  const x = at < 0 ? right : left + step * (at + Math.max(0, (threshold - edges[at]) / ((edges[at + 1] - edges[at]) || 1)));
  parts.push(draw("rect", {class: "stopped", x, y: 18, width: Math.max(0, right - x), height: bottom - 18}));
  rows.forEach((name, index) => {
    const values = scores[name], most = Math.max(...values), base = 18 + (index + 1) * lane, all = values.reduce((sum, n) => sum + n, 0);
    values.forEach((n, bin) => {
      const height = n ? Math.max(2, (lane - 26) * n / most) : 0;
      if (n) parts.push(draw("rect", {class: name, x: left + bin * step + .5, y: base - height, width: Math.max(1, step - 1), height}));
    });
    parts.push(draw("line", {class: "axis", x1: left, x2: right, y1: base, y2: base}));
    const label = draw("text", {x: left, y: base - lane + 18});
    label.textContent = t("lane_" + name, {n: number(all)});
    labels.push(label);  // over the line of the threshold
  });
  for (const share of [0, .25, .5, .75, 1]) {
    const tick = draw("text", {x: left + share * (right - left), y: bottom + 16, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle"});
    tick.textContent = few(edges[Math.round(share * count)]);
    parts.push(tick);
  }
  parts.push(draw("line", {class: "limit", x1: x, x2: x, y1: 16, y2: bottom}));
  const middle = x < width / 2, words = draw("text", {class: "over", x: x + (middle ? 5 : -5), y: 12, "text-anchor": middle ? "start" : "end"});
  words.textContent = t("threshold_at", {score: few(threshold)});
  parts.push(words);
  const svg = draw("svg", {width, height: bottom + 22, viewBox: `0 0 ${width} ${bottom + 22}`, role: "img", "aria-label": t("histogram_alt", {score: few(threshold)})});
  svg.append(...parts, ...labels);
  return svg;
}

$("rate").oninput = () => { rateChanging = true; showRate(); };
$("rate").onchange = async () => {
  const chosenRow = await act("/teach/choose", {per_thousand: rowNow().per_thousand, name: personName()}, $("judged"));
  rateChanging = false;
  if (chosenRow) judged.chosen = chosenRow.per_thousand ?? rowNow().per_thousand;
  await loadJudge(true);
};
onPress($("fit-again"), () => openTab("fit"));
onPress($("judge-next"), () => {
  const {waiting, gone} = judged;
  if (isSupervisor() && (waiting || gone)) {
    complain($("look-card"), t(waiting ? "look_first" : "fit_first"));
    $("look-card").scrollIntoView();
    return goOn();
  }
  openTab("run");
});
jobs.push(() => {
  $("look-badge").hidden = !state.look;
  $("look-badge").textContent = number(state.look);
  $("look-badge").title = t("look_badge", {n: number(state.look)});
});
jobs.push(() => { if (tab === "judge") loadJudge(false); });
addEventListener("resize", () => { if (tab === "judge" && judged) showRate(); });
