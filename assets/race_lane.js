// One lane: rows in, token nodes out. A row can be painted and unpainted, so that the player moves both ways.

const RETAINED = new Set(["a", "c", "b", "p"]);

function createLane(name) {
  const host = element.querySelector(`[data-lane="${name}"]`);
  const parts = {};
  for (const node of host.querySelectorAll("[data-part]")) parts[node.dataset.part] = node;
  const lane = { name, host, parts };
  resetLane(lane);
  return lane;
}

function resetLane(lane) {
  Object.assign(lane, { rows: [], painted: [], pending: null, reading: null, clock: 0, finish: null, reason: null });
  lane.parts.text.replaceChildren();
  lane.parts.text.parentElement.scrollTop = 0;
  lane.parts.notes.replaceChildren();
  setText(lane.parts.reason, "");
}

function receiveRow(lane, row) {
  // How far a long prompt is read is news only while it lasts: nothing of it is replayed.
  lane.reading = row.e === "p" ? row : null;
  if (lane.reading) return;
  if (row.e === "r") lane.clock = row.c;
  row.start = lane.rows.findLast?.((known) => known.e === "r")?.c ?? 0;
  row.at = lane.clock;
  lane.rows.push(row);
  if (row.e === "f") lane.finish = row;
}

// What the copy button copies: the retained spans, without a final end-of-text token.
function answerOf(lane) {
  const pieces = [];
  for (const row of lane.rows) {
    if (row.e === "f" && row.reason === "eos") pieces.pop();
    for (const [, text, status] of row.s ?? []) if (row.e === "f" || RETAINED.has(status)) pieces.push(text);
  }
  return pieces.join("");
}

function tokenNode(text, status, row) {
  const node = create("span", `tok ${status}`);
  node.textContent = text;
  node.token = { row, status };
  if (text.endsWith("\n")) node.dataset.newline = "";
  const marks = text.match(HIDDEN_MARKS);
  if (marks) node.dataset.marks = marks.map(hiddenPicture).join("");
  return node;
}

function showPending(lane, row, numShown) {
  if (lane.pending && lane.pending.row !== row) hidePending(lane);
  lane.pending ??= { row, nodes: [] };
  // Of a tree the best guess at each place: which branch stays, the verdict says.
  const drafts = row.g ? bestBranch(row) : row.s.filter(([, , status]) => "ardu".includes(status));
  const nodes = drafts.slice(lane.pending.nodes.length, numShown).map(([, text]) => tokenNode(text, "w", row));
  lane.pending.nodes.push(...nodes);
  lane.parts.text.append(...nodes);
}

function hidePending(lane) {
  lane.pending?.nodes.forEach((node) => node.remove());
  lane.pending = null;
}

function paintRow(lane, row) {
  if (row.g) hidePending(lane);
  const drafted = lane.pending?.row === row ? lane.pending.nodes : (hidePending(lane), []);
  lane.pending = null;
  const nodes = (row.e === "r" ? row.s ?? [] : []).map(([id, text, status], i) => {
    const node = drafted[i] ?? tokenNode(text, status, row);
    const isFirst = i === 0 && lane.name === "speculative";
    node.className = `tok ${status}${isFirst ? " first" : ""}${isLeftBranch(row, i) ? " left-branch" : ""}`;
    node.token = { row, status, id, text };
    return node;
  });
  lane.parts.text.append(...nodes.slice(drafted.length));
  lane.painted.push({ row, nodes, undo: row.e === "r" ? null : paintEnds(lane, row) });
}

function unpaintRow(lane) {
  const { row, nodes, undo } = lane.painted.pop();
  hidePending(lane);
  nodes.forEach((node) => node.remove());
  undo?.();
  return row;
}

function paintEnds(lane, row) {
  return row.e === "s" ? paintNotes(lane, row.notes) : paintFinish(lane, row);
}

function paintNotes(lane, notes) {
  const nodes = notes.map((note) => {
    const node = create("span", "race-note", lane.parts.notes);
    node.textContent = noteText(note);
    return node;
  });
  return () => nodes.forEach((node) => node.remove());
}

function paintFinish(lane, row) {
  const last = lastRetained(lane);
  const text = last?.textContent;
  if (last && row.reason === "eos") {
    last.classList.add("eos");
    last.textContent = "";
  }
  if (last && row.s) last.append(...row.s.map(([, tail]) => document.createTextNode(tail)));
  const isFailed = row.reason === "failed";
  const place = isFailed ? ["p", "race-failed", lane.parts.text] : ["span", "race-note", lane.parts.notes];
  const message = row.message ? create(...place) : null;
  if (message) message.textContent = noteText(row.message);
  lane.reason = row.reason;
  return () => {
    message?.remove();
    lane.reason = null;
    if (!last) return;
    last.classList.remove("eos");
    last.textContent = text;
  };
}

function lastRetained(lane) {
  for (const { nodes } of lane.painted.toReversed?.() ?? [...lane.painted].reverse()) {
    const node = nodes.findLast((one) => RETAINED.has(one.token.status));
    if (node) return node;
  }
  return null;
}

function lastRound(lane) {
  for (let i = lane.painted.length - 1; i >= 0; i -= 1) if (lane.painted[i].row.e === "r") return lane.painted[i].row;
  return null;
}

function paintLaneFigures(lane, axis, time) {
  const row = lastRound(lane);
  setText(lane.parts.rate, number(row?.r, 1));
  const shown = Math.min(time, lane.clock);
  lane.parts.bar.style.transform = `scaleX(${axis ? Math.min(1, shown / axis) : 0})`;
  const values = { tokens: row?.n ?? 0, seconds: number(row?.c ?? 0, 2), passes: row?.p ?? 0, bytes: bytes(row?.b ?? 0) };
  setText(lane.parts.counts, say(serverKey("counts"), { ...values, first: number(row?.f, 2) }));
  setText(lane.parts.reason, lane.reason ? say(`reason_${lane.reason}`) : "");
}

// The tooltip is written when it is asked for: most tokens are never pointed at.
function describeToken(lane, node) {
  if (!node.token || node.token.id === undefined) return;
  const { row, status, id, text } = node.token;
  const all = lane.painted.flatMap(({ nodes }) => nodes).filter((one) => RETAINED.has(one.token.status));
  const index = all.indexOf(node);
  const words = { id, text: visible(text), status: say(STATUS_TEXTS[status]), round: row.i + 1 };
  node.title = say("tip", { ...words, index: index < 0 ? "–" : index });
}
