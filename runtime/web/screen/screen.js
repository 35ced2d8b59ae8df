// The operator's screen: the newest part, the last reject and the shift. A part is shown once its
// own picture has come, and both change in one step: verdict and picture are of one part, always.
const KINDS = {good: "good", unsure: "warn", defect: "bad", invalid: "warn", not_found: "warn", no_inspection: "bad"};
const SIGNS = {good: "✓", unsure: "?", defect: "✕", invalid: "!", not_found: "?", no_inspection: "!"};
const COUNTED = ["parts", "good", "defect"], SELDOM = ["unsure", "invalid", "not_found", "missed", "no_inspection"];
const SCREEN_MS = 200, SCREEN_RETRY_MS = 2000;
let screenNow = null, source = 0, screenTimer = 0, screenAsking = false, announcedAlarm = null;

const verdictWord = part => `${SIGNS[part.verdict] || "!"} ${t("verdict_" + part.verdict)}`;
const whatToDo = ({why, verdict}) => t("do_" + (LANGUAGES[language].texts["do_" + why] ? why : verdict));
const nameOfPart = part => [part.part || t("part_unnamed"), part.variant, clock(part.when)].filter(Boolean).join(" · ");

// A place for one part after the other. While a picture is on its way, the part before is shown.
function partPlace(view, show) {
  let shown = null, wanted = null, loading = false, cleared = 0;
  const put = (part, image) => {
    for (const old of view.querySelectorAll("img")) old.remove();
    if (image) view.append(image);
    view.classList.toggle("empty", !image);
    view.dataset.part = part ? part.id : "";
    shown = part;
    show(part);
  };
  async function load() {
    loading = true;
    while (wanted && wanted.id !== shown?.id) {
      const part = wanted, before = cleared, image = part.picture && make("img", {alt: t("part_alt"), decoding: "sync"});
      const came = !image || await new Promise(ended => {
        image.onload = () => ended(true);
        image.onerror = () => ended(false);
        image.src = part.picture;
      });
      if (came && before === cleared) put(part, image);
      else if (wanted === part) wanted = null;  // it is kept no longer: the next answer has another
    }
    loading = false;
  }
  return {
    want(part) { wanted = part; if (!loading) load(); },
    clear() { wanted = null; cleared += 1; if (shown) put(null, null); },
    again() { show(shown); },
  };
}

const partPlaces = {part: partPlace($("part-view"), showPart), held: partPlace($("held-view"), showHeld)};

function showPart(part) {
  const halt = screenNow && screenNow.halt, kind = halt ? "bad" : part ? KINDS[part.verdict] || "warn" : "";
  const word = halt ? verdictWord({verdict: "no_inspection"}) : part ? verdictWord(part) : idleWord();
  $("verdict").className = "card " + kind;
  $("verdict").dataset.part = part && !halt ? part.id : "";
  $("verdict-word").textContent = word;
  $("verdict-word").classList.toggle("long", word.length > 11);
  $("verdict-do").textContent = halt ? whatToDo({why: halt.why, verdict: "no_inspection"}) : part ? whatToDo(part) : "";
  $("verdict-part").textContent = part && !halt ? nameOfPart(part) : "";
  showPartFigures(part);
}

function showHeld(part) {
  $("held").className = "card " + (part ? KINDS[part.verdict] || "warn" : "");
  $("held").dataset.part = part ? part.id : "";
  $("held-word").textContent = part ? verdictWord(part) : t("held_none");
  $("held-do").textContent = part ? whatToDo(part) : "";
  $("held-part").textContent = part ? nameOfPart(part) : "";
  $("held-seen").disabled = $("held-view").disabled = !part;
  if (part && announcedAlarm !== null && announcedAlarm !== part.id)
    $("announced").textContent = t("alarm_heard", {verdict: t("verdict_" + part.verdict), time: clock(part.when)});
  if (part) announcedAlarm = part.id;
}

