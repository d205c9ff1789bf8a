// The formulas of specdemo/theory.py under four sliders, beside what was measured on this machine.

const CHART = { width: 460, height: 220, left: 34, right: 12, top: 12, bottom: 26 };
const SLIDERS = [
  { key: "alpha", least: 0, most: 1, step: 0.01, first: 0.7 },
  { key: "k", least: 1, most: MAX_K, step: 1, first: 4 },
  { key: "draft", least: 0, most: 1.5, step: 0.01, first: 0.1 },
  { key: "verify", least: 0.5, most: 6, step: 0.01, first: 1.2 },
];
const inputs = {};
const outputs = {};

// 2211.17192, equation 1, as the series 1 + alpha + ... + alpha^K.
function expectedTokens(alpha, k) {
  let sum = 0;
  for (let i = 0; i <= k; i++) sum += alpha ** i;
  return sum;
}

// Of K + 1 tokens at another K: a straight line from 1 for one token.
function verifyAt(k, { k: atK, verify }) {
  return 1 + ((verify - 1) * k) / atK;
}

function speedupAt(k, chosen) {
  return expectedTokens(chosen.alpha, k) / (k * chosen.draft + verifyAt(k, chosen));
}

function bestK(chosen) {
  let best = 0; // plain decoding: a speedup of 1
  for (let k = 1; k <= MAX_K; k++) if (speedupAt(k, chosen) > (best ? speedupAt(best, chosen) : 1)) best = k;
  return best;
}

function buildSliders() {
  for (const { key, least, most, step, first } of SLIDERS) {
    const label = create("label", "", refs.sliders);
    const line = create("span", "tune-slider-line", label);
    create("span", "", line).dataset.text = `calc_${key}`;
    outputs[key] = create("b", "", line);
    inputs[key] = create("input", "", label);
    Object.assign(inputs[key], { type: "range", min: least, max: most, step, value: first });
    inputs[key].dataset.key = key;
    inputs[key].addEventListener("input", show);
    inputs[key].addEventListener("change", () => setText(refs.aria, refs.figures.textContent));
  }
}

function chosenValues() {
  return Object.fromEntries(SLIDERS.map(({ key }) => [key, Number(inputs[key].value)]));
}

function show() {
  const chosen = chosenValues();
  for (const { key } of SLIDERS) setText(outputs[key], key === "k" ? String(chosen.k) : chosen[key].toFixed(2));
  const best = bestK(chosen);
  const rows = [
    ["calc_tokens", expectedTokens(chosen.alpha, chosen.k).toFixed(2)],
    ["calc_speedup", times(speedupAt(chosen.k, chosen))],
    ["calc_best", best ? `${best} (${times(speedupAt(best, chosen))})` : say("calc_none")],
  ];
  refs.figures.replaceChildren(...rows.map(([key, value]) => {
    const box = create("div", "");
    create("b", "", box).textContent = value;
    create("span", "", box).textContent = ` ${say(key)} `;
    return box;
  }));
  paintChart(chosen, best);
}

function paintChart(chosen, best) {
  const points = props.points ?? [];
  const ks = [...Array(MAX_K).keys()].map((i) => i + 1);
  const highest = Math.max(1.5, ...ks.map((k) => speedupAt(k, chosen)), ...points.map((point) => point.speedup)) * 1.1;
  const x = (k) => CHART.left + ((k - 0.5) / MAX_K) * (CHART.width - CHART.left - CHART.right);
  const y = (value) => CHART.height - CHART.bottom - (value / highest) * (CHART.height - CHART.top - CHART.bottom);
  refs.chart.replaceChildren();
  const svg = createSvg("svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", class: "tune-curve" }, refs.chart);
  svg.setAttribute("aria-label", ks.map((k) => `K ${k}: ${speedupAt(k, chosen).toFixed(2)}`).join(", "));
  createSvg("line", { class: "axis", x1: CHART.left, x2: CHART.width, y1: y(0), y2: y(0) }, svg);
  createSvg("line", { class: "plain", x1: CHART.left, x2: CHART.width, y1: y(1), y2: y(1) }, svg);
  for (const level of [0, 1, Math.floor(highest)]) chartText(svg, CHART.left - 6, y(level) + 4, `${level}×`, "end");
  for (const k of ks) chartText(svg, x(k), CHART.height - 8, String(k), "middle");
  createSvg("polyline", { class: "line", points: ks.map((k) => `${x(k)},${y(speedupAt(k, chosen))}`).join(" ") }, svg);
  createSvg("circle", { class: "now", cx: x(chosen.k), cy: y(speedupAt(chosen.k, chosen)), r: 5 }, svg);
  if (best) createSvg("circle", { class: "best", cx: x(best), cy: y(speedupAt(best, chosen)), r: 9 }, svg);
  for (const point of points) {
    const [cx, cy] = [x(Math.min(point.k, MAX_K)), y(point.speedup)];
    const mark = createSvg("path", { class: "measured", d: `M${cx - 6} ${cy}l6 -6l6 6l-6 6z` }, svg);
    createSvg("title", {}, mark).textContent = `${setKey(point)}: ${times(point.speedup)}`;
  }
}

function chartText(svg, x, y, text, anchor) {
  createSvg("text", { x, y, "text-anchor": anchor }, svg).textContent = text;
}

// A measured point sets the sliders to what it was made of.
function showPoints() {
  const points = props.points ?? [];
  setText(refs.pointsNote, say(points.length ? "machine_points_note" : "machine_points_none"));
  refs.points.replaceChildren(...points.map((point) => {
    const button = create("button", "");
    button.type = "button";
    button.textContent = say("machine_point", {
      key: setKey(point), temperature: point.temperature, speedup: times(point.speedup), tokens: number(point.tokens, 2),
    });
    button.addEventListener("click", () => {
      for (const { key } of SLIDERS) inputs[key].value = point[key];
      show();
      setText(refs.aria, refs.figures.textContent);
    });
    return button;
  }));
}

function translateAll() {
  translateSkeleton();
  show();
  showPoints();
}

buildSliders();
new MutationObserver(translateAll).observe(document.documentElement, { attributes: true, attributeFilter: ["lang"] });
watch("points", () => { show(); showPoints(); });
translateAll();
