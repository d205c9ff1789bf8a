// The race component: takes the growing value from Gradio, paints it, and answers the person's keys and buttons.

// Live, the model decodes on the machine that paints, or may: text at each update, the figures and charts at fewer.
const MS_BETWEEN_LIVE_FIGURES = 350;
const MS_BETWEEN_LIVE_CHARTS = 1100;
const refs = {};
for (const node of element.querySelectorAll("[data-ref]")) refs[node.dataset.ref] = node;
const lanes = ["plain", "speculative"].map(createLane);
const roundBox = createRoundBox();
const retired = new Set();
let view = { run: null, head: null, state: "idle", numRows: 0, done: null, message: "", isOver: true, isStopped: false };
let charts = null;
let chosenRound = null;
const isNarrow = matchMedia("(max-width: 768px)");
let lastNews = 0;
const lastShown = new Map();
const player = createPlayer(show);

function receive(value) {
  if (!value || retired.has(value.run)) return;
  if (value.run !== view.run) startRun(value);
  if (view.isStopped) return;
  const isNews = value.state !== view.state;
  Object.assign(view, { state: value.state, done: value.done, message: value.message });
  view.isOver = ["done", "failed", "idle"].includes(value.state);
  if (!receiveRows(value.rows.split("\n").filter(Boolean), 0) && isNews) paintNews();
  if (value.state === "running") askForNews(value.run);
  if (value.state === "waiting") askForPlace(value.run, value.session);
}

// Rows of the run that is shown, from its `first` on. They come on two ways, and what is known already is passed over.
function receiveRows(texts, first) {
  const added = texts.slice(view.numRows - first);
  for (const text of added) {
    const row = JSON.parse(text);
    receiveRow(lanes[row.l], row);
  }
  view.numRows += added.length;
  if (added.length) paintNews();
  return added.length > 0;
}

function paintNews() {
  lastNews = performance.now();
  if (view.head?.origin === "live") player.follow();
  show();
}

function startRun(value) {
  if (view.run) retired.add(view.run);
  player.halt();
  lanes.forEach(resetLane);
  chosenRound = null;
  view = { run: value.run, head: value.head, numRows: 0, racesAhead: null, secondsAhead: null, isOver: false, isStopped: false };
  player.time = 0;
  lastShown.clear();
  forgetInside();
  charts = { rate: rateChart(refs.chartRate), histogram: histogramChart(refs.chartHistogram), time: timeChart(refs.chartTime) };
  charts.histogram.grow(value.head?.k ?? 4);
  roundBox.clear();
  setText(refs.aria, "");
  showHead();
  if (value.head && value.head.origin !== "live") queueMicrotask(() => player.play());
}

// Bring what is painted to the playhead, then the figures to what is painted.
function show() {
  const time = player.time + 1e-9;
  for (const [index, lane] of lanes.entries()) {
    while (lane.painted.length < lane.rows.length && lane.rows[lane.painted.length].at <= time) forward(index, lane);
    while (lane.painted.length && lane.painted.at(-1).row.at > time) backward(index, lane);
  }
  showDraft(time);
  showAtMost(MS_BETWEEN_LIVE_FIGURES, showFigures);
  showAtMost(MS_BETWEEN_LIVE_CHARTS, showCharts);
  showAtMost(MS_BETWEEN_LIVE_CHARTS, showInside);
}

// What is passed over now is shown later: the end of a live race is painted when it is live no more.
function showAtMost(milliseconds, paint) {
  const now = performance.now();
  if (player.isLive && now - (lastShown.get(paint) ?? -Infinity) < milliseconds) return;
  lastShown.set(paint, now);
  paint();
}

function forward(index, lane) {
  const row = lane.rows[lane.painted.length];
  paintRow(lane, row);
  if (row.e !== "r") return;
  chosenRound = null;
  followPlayhead();
  charts.rate.add(index, row.c, row.r ?? 0);
  if (row.h !== null) charts.histogram.add(row.h, 1);
}

