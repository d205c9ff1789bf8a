// The component of the tab "Prove it": takes a proof's value from Gradio and paints it.

const refs = {};
for (const node of element.querySelectorAll("[data-ref]")) refs[node.dataset.ref] = node;
const charts = { token: barChart(refs.chartToken), pair: barChart(refs.chartPair) };

function show() {
  const chosen = props.chosen;
  // A planted mistake is a sampling proof by itself: what was chosen says under which heading it stands.
  const kind = view.mistake ? "mistakes" : view.proof;
  const isShown = view.state !== "idle" && kind === chosen;
  setText(refs.what, say(`what_${chosen}`, { top_k: TOP_K, alpha: ALPHA }));
  showVerdict(isShown);
  const isSample = isShown && Boolean(view.comparisons);
  refs.charts.hidden = !isSample;
  if (isSample) showCharts();
  showWhy(isShown);
  showTable(isShown, kind);
}

function showVerdict(isShown) {
  const state = isShown ? view.state : "idle";
  const [headline, detail] = state === "done" ? verdictTexts() : [say(state), stateDetail(state)];
  refs.verdict.className = `race-card prove-verdict ${state === "done" ? view.verdict : ""}`;
  setText(refs.mark, state === "done" ? { green: "✓", red: "✗" }[view.verdict] : { running: "…", waiting: "…" }[state] ?? "–");
  setText(refs.headline, headline);
  setText(refs.detail, detail);
  refs.bar.hidden = state !== "running";
  refs.bar.setAttribute("aria-label", headline);
  const share = shareDone();
  if (share === null) refs.bar.removeAttribute("value");
  else refs.bar.value = share;
}

function stateDetail(state) {
  if (state === "failed") return view.message;
  if (state !== "running") return say(`${state}_detail`);
  const sample = view.samples.at(-1);
  if (sample) return say("drawing", { n: sample.n, all: sample.all });
  if (["greedy", "seeds"].includes(view.proof)) return say("writing", { n: view.step[0], all: view.step[1] });
  return say("reading");
}

function shareDone() {
  if (view.state !== "running") return null;
  const sample = view.samples.at(-1);
  if (sample) return sample.done;
  return view.step[1] ? view.step[0] / view.step[1] : null;
}

function verdictTexts() {
  const kind = view.mistake ? "planted" : view.proof;
  const key = `${view.verdict}_${kind}`;
  if (kind === "greedy" || kind === "seeds") return answersVerdict(key);
  const { n, p } = view.samples.at(-1);
  const values = { n, p: shortNumber(p, 3), alpha: ALPHA };
  if (key === "red_planted") return [`${say("red_sampling")}: ${mistakeName(view.mistake)}`, say("red_sampling_detail", values)];
  if (key === "red_sampling" && view.rule === "typical") return [say("red_typical"), say("red_sampling_detail", values)];
  return [say(key), say(`${key}_detail`, values)];
}

function answersVerdict(key) {
  if (view.verdict === "red") {
    const n = view.answers.filter((row) => row.verdict === "fault").length;
    return [say(key), say("red_answers_detail", { n, all: view.answers.length })];
  }
  const short = view.answers.filter((row) => row.dtype === "bfloat16");
  const ties = short.filter((row) => row.verdict === "tie").length;
  const n = view.answers.length - (view.proof === "greedy" ? short.length : 0);
  return [say(key), say(`${key}_detail`, { n, short: short.length, ties })];
}

function showCharts() {
  for (const [name, paint] of Object.entries(charts)) paint(view.comparisons[name]);
  setText(refs.fitToken, fitText(view.comparisons.token));
  setText(refs.fitPair, fitText(view.comparisons.pair));
}

function showWhy(isShown) {
  const isPlanted = isShown && Boolean(view.mistake);
  refs.why.hidden = !isPlanted;
  if (isPlanted && refs.why.dataset.mistake !== view.mistake + language()) {
    refs.why.dataset.mistake = view.mistake + language();
    refs.why.replaceChildren(why(view.mistake));
  }
}

function showTable(isShown, kind) {
  const isSweep = view.proof === "mistakes";
  const rows = !isShown ? [] : isSweep ? sampleRows(view.samples) : answerRows(view.answers, kind === "seeds");
  refs.tableBox.hidden = !rows.length;
  const seeds = ["col_result", "col_drafter", "col_temperature", "col_difference", "col_text"];
  const greedy = ["col_result", "col_drafter", "col_precision", "col_difference", "col_prompt"];
  const sweep = ["col_mistake", "col_verdict", "col_tv", "col_chance", "col_p", "col_why"];
  fillTable(isSweep ? sweep : kind === "seeds" ? seeds : greedy, rows);
}

watch("chosen", show);
followRuns("#prove-stop");
