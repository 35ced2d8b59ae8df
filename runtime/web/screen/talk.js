// Questions and actions, and where a person is told what came of them.
let connected = true, state = null;
const jobs = [];  // run after every new state
const reconnected = [];  // run when the server answers again

class Refusal extends Error {  // its words, and their language
  constructor(words, lang = language) { super(words); this.lang = lang; }
}

async function answerOf(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    setConnected(false);
    throw new Refusal(t("no_answer"));
  }
  if (answer.status === 401) { location.reload(); throw new Refusal(t("no_answer")); }
  setConnected(true);
  const result = await answer.json().catch(() => null);
  if (result === null || !answer.ok) throw result?.error ? new Refusal(...spoken(result, "error")) : new Refusal(t("no_answer"));
  return result;
}

const ask = path => answerOf(path);

// An action; its refusal is shown in `place`. Gives undefined when it was refused.
async function act(path, body, place) {
  complain(place, "");
  try {
    const result = await answerOf(path, {method: "POST", headers: {"X-Edgeseg": "page"},
      body: body instanceof Blob ? body : JSON.stringify(body)});
    await poll();  // the page knows what came of it
    return result;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    complain(place, error.message, error.lang);
    return undefined;
  }
}

function complain(place, text, lang = language) {
  const line = place.querySelector(".problem");
  line.hidden = !text;
  line.textContent = text;
  line.lang = lang;
  line.classList.toggle("said", true);
}

// What became of long work, in the service's words; a failure stands out like a refusal.
function report(line, facts, failed) {
  const [words, lang] = spoken(facts);
  // What is noted in passing has no key: another language stays with how far it is.
  if (words && facts.state === "running" && lang !== language) return;
  if (line.textContent !== words) line.textContent = words;
  line.lang = lang;
  line.classList.toggle("failed", failed && Boolean(words));
}

function setConnected(yes) {
  if (yes === connected) return;
  connected = yes;
  $("offline").hidden = yes;
  if (yes) for (const job of reconnected) job();
}

// A button that cannot be pressed twice while its action is under way.
function onPress(button, action) {
  button.onclick = async () => {
    if (button.busy) return;
    button.busy = true;
    button.setAttribute("aria-busy", "true");
    try { await action(); } finally {
      button.busy = false;
      button.removeAttribute("aria-busy");
    }
  };
}

let toastTimer = 0;
function toast(text, undo) {
  clearTimeout(toastTimer);
  $("toast-text").textContent = text;
  $("toast-undo").hidden = !undo;
  $("toast").hidden = false;
  const hide = () => { $("toast").hidden = true; };
  $("toast-undo").onclick = () => { hide(); undo(); };
  toastTimer = setTimeout(hide, undo ? 20000 : 5000);
}

// Where an alarm was: a frame over the picture, in the camera's pixels.
function frameOf(marked) {
  if (!marked || !marked.box) return null;
  const [x, y, width, height] = marked.box, svg = draw("svg", {viewBox: `0 0 ${marked.width} ${marked.height}`, "aria-hidden": "true"});
  svg.append(draw("rect", {x, y, width, height}));
  return svg;
}

function enlarge(address, text, marked) {
  $("large-frame").replaceChildren($("large-picture"), ...[frameOf(marked)].filter(Boolean));
  $("large-picture").src = address;
  $("large-text").textContent = text;
  $("large").showModal();
}
$("large-close").onclick = () => $("large").close();
$("large").onclick = event => { if (event.target === $("large")) $("large").close(); };

// A card: a picture that can be enlarged, lines about it, buttons.
function card({picture, large, title, marked, lines = [], flags = [], actions = [], kind = ""}) {
  const image = picture && make("img", {src: picture, loading: "lazy", alt: title});
  const look = picture && make("button", {className: "look", ariaLabel: t("enlarge", {name: title}),
    onclick: () => enlarge(large || picture, title, marked)}, image, frameOf(marked));
  const about = make("div", {className: "about"}, ...lines, ...flags.map(flag => make("p", {className: "flag", textContent: "⚠ " + flag})));
  const buttons = actions.map(([text, run, supervisor, pressed]) => {
    const button = make("button", {textContent: text, disabled: supervisor && !isSupervisor(),
      ariaLabel: `${text}: ${title}`});
    if (pressed !== undefined) button.setAttribute("aria-pressed", String(pressed));
    onPress(button, run);
    return button;
  });
  return make("li", {className: kind}, look || null, about, buttons.length ? make("div", {className: "actions"}, ...buttons) : null);
}

const isSupervisor = () => state !== null && state.role === "supervisor";

for (const input of document.querySelectorAll(".person")) {  // who is at the page, wherever that is said
  input.value = kept("person") || "";
  input.oninput = () => {
    for (const other of document.querySelectorAll(".person")) if (other !== input) other.value = input.value;
    kept("person", input.value.trim());
  };
}
const personName = () => $("person").value.trim();

function flat(figures, before = "") {  // {"latency": {"p50": 3}} as "latency p50": 3
  return Object.entries(figures || {}).flatMap(([name, value]) => value !== null && typeof value === "object" && !Array.isArray(value)
    ? flat(value, before + name + " ") : [[before + name, value]]);
}

// Milliseconds of each stage, and what else is known by name.
function showTable(place, stages, others) {
  const sides = ["p50", "p95", "p99", "max"], words = name => name.replaceAll("_", " ");
  place.querySelector("table").replaceChildren(make("tr", {}, make("th", {scope: "col", textContent: t("stages_ms")}), ...sides.map(side => said("th", side))),
    ...Object.entries(stages || {}).map(([name, stage]) => make("tr", {}, said("th", words(name)), ...sides.map(side => make("td", {textContent: few(stage[side])})))));
  const facts = flat(others).filter(([, value]) => value != null && value !== "");
  place.querySelector("dl").replaceChildren(...facts.flatMap(([name, value]) => [said("dt", words(name)),
    make("dd", {className: "said", textContent: typeof value === "number" ? few(value) : String(value)})]));
}
