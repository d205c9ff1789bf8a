// A sweep: how far it is, and its points as a table that can be sorted while it fills.

const paintTable = sortableTable(refs.table, [
  { key: "drafter", isText: true, value: (row) => drafterText(row.drafter) },
  { key: "k", value: (row) => row.k, cell: (row) => String(row.k) },
  { key: "temperature", value: (row) => row.temperature, cell: (row) => String(row.temperature) },
  { key: "rule", isText: true, value: (row) => row.rule },
  { key: "prompts", value: (row) => row.num_prompts, cell: (row) => String(row.num_prompts) },
  { key: "speedup", value: (row) => row.speedup, cell: (row) => speedCell(row.speedup) },
  { key: "interval", value: (row) => row.interval?.[0], cell: (row) => interval(row.interval) },
  { key: "range", value: (row) => row.low, cell: (row) => interval(row.low == null ? null : [row.low, row.high]) },
  { key: "tokens", value: (row) => row.tokens_per_round, cell: (row) => number(row.tokens_per_round, 2) },
  { key: "formula", value: (row) => row.expected_tokens_per_round, cell: (row) => number(row.expected_tokens_per_round, 2) },
  { key: "acceptance", value: (row) => row.acceptance_rate, cell: (row) => percent(row.acceptance_rate) },
  { key: "alpha", value: (row) => row.alpha, cell: (row) => number(row.alpha, 3) },
  { key: "draft", value: (row) => row.draft_cost, cell: (row) => number(row.draft_cost, 2) },
  { key: "verify", value: (row) => row.verify_cost, cell: (row) => number(row.verify_cost, 2) },
  { key: "vain", value: (row) => row.drafted_in_vain, cell: (row) => number(row.drafted_in_vain, 0) },
  { key: "passes", value: (row) => row.target_passes, cell: (row) => number(row.target_passes, 0) },
  { key: "first", value: (row) => row.seconds_to_first_token, cell: firstTokens },
  { key: "same", value: (row) => row.num_identical, cell: (row) => `${row.num_identical} / ${row.num_prompts}` },
], { key: "speedup", down: true });

const paintMemory = sortableTable(refs.memory, [
  { key: "drafter", isText: true, value: (row) => drafterText(row.drafter) },
  ...["target_bytes", "target_cache_bytes", "drafter_bytes", "drafter_cache_bytes", "added_bytes"].map((key) => (
    { key, value: (row) => row[key], cell: (row) => smallBytes(row[key]) }
  )),
], { key: "added_bytes", down: false });

function smallBytes(value) {
  return value < 1e6 ? `${(value / 1e3).toFixed(0)} kB` : value < 1e7 ? `${(value / 1e6).toFixed(1)} MB` : bytes(value);
}

function showMemory() {
  const rows = view.memory ?? [];
  refs.memoryPart.hidden = !rows.length || view.state === "running";
  if (!rows.length) return;
  paintMemory(rows);
  const peak = Math.max(...rows.map((row) => row.peak_bytes ?? 0));
  const measured = peak ? say(`peak_${rows[0].peak_of}`, { peak: smallBytes(peak) }) : "";
  setText(refs.memoryNote, `${say("memory_note", { n: rows[0].num_tokens })} ${measured}`);
}

function firstTokens(row) {
  return `${number(row.seconds_to_first_token, 3)} / ${number(row.plain_seconds_to_first_token, 3)}`;
}

function show() {
  setText(refs.headline, say(`sweep_${view.state}`));
  setText(refs.detail, stateDetail());
  refs.bar.hidden = view.state === "idle" || !view.all;
  refs.bar.setAttribute("aria-label", refs.headline.textContent);
  refs.bar.value = view.all ? view.done / view.all : 0;
  refs.table.hidden = !view.points.length;
  if (view.points.length) paintTable(view.points);
  showNote();
  showMemory();
}

function stateDetail() {
  if (view.state === "failed") return view.message;
  if (view.state === "idle" || view.state === "waiting") return say(`sweep_${view.state}_detail`);
  const done = say("heats_done", { done: view.done, all: view.all });
  if (view.state === "running") return view.left == null ? done : `${done} ${say("time_left", { left: duration(view.left) })}`;
  return view.done < view.all ? `${done} ${say("can_go_on")}` : done;
}

// Why the formula and the measurement part, at the largest K of what is chosen.
function showNote() {
  const chosen = props.shown;
  const mine = view.points.filter((row) => row.drafter === chosen?.drafter && row.temperature === chosen?.temperature);
  const row = mine.reduce((most, one) => (most && most.k >= one.k ? most : one), null);
  const isKnown = row && row.expected_tokens_per_round != null && row.tokens_per_round != null;
  refs.note.hidden = !isKnown || view.state === "running";
  if (!isKnown) return;
  const figures = say("gap_figures", {
    key: setKey(row), measured: number(row.tokens_per_round, 2), formula: number(row.expected_tokens_per_round, 2),
    alpha: number(row.alpha, 2), correlation: number(row.correlation, 2),
  });
  const costs = say("cost_figures", {
    vain: number(row.drafted_in_vain, 0), passes: number(row.target_passes, 0),
    first: number(row.seconds_to_first_token, 3), plain: number(row.plain_seconds_to_first_token, 3),
  });
  const reason = say(gapReason(row), { drafts: number(draftsARound(row), 1) });
  setText(refs.note, [figures, reason, costs].join(" "));
}

// For a hundred tokens: each round adds one of its own to the accepted drafts.
function draftsARound({ drafted_in_vain: vain, target_passes: passes }) {
  return (vain + 100 - passes) / passes;
}

function gapReason(row) {
  const gap = row.tokens_per_round / row.expected_tokens_per_round - 1;
  const known = row.acceptance_by_position.filter((one) => one != null);
  if (Math.abs(gap) < 0.02) return "gap_none";
  if (gap < 0 && draftsARound(row) < 0.9 * row.k) return "gap_short";
  if (gap < 0 && row.correlation > 0.05) return "gap_runs";
  if (gap > 0 && known.at(-1) < known[0]) return "gap_depth";
  return "gap_other";
}

watch("shown", showNote);
followRuns("#sweep-stop");
