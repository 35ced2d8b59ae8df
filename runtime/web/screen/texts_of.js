// What the page says: LANGUAGES by code, each with its texts and sentences by key, and how numbers and times are written.
const $ = id => document.getElementById(id);

function kept(key, value) {  // a browser may forbid to remember; then nothing is remembered
  try {
    if (value === undefined) return localStorage.getItem("edgeseg." + key);
    localStorage.setItem("edgeseg." + key, value);
  } catch (error) { /* forbidden */ }
  return null;
}

let language = kept("language") || (navigator.language || "en").slice(0, 2);
if (!LANGUAGES[language]) language = "en";

function t(key, values = {}) {
  return LANGUAGES[language].texts[key].replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

const number = (value, digits = 0) => value == null || !Number.isFinite(value) ? "–"
  : value.toLocaleString(language, {minimumFractionDigits: digits, maximumFractionDigits: digits});
const few = (value, digits = 3) => value == null ? "–" : value.toLocaleString(language, {maximumSignificantDigits: digits});
const percent = share => share == null ? "–" : number(100 * share, share > 0.99 && share < 1 ? 1 : 0) + " %";

function clock(when) {
  const time = new Date(typeof when === "number" ? when * 1000 : when);
  if (isNaN(time)) return "";
  const today = time.toDateString() === new Date().toDateString();
  return time.toLocaleString(language, today ? {timeStyle: "medium"} : {dateStyle: "short", timeStyle: "short"});
}

const languageOptions = () => Object.entries(LANGUAGES).map(([code, {name, short}]) =>
  make("option", {value: code, lang: code, className: "said", textContent: short, title: name}));

function applyTexts() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
  for (const element of document.querySelectorAll("[data-alt]")) element.alt = t(element.dataset.alt);
  if (!$("language").options.length) $("language").append(...languageOptions());
  $("language").value = language;
}

// A capital to begin with, unless that would change the name of a file or a setting.
const sentence = text => (text || "").replace(/^[a-z]+(?=[\s,;])/, word => word[0].toUpperCase() + word.slice(1));

// A sentence of the service and its language: by its key where it has one, else its English words.
function spoken(facts, name = "sentence") {
  const key = language === "en" ? null : facts[name + "_said"];
  return key ? [phrase(key), language] : [sentence(facts[name]), "en"];
}
function phrase({key, values}) {
  return LANGUAGES[language].sentences[key].replace(/\{(\w+)(?::\.?(\d*)g)?\}/g, (whole, name, digits) => {
    const value = values[name];
    if (Number.isInteger(value)) return number(value);
    if (typeof value === "number") return few(value, Math.min(digits || 3, 3));
    if (Array.isArray(value)) return value.map(phrase).join("; ");
    if (value && typeof value === "object") return phrase(value);  // a sentence within the sentence
    return String(value).replace(/\((operator|supervisor)\)/g, (all, who) => `(${t("who_" + who)})`);
  });
}
const spokenFlags = item => language === "en" ? item.flags : (item.flags_said || []).map(phrase);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value == null) continue;
    if (name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter(child => child != null));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
function draw(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// What the service says comes from outside the table, and may be English.
const said = (tag, text, kind = "", lang = "en") => make(tag, {className: ("said " + kind).trim(), lang, textContent: text});
function saidOf(tag, facts, name) {
  const [words, lang] = spoken(facts, name);
  return said(tag, words, "", lang);
}

// Elements whose item has not changed stay, so that a focus and a picture stay too.
function showList(list, items, keyOf, build) {
  const before = new Map([...list.children].map(element => [element.dataset.key, element]));
  const held = list.contains(document.activeElement) ? document.activeElement : null, at = held?.closest("li");
  const press = at ? [...at.querySelectorAll("button")].indexOf(held) : -1, heldKey = at?.dataset.key;
  list.replaceChildren(...items.map(item => {
    const key = String(keyOf(item)), signature = language + JSON.stringify(item), old = before.get(key);
    if (old && old.signature === signature) return old;
    const element = build(item);
    element.dataset.key = key;
    element.signature = signature;
    return element;
  }));
  if (press >= 0 && !list.contains(document.activeElement))  // whoever was there is there again
    [...list.children].find(element => element.dataset.key === heldKey)?.querySelectorAll("button")[press]?.focus();
}
