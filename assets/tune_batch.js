// Many requests at once: a row for each batch size as it is measured, and where the gain ends.

const paintTable = sortableTable(refs.table, [
  { key: "batch", value: (row) => row.batch_size, cell: (row) => String(row.batch_size) },
  { key: "speedup", value: (row) => row.speedup, cell: (row) => speedCell(row.speedup) },
  { key: "range", value: (row) => row.low, cell: (row) => interval([row.low, row.high]) },
  { key: "plain_rate", value: (row) => row.plain_tokens_per_second, cell: (row) => number(row.plain_tokens_per_second, 1) },
  { key: "rate", value: (row) => row.tokens_per_second, cell: (row) => number(row.tokens_per_second, 1) },
  { key: "row_seconds", value: (row) => row.seconds_per_token, cell: rowSeconds },
  { key: "tokens", value: (row) => row.tokens_per_round, cell: (row) => number(row.tokens_per_round, 2) },
  { key: "same", value: (row) => row.num_identical, cell: (row) => `${row.num_identical} / ${row.num_rows}` },
], { key: "batch", down: false });

function rowSeconds(row) {
  return `${number(row.seconds_per_token, 3)} / ${number(row.plain_seconds_per_token, 3)}`;
}

function show() {
  setText(refs.headline, say(`batch_${view.state}`));
  setText(refs.detail, stateDetail());
  refs.bar.hidden = view.state !== "running" && view.state !== "waiting";
  refs.bar.setAttribute("aria-label", refs.headline.textContent);
  refs.bar.value = view.all ? view.done / view.all : 0;
  refs.table.hidden = !view.points.length;
  if (view.points.length) paintTable(view.points);
}

function stateDetail() {
  if (view.state === "failed") return view.message;
  if (view.state === "idle" || view.state === "waiting") return say(`batch_${view.state}_detail`);
  if (view.state === "running" && !view.points.length) return say("batch_running_detail", { done: view.done, all: view.all });
  return view.points.length > 1 ? crossingText() : "";
}

function crossingText() {
  if (view.crossing != null) return say("crosses", { at: number(view.crossing, 1) });
  if (view.points.every((row) => row.speedup >= 1)) return say("stays_above");
  return say(view.points.every((row) => row.speedup < 1) ? "stays_below" : "crosses_unclear");
}

followRuns("#batch-stop");