function backward(index, lane) {
  const row = unpaintRow(lane);
  if (row.e !== "r") return;
  chosenRound = null;
  followPlayhead();
  charts.rate.remove(index);
  if (row.h !== null) charts.histogram.add(row.h, -1);
}

function showDraft(time) {
  const lane = lanes[1];
  const row = lane.rows[lane.painted.length];
  const numDrafts = row?.h == null ? 0 : row.s.filter(([, , status]) => "ardu".includes(status)).length;
  const share = numDrafts ? (time - row.start) / Math.max(row.t[0], 1e-9) : 0;
  if (isStill.matches || share <= 0 || time - row.start < 1e-6) hidePending(lane);
  else showPending(lane, row, Math.min(numDrafts, Math.ceil(share * numDrafts)));
}

function timeAxis() {
  const [plain] = lanes;
  const row = plain.rows.findLast((one) => one.e === "r");
  if (view.isOver || !row) return Math.max(end(), 1e-3);
  return Math.max(end(), (row.c / Math.max(row.n, 1)) * (view.head?.max_new_tokens ?? row.n));
}

function showCharts() {
  if (!charts || isInside()) return;
  charts.rate.paint(timeAxis());
  charts.histogram.paint();
  charts.time.paint(lanes.map((lane) => lastRound(lane)?.m.map((part) => part ?? 0) ?? [0, 0, 0]));
}

function showFigures() {
  const axis = timeAxis();
  for (const lane of lanes) paintLaneFigures(lane, axis, player.time);
  showRound();
  showVerdict(isAtEnd());
  showControls();
}

function showRound() {
  if (isInside()) return;
  const pending = chosenRound ? null : lanes[1].pending?.row;
  const row = chosenRound ?? pending ?? lastRound(lanes[1]);
  if (row) roundBox.paint(row, Boolean(pending), lastRound(lanes[0]));
  else roundBox.clear();
}

function isAtEnd() {
  return view.isOver && !player.isLive && lanes.every((lane) => lane.painted.length === lane.rows.length);
}

function showControls() {
  const canPlay = !player.isLive && view.isOver && end() > 0;
  for (const name of ["step", "back", "position"]) refs[name].disabled = !canPlay;
  refs.play.disabled = !canPlay && !canStop();
  refs.save.disabled = !(view.isOver && lanes.some((lane) => lane.rows.length));
  const label = say(canStop() ? "stop" : player.isPlaying ? "pause" : "play");
  refs.play.classList.toggle("playing", player.isPlaying);
  refs.play.classList.toggle("live", canStop());
  if (refs.play.title !== label) {
    refs.play.title = label;
    refs.play.setAttribute("aria-label", label);
  }
  if (document.activeElement !== refs.position || player.isPlaying) {
    refs.position.value = end() ? Math.round((player.time / end()) * 1000) : 0;
  }
}

function showHead() {
  const head = view.head;
  setText(refs.asked, head ? `${say("asked_" + head.origin)} · ${head.prompt.slice(0, 300)}` : say("tagline"));
  refs.asked.title = head ? head.prompt.slice(0, 2000) : "";
  refs.machine.hidden = !head?.machine;
  setText(refs.machine, head?.machine ?? "");
  refs.machine.title = head?.machine ?? "";
  const key = subtitleKey();
  const memory = head?.drafter_bytes ? ` · ${say("memory", { bytes: bytes(head.drafter_bytes) })}` : "";
  setText(refs.speculativeSub, head ? say(key, { drafter: drafterText(head.drafter), k: head.k }) + memory : "");
  refs.speculativeSub.title = refs.speculativeSub.textContent;
}

function showEngine() {
  const { state, message, progress } = props.engine;
  const share = progress == null ? "" : ` ${Math.round(progress * 100)} %`;
  refs.engine.className = `race-engine ${state}`;
  refs.engine.title = message && say("details", { message });
  setText(refs.engineText, say(`engine_${state}`) + (state === "ready" ? "" : share));
  refs.engineBar.hidden = !["fetching", "loading"].includes(state);
  if (progress == null) refs.engineBar.removeAttribute("value");
  else refs.engineBar.value = progress;
}

