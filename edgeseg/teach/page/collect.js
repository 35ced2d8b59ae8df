// Collect: pictures of good and bad parts, by hand, by themselves, or from files.
const FEW = 20;  // different parts, with which one may begin
const SHOWN = 60;  // pictures at a time
let autoChanging = false, kind = "good", picturesKey = "", picturesAsked = 0, offset = 0, revision = "";

const thumbnail = (of, name, width) => `/teach/pictures/${of}/${encodeURIComponent(name)}?width=${width}`;

function captureAs(wanted) {
  return async () => {
    const picture = await act("/teach/capture", {kind: wanted}, $("collect"));
    if (!picture) return;
    toast(t(wanted === "good" ? "captured_good" : "captured_bad", {name: picture.name}));
    await showPictures(true);
  };
}
$("capture").onclick = captureAs("good");  // as fast as parts come: every press counts
$("capture-bad").onclick = captureAs("bad");

for (const choice of document.querySelectorAll("input[name=auto]"))
  choice.onchange = async () => {
    autoChanging = true;
    await act("/teach/auto", {mode: choice.value}, $("collect"));
    autoChanging = false;
    showAuto();
  };
for (const choice of document.querySelectorAll("input[name=kind]"))
  choice.onchange = () => { kind = choice.value; offset = 0; showPictures(true); };
for (const [id, step] of [["newer", -SHOWN], ["older", SHOWN]])
  onPress($(id), () => { offset = Math.max(0, offset + step); return showPictures(true); });

async function showPictures(now) {
  const key = [kind, offset, language, state.role, state.good, state.bad, state.removed].join();
  if (!now && key === picturesKey && Date.now() - picturesAsked < 3000) return;  // flags come later
  const known = !now && key === picturesKey ? revision : "";  // of what is shown
  picturesKey = key;
  picturesAsked = Date.now();
  let answer;
  try {
    answer = await ask(`/teach/pictures/${kind}?offset=${offset}&most=${SHOWN}&revision=${encodeURIComponent(known)}`);
  } catch (error) { return complain($("pictures"), error.message, error.lang); }
  if (key !== picturesKey || answer.unchanged) return;
  revision = answer.revision;
  if (offset && offset >= answer.total) { offset = Math.max(0, offset - SHOWN); return showPictures(true); }  // the last ones have gone
  $("no-pictures").textContent = t("no_pictures_" + kind);
  $("no-pictures").hidden = answer.total > 0;
  $("pages").hidden = answer.total <= SHOWN;
  $("newer").disabled = !offset;
  $("older").disabled = offset + SHOWN >= answer.total;
  $("shown").textContent = t("shown_pictures", {first: number(offset + 1), last: number(offset + answer.items.length), all: number(answer.total)});
  showList($("thumbnails"), answer.items, item => kind + item.name + state.role, pictureCard);
}

function pictureCard(item) {
  const action = kind === "removed" ? [t("restore"), () => act("/teach/restore", {name: item.name}, $("pictures")), true]
    : [t("remove"), () => removePicture(item.name, $("pictures")), true];
  return card({picture: thumbnail(kind, item.name, 320), large: thumbnail(kind, item.name, 1600), title: item.name,
    lines: [said("p", item.name)], flags: spokenFlags(item), actions: [action],
    kind: item.flags.length ? "flagged" : ""});
}

async function removePicture(name, place) {
  const removed = await act("/teach/remove", {name}, place);
  if (removed === undefined) return;
  toast(t(removed.kind === "good" && state.model ? "removed_one" : "removed", {name}), async () => {
    if (await act("/teach/restore", {name}, place)) toast(t("restored_one", {name}));
  });
}

// A file's name as the project takes it: letters, digits, dots, dashes and underscores.
const cleanName = name => (name.normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[._-]+/, "") || "picture").slice(-100);

