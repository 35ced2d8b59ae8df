// The rejects, a page at a time. What is shown stands still: other cards come when somebody asks
// for them, and a mark is of the card on which the finger came down.
const REJECTS = 12, MARKS_MS = 2000;
let rejects = null, alarms = [], rejectsSeen = "", rejectsAsked = 0, pressedCard = null;

async function loadRejects(head = "") {
  rejectsAsked = Date.now();
  let page;
  try { page = await ask(`/rejects?most=${REJECTS}&head=${encodeURIComponent(head)}`); } catch (error) { return; }
  rejects = page;
  alarms = page.items;
  if (page.head > rejectsSeen) rejectsSeen = page.head;
  if (!page.newer) countNewRejects(0);
  showRejects();
}

function showRejects() {
  if (!rejects) return;
  $("no-alarms").hidden = alarms.length > 0;
  $("rejects-newer").disabled = !rejects.newer;
  $("rejects-older").disabled = !rejects.older;
  showList($("alarms"), alarms, alarm => alarm.id + state?.role, rejectCard);
}

function countNewRejects(count) {
  $("rejects-new").textContent = t(count === 1 ? "rejects_new_one" : "rejects_new", {n: number(count)});
  $("rejects-new").disabled = !count;
  if (!rejects || !alarms.length && count) loadRejects();  // where there is no card, none moves
  else if (canMark && Date.now() - rejectsAsked > MARKS_MS) loadRejects(rejects.head);  // others mark too
}
for (const [id, head] of [["rejects-new", () => ""], ["rejects-newer", () => rejects.newer], ["rejects-older", () => rejects.older]])
  onPress($(id), async () => {
    await loadRejects(head());
    $("alarms").scrollLeft = 0;
  });

$("alarms").addEventListener("pointerdown", event => { pressedCard = event.target.closest("li")?.dataset.part ?? null; });
$("alarms").addEventListener("keydown", () => { pressedCard = null; });

function rejectCard(alarm) {
  const marks = alarm.marks || [], counting = marks.filter(one => one.counts !== false);
  const mark = value => [t("mark_" + value), () => markAlarm(alarm, value), false, counting.length > 0 && counting.every(one => one.mark === value)];
  const element = card({picture: alarm.picture, large: alarm.large, marked: alarm, title: t("alarm_title", {time: clock(alarm.when)}),
    lines: [make("p", {}, make("strong", {textContent: verdictWord(alarm)}), " ", said("span", alarm.part || "")),
      alarm.told ? saidOf("p", alarm, "told") : null,  // the kind it is like, and why it is odd
      make("p", {className: "dim", textContent: [clock(alarm.when), t("score_is", {score: few(alarm.score)})].join(" · ")}),
      marks.length ? make("p", {textContent: t("marked", {list: marks.map(markWords).join(", ")})}) : null],
    actions: canMark ? [mark("good"), mark("defect"), mark("ignore")] : []});
  element.dataset.part = alarm.id;
  return element;
}
const markWords = one => `${t("mark_" + one.mark)} (${one.name}, ${t("who_" + one.who)})`;

async function markAlarm(alarm, mark) {
  const name = personName(), pressed = {id: pressedCard ?? alarm.id, part: alarm.part || ""};
  pressedCard = null;
  if (!name) {
    complain($("alarms-card"), t("name_needed"));
    return $("person").focus();
  }
  const marked = await act("/teach/mark", {alarm: alarm.id, card: pressed, mark, name}, $("alarms-card"));
  if (marked) await loadRejects(rejects.head);
  return undefined;
}