// The last reject stays until the next one, or until somebody has seen it: by button or Escape.
const seenKey = () => "seen." + source;  // each source has a last reject of its own
function seeHeld() {
  const id = $("held").dataset.part;
  if (!id) return;
  kept(seenKey(), id);
  partPlaces.held.clear();
}
$("held-seen").onclick = seeHeld;
addEventListener("keydown", event => { if (event.key === "Escape" && !document.querySelector("dialog[open]")) seeHeld(); });
$("held-view").onclick = () => {
  const image = $("held-view").querySelector("img");
  if (image) enlarge(image.src, $("held-word").textContent + " · " + $("held-part").textContent);
};

function showShift({shift, total, trend}) {
  $("shift-since").textContent = shift ? t("shift_since", {time: clock(shift.begun_s)}) : t("shift");
  $("shift-begin").disabled = !shift;
  const counts = shift || {}, names = [...COUNTED, ...SELDOM.filter(name => counts[name])];
  const cells = [["yield", counts.parts ? percent(counts.good / counts.parts) : "–"], ...names.map(name => ["count_" + name, number(counts[name] ?? 0)])];
  $("counters").replaceChildren(...cells.map(([key, value]) => make("div", {}, make("dt", {textContent: t(key)}), make("dd", {textContent: value}))));
  const parts = trend.reduce((sum, [, count]) => sum + count, 0), rejected = trend.reduce((sum, [count]) => sum + count, 0);
  $("trend-words").textContent = [parts ? t("trend_words", {n: number(rejected), all: number(parts)}) : "", total ? t("total_words", {n: number(total.parts)}) : ""].filter(Boolean).join(" ");
  $("trend").replaceChildren(trendChart(trend));
}

// Each bar is the share of ten parts, one after the other, that was rejected.
function trendChart(trend) {
  const wide = 24, svg = draw("svg", {viewBox: `0 0 ${wide * 10} 40`, preserveAspectRatio: "none", role: "img", "aria-label": $("trend-words").textContent || t("trend")});
  trend.forEach(([rejected, parts], index) => {
    const height = 38 * rejected / parts, x = 10 * (wide - trend.length + index);
    svg.append(draw("rect", {x: x + 1, y: 38 - height, width: 8, height: height + 2, class: rejected ? "bad" : "good"}));
  });
  return svg;
}

onPress($("shift-begin"), async () => {
  if (confirm(t("shift_sure"))) await act("/shift", {begin: true}, $("shift"));
});

async function askScreen() {
  clearTimeout(screenTimer);
  if (screenAsking) return;
  screenAsking = true;
  try {
    if (!document.hidden && screenWanted()) {
      const asked = source, answer = await ask(`/screen?source=${asked}&seen=${encodeURIComponent(rejectsSeen)}`);
      if (asked === source) showScreen(answer);
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  } finally {
    screenAsking = false;
    clearTimeout(screenTimer);
    screenTimer = setTimeout(askScreen, connected ? SCREEN_MS : SCREEN_RETRY_MS);
  }
}

function showScreen(answer) {
  const first = !screenNow, changed = first || JSON.stringify(answer.halt) !== JSON.stringify(screenNow.halt);
  screenNow = answer;
  if (answer.halt || !answer.part) { partPlaces.part.clear(); if (changed || !answer.part) showPart(null); }
  else partPlaces.part.want(answer.part);
  showShift(answer);
  if (first) showHeld(null);
  if (first && answer.part) return;  // its verdict comes before all else
  if (answer.held && answer.held.id !== kept(seenKey())) partPlaces.held.want(answer.held);
  else { partPlaces.held.clear(); if (!$("held").dataset.part) showHeld(null); }
  if (announcedAlarm === null && !answer.held) announcedAlarm = "";
  countNewRejects(answer.new);
}

function showScreenAgain() {  // in another language, or of another source
  if (!screenNow) return;
  for (const place of Object.values(partPlaces)) place.again();
  showShift(screenNow);
  showRejects();
}

// What has drifted, and what to check, by the kind that the watch has found.
const driftWords = drift => drift && drift.level === "warn" ? t("drift_" + drift.kind) : "";
function showNotice(text, kind = "warn") {
  $("notice").className = text ? kind : "";
  if ($("notice").textContent !== text) $("notice").textContent = text;
}
