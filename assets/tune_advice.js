// The advisor: which drafter and K, how sure, and why.

const paintMeasured = sortableTable(refs.measured, [
  { key: "drafter", isText: true, value: (row) => drafterText(row.drafter) },
  { key: "k", value: (row) => row.k, cell: (row) => String(row.k) },
  { key: "speedup", value: (row) => row.speedup, cell: (row) => speedCell(row.speedup) },
  { key: "interval", value: (row) => row.interval?.[0], cell: (row) => interval(row.interval) },
  { key: "tokens", value: (row) => row.tokens_per_round, cell: (row) => number(row.tokens_per_round, 2) },
  { key: "acceptance", value: (row) => row.acceptance_rate, cell: (row) => percent(row.acceptance_rate) },
  { key: "draft", value: (row) => row.draft_cost, cell: (row) => number(row.draft_cost, 2) },
  { key: "verify", value: (row) => row.verify_cost, cell: (row) => number(row.verify_cost, 2) },
  { key: "prompts", value: (row) => row.num_prompts, cell: (row) => String(row.num_prompts) },
], { key: "speedup", down: true });
const paintEstimates = sortableTable(refs.estimates, [
  { key: "drafter", isText: true, value: (row) => drafterText(row.drafter) },
  { key: "k", value: (row) => row.k, cell: (row) => String(row.k) },
  { key: "estimated", value: (row) => row.speedup, cell: (row) => speedCell(row.speedup) },
  { key: "tokens", value: (row) => row.tokens, cell: (row) => number(row.tokens, 2) },
  { key: "draft", value: (row) => row.draft, cell: (row) => number(row.draft, 2) },
  { key: "verify", value: (row) => row.verify, cell: (row) => number(row.verify, 2) },
], { key: "estimated", down: true });

function show() {
  const advice = view.state === "done" ? view.advice : null;
  const [headline, detail] = advice ? adviceTexts(advice) : [say(`advice_${view.state}`), stateDetail()];
  refs.verdict.className = `race-card tune-verdict ${advice ? (advice.k ? "pays" : "declined") : ""}`;
  setText(refs.headline, headline);
  setText(refs.detail, detail);
  refs.bar.hidden = view.state !== "running";
  refs.bar.setAttribute("aria-label", headline);
  refs.bar.value = view.step?.[1] ?? 0;
  refs.tables.hidden = !advice;
  if (advice) showTables(advice);
}

function stateDetail() {
  if (view.state === "failed") return view.message;
  if (view.state !== "running") return say(`advice_${view.state}_detail`);
  const [drafter] = view.step;
  if (drafter === "none") return say("writing");
  return drafter ? say("trying", { drafter: drafterText(drafter) }) : say("settling");
}

function adviceTexts(advice) {
  const sure = advice.interval ? say("sure", { interval: interval(advice.interval) }) : say("unsure");
  const headline = advice.k
    ? say("advised", { drafter: drafterText(advice.drafter), k: advice.k, speedup: number(advice.speedup, 2), sure })
    : say("declined");
  const took = say("advice_took", { prompts: view.prompts, tokens: advice.tokens, seconds: Math.round(advice.seconds) });
  return [headline, `${say(`reason_${advice.reason}`)} ${took}`];
}

function showTables(advice) {
  refs.measuredPart.hidden = !advice.measured.length;
  refs.estimatesPart.hidden = !advice.estimates.length;
  paintMeasured(advice.measured);
  paintEstimates(advice.estimates);
  const failures = advice.failures.map(([drafter, why]) => `${drafterText(drafter)}: ${why}`).join(" ");
  refs.failures.hidden = !failures;
  setText(refs.failures, failures && say("not_had", { failures }));
  refs.settingsPart.hidden = !view.settings.length;
  refs.settings.replaceChildren(...view.settings.map(engineCard));
}

// How another engine does the same: what to write, what it calls K, and what it counts.
function engineCard(one) {
  const card = create("article", "race-card");
  create("h3", "", card).textContent = `${one.engine} ${one.version}`;
  card.lang = "en";
  if (one.lines.length) create("pre", "", card).textContent = one.lines.join("\n");
  if (one.request) create("p", "tune-note", card).textContent = say("engine_request", { request: one.request });
  if (one.k_name) create("p", "tune-note", card).textContent = say("engine_k", { name: one.k_name, value: one.k_value, note: one.k_note });
  for (const text of [one.counts, one.note]) if (text) create("p", "tune-note", card).textContent = text;
  return card;
}

followRuns("#advise-stop");