function canStop() {
  return !view.isOver && view.head?.origin === "live";
}

// The page's Stop button also tells the server, and its click comes back here.
function askToStop() {
  document.querySelector("#stop-button")?.click();
}

// On a phone the settings cover the race; they open again by their own button.
function closeDrawer() {
  const toggle = document.querySelector("#settings.open .toggle-button");
  if (isNarrow.matches) toggle?.click();
}

// The browser stops at once; the server ends the run at its next update.
function stop() {
  if (view.isOver || view.isStopped) return;
  player.halt();
  for (const lane of lanes) {
    hidePending(lane);
    lane.rows.length = lane.painted.length;
    lane.clock = lastRound(lane)?.c ?? 0;
    if (!lane.finish || !lane.rows.includes(lane.finish)) receiveRow(lane, { e: "f", reason: "cancelled", message: "" });
  }
  Object.assign(view, { isStopped: true, isOver: true });
  followPlayhead();
  player.time = end();
  show();
}

async function copyAnswer(lane) {
  const text = answerOf(lane);
  const button = lane.parts.copy;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text);
  }
  setText(button, say("copied"));
  setTimeout(() => setText(button, say("copy")), 1200);
}

// The clipboard API is missing where the page is served over plain HTTP.
function copyBySelection(text) {
  const area = create("textarea", "race-aria", document.body);
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
}

function onKey(event) {
  // On another tab the race has no place on the page.
  if (!element.isConnected || !element.getClientRects().length || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select, textarea")) return;
  const isElsewhere = event.target !== document.body && !element.contains(event.target);
  // Behind a click on Race the focus is on that button: Stop must be heard from there too.
  if (isElsewhere && event.key !== "Escape") return;
  if (useInsideKey(event)) return event.preventDefault();
  if (event.key === "ArrowRight" && !refs.step.disabled) player.step(1);
  else if (event.key === "ArrowLeft" && !refs.back.disabled) player.step(-1);
  else if (event.key === "Escape" && canStop()) askToStop();
  else if (event.key === " " && !event.target.matches("button") && !refs.play.disabled) togglePlay();
  else return;
  event.preventDefault();
}

function togglePlay() {
  if (canStop()) askToStop();
  else if (player.isPlaying) player.pause();
  else player.play();
}

function translateAll() {
  translateSkeleton();
  showHead();
  showEngine();
  show();
}

refs.play.addEventListener("click", togglePlay);
refs.step.addEventListener("click", () => player.step(1));
refs.back.addEventListener("click", () => player.step(-1));
refs.position.addEventListener("input", () => player.goTo((refs.position.value / 1000) * end()));
refs.speed.addEventListener("change", () => {
  player.speed = refs.speed.value === "max" ? Infinity : Number(refs.speed.value);
});
refs.save.addEventListener("click", () => trigger("save"));
refs.open.addEventListener("click", () => document.querySelector("#open-race")?.click());
for (const lane of lanes) {
  lane.parts.copy.addEventListener("click", () => copyAnswer(lane));
  lane.parts.text.addEventListener("pointerover", (event) => describeToken(lane, event.target));
  lane.parts.text.addEventListener("click", ({ target }) => pointAt(lane, target));
}
connectInside();
document.addEventListener("keydown", onKey);
document.addEventListener("click", ({ target }) => {
  if (target.closest?.("#stop-button")) stop();
  if (target.closest?.("#race-button")) closeDrawer();
}, true);
new MutationObserver(translateAll).observe(document.documentElement, { attributes: true, attributeFilter: ["lang"] });
watch("value", () => receive(props.value));
watch("engine", showEngine);
turnChinese();
receive(props.value);
translateAll();
startProjector();
startRoom();
endStartupSpinner();
setTimeout(closeDrawer, 0);
