// Where it pays: category and language by drafter.

function known(key, name) {
  return TEXTS[language()][`${key}_${name}`] ?? name;
}

function unique(key) {
  return [...new Set(props.value.cells.map((cell) => cell[key]))].sort((one, other) => one - other);
}

function fillChoice(select, values, first) {
  const before = Number(select.value);
  select.replaceChildren(...values.map((value) => {
    const option = create("option", "");
    option.value = option.textContent = String(value);
    return option;
  }));
  select.value = String(select.dataset.filled && values.includes(before) ? before : first);
  select.dataset.filled = "1";
}

// The K at which the cells gain most, taken together.
function bestK() {
  const gains = new Map();
  for (const { k, speedup } of props.value.cells) {
    if (speedup) gains.set(k, [...(gains.get(k) ?? []), Math.log(speedup)]);
  }
  const mean = (values) => values.reduce((sum, one) => sum + one, 0) / values.length;
  return [...gains].reduce((best, one) => (!best || mean(one[1]) > mean(best[1]) ? one : best), null)?.[0];
}

function show() {
  const { origin, machine, cells } = props.value;
  setText(refs.what, `${say("grid_what")} ${say(`grid_${origin}`, { machine })}`);
  for (const name of ["choices", "table", "legend"]) refs[name].hidden = !cells.length;
  if (!cells.length) return;
  fillChoice(refs.k, unique("k"), bestK());
  fillChoice(refs.temperature, unique("temperature"), unique("temperature")[0]);
  paint();
}

function paint() {
  const [k, temperature] = [Number(refs.k.value), Number(refs.temperature.value)];
  const cells = props.value.cells.filter((cell) => cell.k === k && cell.temperature === temperature);
  const drafters = [...new Set(props.value.cells.map(({ drafter }) => drafter))];
  const table = create("table", "tune-grid");
  const head = create("tr", "", create("thead", "", table));
  for (const text of [say("col_category"), say("col_language"), ...drafters.map(drafterText)]) {
    Object.assign(create("th", "", head), { scope: "col", textContent: text });
  }
  const body = create("tbody", "", table);
  for (const [category, spoken] of kinds()) {
    const row = create("tr", "", body);
    Object.assign(create("th", "", row), { scope: "row", textContent: known("kind", category) });
    create("td", "", row).textContent = known("language", spoken);
    for (const drafter of drafters) {
      const mine = cells.find((one) => one.category === category && one.language === spoken && one.drafter === drafter);
      create("td", "", row).append(mine ? gridCell(mine) : "–");
    }
  }
  refs.table.replaceChildren(table);
}

function kinds() {
  const found = new Map(props.value.cells.map(({ category, language: spoken }) => [`${category} ${spoken}`, [category, spoken]]));
  return [...found.values()];
}

function gridCell(cell) {
  const box = create("div", "tune-cell");
  box.append(speedCell(cell.speedup));
  create("small", "", box).textContent = `${percent(cell.acceptance)} · ${number(cell.tokens, 2)}`;
  box.title = say("grid_tip", { interval: interval(cell.interval), prompts: cell.prompts });
  return box;
}

function translateAll() {
  translateSkeleton();
  show();
}

for (const select of [refs.k, refs.temperature]) select.addEventListener("change", paint);
new MutationObserver(translateAll).observe(document.documentElement, { attributes: true, attributeFilter: ["lang"] });
watch("value", show);
translateAll();
