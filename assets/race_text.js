// Words, numbers and visible tokens. All text reaches the page through textContent, title or setAttribute, never as markup.

const PICTURES = { " ": "␣", "\n": "↵", "\t": "⇥", "\u00a0": "⍽" };
// Characters that show nothing or turn the direction of what follows; joiners are left to the scripts that need them.
const HIDDEN_MARKS = /[\u0000-\u0008\u000b-\u001f\u007f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const STATUS_TEXTS = {
  a: "accepted", r: "rejected", d: "discarded", c: "corrected", b: "bonus", p: "plain_token", u: "unused", w: "pending",
};

// The page's language by the code of a browser's or a document's.
function languageOf(code) {
  if (/^zh-(tw|hk|mo|hant)/i.test(code)) return "zh-TW";
  return /^zh(-|$)/i.test(code) ? "zh" : "en";
}

function language() {
  return languageOf(document.documentElement.lang);
}

// Gradio knows Chinese as zh-CN and zh-TW alone: a browser set to zh-HK, zh-Hant-HK or plain zh gets English. For it the
// race turns Chinese at once, and Gradio's labels by the switch of its own settings, in the module that holds it.
async function turnChinese() {
  const code = { zh: "zh-CN", "zh-TW": "zh-TW" }[languageOf(navigator.language)];
  if (!code || language() !== "en") return;
  document.documentElement.lang = code;
  const addresses = performance.getEntriesByType("resource").map(({ name }) => name);
  const core = addresses.find((address) => /\/assets\/core-[\w-]+\.js$/.test(address));
  if (core) (await import(core)).changeLocale?.(code);
}

// The short name of a drafter as the command line calls it; of `NAME:SETTING` with the setting, which may be a drafter.
function drafterText(name) {
  const names = new Map(Object.entries(DRAFTERS[language()]));
  const [family, ...settings] = name.split(":");
  const setting = settings.join(":");
  if (names.has(name) || !names.has(family)) return names.get(name) ?? name;
  return `${names.get(family)} (${names.get(setting) ?? setting})`;
}

function say(key, values) {
  const text = TEXTS[language()][key];
  // A replacer function: a `$&` inside a value must stay as it is.
  return values ? text.replace(/\{(\w+)\}/g, (mark, name) => (name in values ? String(values[name]) : mark)) : text;
}

// A note is the key of a text with its values, or words in English.
function noteText(note) {
  return typeof note === "string" ? say("details", { message: note }) : say(...note);
}

function visible(text) {
  if (text === "") return "…";
  return text.replace(/[ \n\t\u00a0]/g, (mark) => PICTURES[mark]).replace(HIDDEN_MARKS, hiddenPicture);
}

function hiddenPicture(mark) {
  const code = mark.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  return code === 0x7f ? "␡" : "U+" + code.toString(16).toUpperCase();
}

function number(value, digits) {
  return value == null ? "–" : value.toFixed(digits);
}

function percent(value) {
  return value == null ? "–" : (value * 100).toFixed(1) + " %";
}

function milliseconds(seconds) {
  const value = seconds * 1000;
  return value.toFixed(value < 10 ? 1 : 0);
}

function bytes(value) {
  if (value >= 1e9) return (value / 1e9).toFixed(value < 1e10 ? 1 : 0) + " GB";
  return (value / 1e6).toFixed(0) + " MB";
}

// A text node that is kept costs less than one that is replaced.
function setText(node, text) {
  if (node.textContent === text) return;
  if (node.firstChild?.nodeType === Node.TEXT_NODE && node.childNodes.length === 1) node.firstChild.data = text;
  else node.textContent = text;
}

function create(name, className, parent) {
  const node = document.createElement(name);
  node.className = className;
  parent?.append(node);
  return node;
}

function createSvg(name, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent?.append(node);
  return node;
}

function translateSkeleton() {
  for (const node of element.querySelectorAll("[data-text]")) setText(node, say(node.dataset.text));
  for (const node of element.querySelectorAll("[data-tip]")) {
    node.title = say(node.dataset.tip);
    if (node.matches("button, select, input") && !node.dataset.text) node.setAttribute("aria-label", node.title);
  }
  for (const node of element.querySelectorAll("[data-label]")) node.setAttribute("aria-label", say(node.dataset.label));
}