async function upload(files) {
  let done = 0;
  const wanted = kind === "bad" ? "bad" : "good", problems = [], line = $("pictures").querySelector(".problem");
  for (const file of files) {  // one at a time: the service decodes one at a time
    const name = cleanName(file.name);
    $("uploading").textContent = t("uploading", {done: number(done + 1), all: number(files.length)});
    if (file.size > state.max_upload) { problems.push([t("too_large", {name: file.name, mb: number(state.max_upload / 1e6)}), language]); continue; }
    const result = await act(`/teach/upload?kind=${wanted}&name=${encodeURIComponent(name)}`, file, $("pictures"));
    if (result) done += 1; else problems.push([(line.textContent.startsWith(name) ? "" : file.name + ": ") + line.textContent, line.lang]);
  }
  $("uploading").textContent = t(wanted === "good" ? "uploaded_good" : "uploaded_bad", {done: number(done)});
  line.hidden = !problems.length;
  line.replaceChildren(...problems.slice(0, 3).map(([textContent, lang]) => make("span", {lang, className: "said", textContent: textContent + " "})));
  await showPictures(true);
}
onPress($("upload"), () => $("upload-files").click());
$("upload-files").onchange = async () => { await upload([...$("upload-files").files]); $("upload-files").value = ""; };
for (const event of ["dragover", "drop", "dragleave"]) $("pictures").addEventListener(event, drag => {
  drag.preventDefault();
  $("pictures").classList.toggle("over", event === "dragover");
  if (event === "drop") upload([...drag.dataTransfer.files]);
});
for (const event of ["dragover", "drop"]) addEventListener(event, drag => drag.preventDefault());  // a miss opens no file

onPress($("auto-again"), () => act("/teach/auto", {mode: "parts"}, $("collect")));  // from now on this view is empty

function showAuto() {  // as it is, whatever was pressed
  for (const choice of document.querySelectorAll("input[name=auto]")) choice.checked = choice.value === state.capturing;
  const auto = state.auto || {}, on = state.capturing !== "off", parts = state.capturing === "parts";
  $("auto-state").hidden = !on;
  if (!on) return;
  $("auto-again").hidden = !parts;
  $("empty").hidden = !parts || !auto.empty;
  if (!$("empty").hidden && $("empty-view").dataset.name !== auto.empty) {
    $("empty-view").dataset.name = auto.empty;
    $("empty-view").src = "/teach/empty.jpg?name=" + encodeURIComponent(auto.empty);
  }
  const [words, lang] = spoken(auto);
  if ($("auto-words").textContent !== words) [$("auto-words").textContent, $("auto-words").lang] = [words, lang];
  $("auto-count").textContent = t("auto_count", {n: number(auto.taken)});
}

// How many different parts there are: pictures that show one again promise nothing more.
function showEnough() {
  const {different, pictures, needed, per_thousand: rate} = state.parts, counting = different == null, have = different ?? 0;
  const values = {n: number(pictures ?? state.good), parts: number(have), needed: number(needed), rate: few(rate / 10), left: number(needed - have), few: number(Math.min(FEW, needed))};
  $("parts-count").textContent = t(!state.good ? "parts_none" : counting ? "parts_counting" : have < pictures ? "parts_some" : "parts_all", values);
  $("parts-goal").textContent = t(have >= needed ? "goal_yes" : have < FEW ? "goal_few" : "goal_some", values);
  if (!counting || !state.good) $("enough").querySelector("i").style.width = Math.min(100, 100 * have / needed) + "%";
}

function showMeters() {
  $("meters").replaceChildren(...["focus", "light", "motion"].map(name => {
    const meter = (state.meters || {})[name] || {value: 0, word: ""};
    const words = LANGUAGES[language].texts["meter_" + meter.word.replace(" ", "_")] ?? meter.word;
    const bar = make("div", {className: ["sharp", "good", "still"].includes(meter.word) ? "bar" : "bar low", role: "meter", ariaLabel: t("meter_" + name)}, make("i"));
    bar.firstChild.style.width = Math.round(100 * meter.value) + "%";
    for (const [key, value] of [["min", 0], ["max", 100], ["now", Math.round(100 * meter.value)], ["text", words]])
      bar.setAttribute("aria-value" + key, value);
    return make("div", {}, make("dt", {textContent: t("meter_" + name)}), make("dd", {}, words || "–", bar));
  }));
}

jobs.push(() => {
  for (const name of ["good", "bad", "removed"]) $("kind-" + name).textContent = t("kind_" + name, {n: number(state[name])});
  showEnough();
  if (!autoChanging) showAuto();
  $("capture").disabled = $("capture-bad").disabled = !state.camera.ok;
  if (tab === "collect") { showMeters(); showPictures(false); }
});
