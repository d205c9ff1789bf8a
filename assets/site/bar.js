// The site's own bar: which race, in which language. Both stand behind the # of the address, so that a link opens them.

const bar = {};
for (const node of element.querySelectorAll("[data-ref]")) bar[node.dataset.ref] = node;
const CODES = { en: "en", zh: "zh-CN", "zh-TW": "zh-TW" };
// Races that only a lesson speaks of are left to the lesson.
const listed = props.races.filter(({ isListed }) => isListed);
let numShown = 0;
let shownName = null;

function asked() {
  return new URLSearchParams(location.hash.slice(1));
}

function ask(name, value) {
  const words = asked();
  words.set(name, value);
  location.hash = words.toString();
}

function askedLanguage() {
  const wanted = asked().get("lang");
  return Object.hasOwn(CODES, wanted) ? wanted : languageOf(navigator.language);
}

function askedRace() {
  const wanted = asked().get("race");
  return (props.races.find(({ name }) => name === wanted) ?? props.races[0]).name;
}

function answer() {
  document.documentElement.lang = CODES[askedLanguage()];
  translateSkeleton();
  document.title = say("site_title");
  for (const button of bar.languages.children) button.setAttribute("aria-pressed", String(button.value === language()));
  listed.forEach(({ labels }, i) => setText(bar.race.options[i], labels[language()]));
  showRace(askedRace());
}

async function showRace(name) {
  bar.race.value = name;
  if (name === shownName) return;
  shownName = name;
  const value = await loadRace(name).catch(() => null);
  if (name !== shownName) return;
  setText(bar.problem, value ? "" : say("site_missing"));
  if (!value) return;
  document.getElementById("site-main").hidden = false;
  // Each showing is a run of its own: the component never goes back to one that it has left.
  numShown += 1;
  site.parts["race-view"].set("value", { ...value, run: `${name} ${numShown}` });
}

for (const { name } of listed) create("option", "", bar.race).value = name;
bar.race.addEventListener("change", () => ask("race", bar.race.value));
bar.languages.addEventListener("click", ({ target }) => target.value && ask("lang", target.value));
addEventListener("hashchange", answer);
// A lesson's experiment is its recorded race, from the beginning even where it is shown already.
site.answer = (name, data) => {
  if (name !== "attempt") return;
  shownName = null;
  ask("race", data.race);
  showRace(askedRace());
};
// The other parts are mounted behind this one.
setTimeout(answer, 0);
