// A missed defect: the last parts that passed, one of them drawn on, and those that wait to be learned.
let passed = [], missed = [], missedAsked = 0, partsAsked = false;

async function loadParts(question) {
  const told = await question;
  if (!told) return;
  passed = told.items;
  $("missed-kinds").replaceChildren(...told.kinds.map(kind => make("option", {value: kind})));
  showPassed();
}
onPress($("missed-look"), async () => {
  if (sketch) endSketch();
  await loadParts(act("/teach/look", {}, $("missed-card")));
  $("missed-hint").textContent = t(passed.length ? "missed_intro" : "missed_no_parts");
});

const partName = part => t("missed_part", {name: part.part || part.id, time: clock(part.when)});
function showPassed() {
  $("missed-look").textContent = t(passed.length ? "missed_again" : "missed_look");
  showList($("missed-parts"), passed, part => part.id, part => {
    const element = card({picture: part.picture, large: part.large, title: partName(part), actions: [[t("missed_choose"), () => startSketch(part)]],
      lines: [make("p", {}, make("strong", {textContent: verdictWord(part)}), " ", said("span", part.part || "")),
        make("p", {className: "dim", textContent: [clock(part.when), t("score_is", {score: few(part.score)})].join(" · ")})]});
    element.dataset.part = part.id;
    return element;
  });
}

function startSketch(part) {
  if (sketch) endSketch();
  regionSaving++;  // what is on its way belongs to the region
  sketch = {part, size: [part.width, part.height], picture: part.large + "?width=1600", region: {drawn, draft, chosen}};
  drawn = {roi: null, ignore: [], locate: "none", drawn_on: "", smallest: 0};
  [draft, chosen] = [[], null];
  complain($("missed-card"), "");
  $("missed-stage").append($("stage"));
  showStage();
  showSketch();
  $("missed-which").focus();
}
function endSketch() {
  ({drawn, draft, chosen} = sketch.region);
  sketch = null;
  $("asked").after($("stage"));
  showStage();
  showSketch();
}
function showSketch() {
  $("missed-sketch").hidden = !sketch;
  $("missed-parts").hidden = Boolean(sketch);
  if (!sketch) return;
  $("missed-which").textContent = partName(sketch.part);
  $("missed-help").textContent = t(tool() === "box" ? "help_missed_box" : "help_missed_outline");
  $("missed-close").hidden = draft.length < 3;
  measureDrawing();
}
for (const choice of document.querySelectorAll("input[name=missed-tool]")) choice.onchange = () => { draft = []; showSketch(); };
onPress($("missed-close"), closePolygon);
onPress($("missed-add"), addInMiddle);
onPress($("missed-stop"), endSketch);
onPress($("missed-store"), async () => {
  const kind = $("missed-kind").value.trim(), name = personName(), {id, part} = sketch.part;
  for (const [there, key, place] of [[drawn.ignore.length, "missed_draw_first", $("missed-add")], [kind, "missed_kind_first", $("missed-kind")], [name, "name_needed", $("missed-person")]])
    if (!there) { complain($("missed-card"), t(key)); return place.focus(); }
  const stored = await act("/teach/missed", {card: {id, part}, kind, outlines: drawn.ignore, name}, $("missed-card"));
  if (!stored) return undefined;
  endSketch();
  toast(t("missed_stored", {kind: stored.kind}));
  return missedChanged();
});

// What waits: here and in the preview it can be taken back.
async function loadMissed() {
  missedAsked = Date.now();
  try { missed = await ask("/teach/missed"); } catch (error) { complain($("missed-card"), error.message, error.lang); }
}
async function missedChanged() {
  preview = null;
  showPreview();
  await loadMissed();
  showMissed();
}
async function withdrawMissed(item, place) {
  const name = personName();
  if (!name) { complain(place, t("name_needed")); return $("person").focus(); }
  if (!await act("/teach/missed/withdraw", {id: item.id, name}, place)) return undefined;
  toast(t("withdrawn", {name: item.id}));
  return missedChanged();
}
function missedCard(item, place, lines = []) {
  const who = item.known ? t("missed_by", {name: item.name, who: t("who_" + item.who)}) : t("missed_nobody");
  return card({picture: item.picture, large: item.large, title: item.part || item.id, actions: [[t("withdraw_all"), () => withdrawMissed(item, place), !item.known || item.who === "supervisor"]],
    lines: [make("p", {}, said("strong", item.kind), " ", said("span", item.part || item.id)), make("p", {className: "dim", textContent: who}), ...lines]});
}
function missedCards(title, items, words) {  // of a preview
  return listOf(title, items.map(item => {
    const there = missed.find(one => one.file === item.name), line = saidOf("p", item, words);
    return there ? missedCard(there, $("learn"), [line]) : card({title: item.name, lines: [said("p", item.name), line]});
  }));
}
function showMissed() {
  $("missed-waiting").hidden = !missed.length;
  $("missed-count").textContent = t("missed_waiting", {n: number(missed.length)});
  showList($("missed-waiting").querySelector("ul"), missed, item => item.id + state?.role, item => missedCard(item, $("missed-card")));
}

jobs.push(() => {
  $("missed-card").hidden = tab !== "run";
  if (tab !== "run") { if (sketch) endSketch(); return; }
  if (!partsAsked) { partsAsked = true; loadParts(ask("/teach/parts").catch(() => null)); }  // a page that is loaded again
  const count = state.missed ?? 0;
  if (count !== missed.length && Date.now() - missedAsked > 1000) loadMissed().then(showMissed);
});
