// The lesson cards: one lesson at a time, its experiments, and what the races run for it gave.

const MOST_RESULTS = 8; // more than any lesson has experiments
const refs = {};
for (const node of element.querySelectorAll("[data-ref]")) refs[node.dataset.ref] = node;
const asked = new URLSearchParams(location.search).get("lesson");
const seen = new Set();
const results = new Map(); // of each lesson's id: what its races gave, the newest last
const isPhone = matchMedia("(max-width: 900px)");
let current = 0;
let isOpen = false;
let pendingTry = null; // the experiment whose race is not over yet
let isMeasuring = false;
let measured = null; // what a pass costs on this device, once it was measured
let complaint = "";

function lesson() {
  return LESSONS[current];
}

function open(index) {
  complaint = "";
  current = Math.max(0, Math.min(LESSONS.length - 1, index));
  isOpen = true;
  pendingTry = null;
  showAnswer(false);
  seen.add(lesson().id);
  show();
  setText(refs.said, refs.heading.textContent);
}

function close() {
  isOpen = false;
  show();
}

function show() {
  refs.card.hidden = refs.nav.hidden = !isOpen;
  refs.toggle.setAttribute("aria-expanded", String(isOpen));
  refs.about.hidden = isOpen && !complaint;
  setText(refs.about, complaint || say("learn_about", countsOf()));
  refs.about.classList.toggle("wrong", Boolean(complaint));
  showNavigation();
  if (isOpen) showLesson();
}

function countsOf() {
  const myths = LESSONS.filter(({ kind }) => kind === "myth").length;
  return { lessons: LESSONS.length - myths, myths };
}

function showNavigation() {
  refs.list.replaceChildren();
  for (const kind of ["lesson", "myth"]) {
    const group = create("optgroup", "", refs.list);
    group.label = say(kind + "s");
    for (const [index, one] of LESSONS.entries()) {
      if (one.kind !== kind) continue;
      const option = create("option", "", group);
      option.value = index;
      option.textContent = `${index + 1} · ${one.texts[language()].title}`;
    }
  }
  refs.list.value = current;
  refs.previous.disabled = current === 0;
  refs.next.disabled = current === LESSONS.length - 1;
  refs.dots.replaceChildren();
  for (const [index, one] of LESSONS.entries()) {
    const dot = create("i", index === current ? "here" : seen.has(one.id) ? "seen" : "", refs.dots);
    dot.classList.toggle("myth", one.kind === "myth");
  }
}

function showLesson() {
  const texts = lesson().texts[language()];
  setText(refs.kind, say("kind_" + lesson().kind, { number: current + 1 }));
  for (const name of ["title", "claim", "do", "look", "meaning", "question", "answer"]) setText(refs[name], texts[name]);
  if (lesson().kind === "myth") setText(refs.title, ""); // the claim says the same
  refs.card.classList.toggle("myth", lesson().kind === "myth");
  showTries();
  showCurve();
  showResults();
}

// Built anew when the server has told something: who stands on an experiment with the keyboard goes on standing there.
function showTries() {
  const focused = [...refs.tries.children].indexOf(document.activeElement);
  refs.tries.replaceChildren();
  for (const [index, { labels }] of lesson().tries.entries()) {
    const button = create("button", "learn-try", refs.tries);
    button.type = "button";
    button.dataset.try = index;
    button.textContent = labels[language()];
    button.addEventListener("click", () => attempt(index));
  }
  if (lesson().curve) addMeasure();
  refs.tries.children[focused]?.focus({ preventScroll: true });
}

function addMeasure() {
  const button = create("button", "learn-try learn-measure", refs.tries);
  button.type = "button";
  button.disabled = isMeasuring;
  button.textContent = say(isMeasuring ? "measuring" : "measure");
  button.addEventListener("click", measure);
}

function showCurve() {
  refs.curve.hidden = !lesson().curve;
  if (!lesson().curve) return;
  const { costs, machine } = measured ?? RECORDED_PASSES;
  paintCurve(refs.plot, costs, say("curve_grown"));
  setText(refs.curveSource, say(measured ? "curve_live" : "curve_recorded", { machine }));
}

function showAnswer(isShown) {
  refs.answer.hidden = !isShown;
  refs.reveal.setAttribute("aria-expanded", String(isShown));
  setText(refs.reveal, say(isShown ? "hide_answer" : "show_answer"));
}

function attempt(index) {
  pendingTry = index;
  trigger("attempt", { lesson: lesson().id, index, race: lesson().tries[index].race });
  if (isPhone.matches) document.querySelector("#race-view")?.scrollIntoView({ block: "start" });
}

function measure() {
  isMeasuring = true;
  showLesson();
  trigger("measure");
}

// The server knows what the person had. The button goes away with its work done, and the focus to the experiments.
function putBack() {
  trigger("put_back");
  refs.tries.querySelector("button")?.focus();
  setText(refs.said, say("settings_back"));
}

// A race was shown to its end: keep what it gave beside the lesson that asked for it.
function keepResult({ head, done }) {
  if (!isOpen || !(pendingTry === null ? head.origin === "live" : isAsked(head))) return;
  const kept = results.get(lesson().id) ?? [];
  kept.push({ index: pendingTry, drafter: head.drafter, k: head.k, done });
  results.set(lesson().id, kept.slice(-MOST_RESULTS));
  pendingTry = null;
  showResults();
}

// The race that stood there may come to its end while the experiment's own is on its way.
function isAsked(head) {
  return Object.entries(lesson().tries[pendingTry].asked).every(([name, value]) => head[name] === value);
}

function showResults() {
  const kept = results.get(lesson().id) ?? [];
  refs.results.hidden = !kept.length;
  refs.rows.replaceChildren();
  for (const { index, drafter, k, done } of kept) {
    const row = create("tr", "", refs.rows);
    const name = create("th", "", row);
    name.scope = "row";
    name.textContent = index === null ? `${drafterText(drafter)} · K = ${k}` : lesson().tries[index].labels[language()];
    const cells = [
      done.speedup == null ? "–" : number(done.speedup, 2) + "×",
      number(done.alpha, 2),
      number(done.expected_tokens_per_round, 2),
      number(done.tokens_per_round, 2),
      done.target_passes.toReversed().join(" / "),
      say(done.identical ? "texts_same" : "texts_differ"),
    ];
    for (const cell of cells) create("td", "", row).textContent = cell;
  }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select")) return;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!isOpen || !step) return;
  event.preventDefault();
  open(current + step);
}

function translateAll() {
  translateSkeleton();
  showAnswer(!refs.answer.hidden);
  show();
}

// A link names a lesson by its number, counted from 1, or by its name.
function openAsked() {
  if (asked === null) return;
  const named = LESSONS.findIndex(({ id }) => id === asked);
  const index = named >= 0 ? named : /^\d{1,3}$/.test(asked) ? Number(asked) - 1 : -1;
  if (index >= 0 && index < LESSONS.length) return open(index);
  complaint = say("unknown", { lesson: asked.slice(0, 40), all: LESSONS.length });
}

refs.toggle.addEventListener("click", () => (isOpen ? close() : open(current)));
refs.previous.addEventListener("click", () => open(current - 1));
refs.next.addEventListener("click", () => open(current + 1));
refs.list.addEventListener("change", () => open(Number(refs.list.value)));
refs.putBack.addEventListener("click", putBack);
refs.reveal.addEventListener("click", () => showAnswer(refs.answer.hidden));
element.addEventListener("keydown", onKey);
document.addEventListener("passes-not-measured", () => {
  isMeasuring = false;
  if (isOpen) showLesson();
});
document.addEventListener("race-shown", ({ detail }) => keepResult(detail));
new MutationObserver(translateAll).observe(document.documentElement, { attributes: true, attributeFilter: ["lang"] });
watch("value", () => {
  isMeasuring = false;
  measured = props.value.measured ?? measured;
  refs.putBack.hidden = !props.value.moved;
  if (isOpen) showLesson();
});
openAsked();
translateAll();
