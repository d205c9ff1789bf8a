// What evidence looks like: tables, bars and excerpts. Shows the numbers it is given; knows no panel and no keys.

// What a lane's rows say beyond one round: texts of tokens that were never emitted, the prompt, the answer by index.
const FACTS = new WeakMap();

function factsOf(lane) {
  let facts = FACTS.get(lane.rows);
  // A stopped race loses rows that were not shown.
  if (!facts || facts.numRows > lane.rows.length) {
    facts = { numRows: 0, texts: new Map(), prompt: [], answer: [], rounds: [], starts: new Map(), places: new Map(), indices: new Map() };
    FACTS.set(lane.rows, facts);
  }
  for (; facts.numRows < lane.rows.length; facts.numRows += 1) addFacts(facts, lane.rows[facts.numRows]);
  return facts;
}

function addFacts(facts, row) {
  if (row.e === "s") facts.prompt = row.w ?? [];
  if (row.e !== "r") return;
  for (const [id, text] of row.w ?? []) facts.texts.set(id, text);
  facts.indices.set(row, facts.numRows);
  facts.starts.set(row, facts.answer.length);
  facts.places.set(row, facts.rounds.length);
  facts.rounds.push(row);
  row.s?.forEach(([id, text, status], place) => {
    if (RETAINED.has(status)) facts.answer.push({ id, text, row, place });
  });
}

// Index in the answer; of a draft that failed, the one it would have had.
function answerIndex(lane, row, place) {
  const before = row.s.slice(0, place).filter(([, , status]) => RETAINED.has(status)).length;
  const isNext = "cbp".includes(row.s[place][2]);
  const depth = row.g?.[place] ? depthOf(row, place) : place;
  return factsOf(lane).starts.get(row) + (isNext || RETAINED.has(row.s[place][2]) ? before : depth);
}

function tokenText(lane, row, id) {
  return row.s.find(([known]) => known === id)?.[1] || (factsOf(lane).texts.get(id) ?? `#${id}`);
}

// Three digits that count, never more than can be read.
function figure(value) {
  if (value == null) return "–";
  if (value === 0 || value === 1) return String(value);
  return Math.abs(value) < 1e-4 ? value.toExponential(1) : value.toPrecision(3);
}

function score(value) {
  return value == null ? "–∞" : value.toFixed(3);
}

function addText(name, className, parent, text) {
  const node = create(name, className, parent);
  node.textContent = text;
  return node;
}

function box(parent, title) {
  const node = create("div", "inside-box", parent);
  addText("h3", "", node, title);
  return node;
}

function addToken(parent, lane, row, id, className = "") {
  const node = addText("bdi", `inside-token ${className}`, parent, visible(tokenText(lane, row, id)));
  node.title = say("inside_id", { id });
  return node;
}

function addBar(parent, share, className = "") {
  const track = create("span", "inside-track", parent);
  create("i", className, track).style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return track;
}

// The candidates of one model; the chosen token is marked, and added below where it is not among them.
function addCandidates(parent, { lane, row }, title, candidates, chosen) {
  const list = create("div", "inside-list", parent);
  addText("h4", "", list, title);
  const isAmong = candidates.some(([id]) => id === chosen.id);
  const shown = isAmong ? candidates : [...candidates, [chosen.id, chosen.prob]];
  for (const [id, prob] of shown) {
    const line = create("div", `inside-line${id === chosen.id ? " chosen" : ""}`, list);
    addToken(line, lane, row, id);
    addBar(line, prob);
    addText("span", "inside-number", line, figure(prob));
  }
}

// Two numbers as bars on one scale.
function addPair(parent, pair, scale) {
  for (const [key, value, className] of pair) {
    const line = create("div", "inside-line", parent);
    addText("span", "inside-name", line, say(key));
    addBar(line, value / scale, className);
    addText("span", "inside-number", line, figure(value));
  }
}

// 0 to 1: filled as far as the probability to accept, the number drawn as a mark on it.
function addAcceptance(parent, position) {
  const track = addBar(parent, position.a, "accept");
  track.classList.add("inside-gauge");
  create("b", "inside-mark", track).style.left = `${position.u * 100}%`;
  track.setAttribute("role", "img");
  track.setAttribute("aria-label", say("inside_gauge", { accept: figure(position.a), uniform: figure(position.u) }));
  const ends = create("div", "inside-ends", parent);
  addText("span", "", ends, say("inside_accept", { accept: figure(position.a) }));
  addText("span", "", ends, say("inside_uniform", { uniform: figure(position.u) }));
}

// The cumulative distribution as one bar: each candidate at its own stretch, the number drawn as a mark.
function addStretches(parent, { lane, row }, next, chosenId) {
  const track = create("div", "inside-stretches", parent);
  const known = new Map((next.t ?? []).map(([id, prob, start]) => [id, [prob, start]]));
  known.set(chosenId, [next.p, next.o]);
  for (const [id, [prob, start]] of known) {
    if (start == null) continue;
    const part = create("i", id === chosenId ? "chosen" : "", track);
    part.style.left = `${start * 100}%`;
    part.style.width = `${prob * 100}%`;
    part.title = `${visible(tokenText(lane, row, id))} ${figure(prob)}`;
  }
  create("b", "inside-mark", track).style.left = `${next.u * 100}%`;
  track.setAttribute("role", "img");
  const values = { uniform: figure(next.u), start: figure(next.o), end: figure(next.o + next.p) };
  track.setAttribute("aria-label", say("inside_stretch", values));
  addText("p", "inside-note", parent, say("inside_stretch", values));
}

function addTable(parent, heads, rows) {
  const table = create("table", "inside-table", create("div", "inside-scroll", parent));
  const head = create("tr", "", create("thead", "", table));
  for (const text of heads) addText("th", "", head, text).scope = "col";
  const body = create("tbody", "", table);
  for (const { cells, className = "" } of rows) {
    const line = create("tr", className, body);
    for (const cell of cells) {
      if (typeof cell === "function") cell(create("td", "word", line));
      else addText("td", "", line, cell);
    }
  }
}

// Greedy: the highest logits and what lies between them.
function addLogits(parent, { lane, row }, contenders, drafted) {
  const rows = contenders.map(([id, prob, , logit]) => ({
    className: id === drafted ? "chosen" : "",
    cells: [(cell) => addToken(cell, lane, row, id), score(logit), figure(prob)],
  }));
  addTable(parent, [say("inside_word"), say("inside_logit"), say("inside_softmax")], rows);
  if (contenders.length > 1) {
    addText("p", "inside-note", parent, say("inside_gap", { gap: score(contenders[0][3] - contenders[1][3]) }));
  }
}

// Coupled: both models add the same noise to their own log-probabilities; a star stands where each is highest.
function addNoise(parent, { lane, row }, contenders, drafted) {
  const winner = contenders[0][0];
  const isOneHot = contenders.some(([id, , prob]) => id === drafted && prob === 1);
  const hasDraft = drafted !== undefined && !isOneHot;
  const sum = (prob, noise) => (prob > 0 ? score(Math.log(prob) + noise) : score(null));
  const star = (isBest) => (isBest ? " ★" : "");
  const rows = contenders.map(([id, prob, draftProb, total, noise]) => ({
    className: id === drafted ? "chosen" : "",
    cells: [
      (cell) => addToken(cell, lane, row, id),
      score(noise),
      ...(hasDraft ? [sum(draftProb, noise) + star(id === drafted)] : []),
      (prob > 0 ? score(Math.log(prob)) : score(null)),
      score(total) + star(id === winner),
    ],
  }));
  const drafter = hasDraft ? [say("inside_draft_sum")] : [];
  addTable(parent, [say("inside_word"), say("inside_noise"), ...drafter, say("inside_log"), say("inside_target_sum")], rows);
}

function addBlock(parent, { row, place }) {
  const rows = row.v.p.map((position, i) => ({
    className: i === place ? "chosen" : "",
    cells: [
      (cell) => addText("bdi", "inside-token", cell, visible(row.s[i][1])),
      figure(position.x), figure(position.a), figure(position.u), position.u < position.a ? "✓" : "✗",
    ],
  }));
  addTable(parent, ["word", "product", "h", "uniform_head", "trial"].map((key) => say(`inside_${key}`)), rows);
}

// The round's time beside what plain decoding took for as many tokens, on one scale.
function addCost(parent, row, plain) {
  const tokens = row.s.filter(([, , status]) => RETAINED.has(status)).length;
  const perToken = plain?.m.reduce((sum, part) => sum + part, 0);
  const bars = [[say("inside_this_round"), row.t, ["draft", "verify", "rest"]]];
  if (perToken) bars.push([say("inside_plain_same", { tokens }), [0, perToken * tokens, 0], ["draft", "plain", "rest"]]);
  const longest = Math.max(...bars.map(([, times]) => times.reduce((sum, part) => sum + part, 0)), 1e-9);
  for (const [name, times, names] of bars) {
    const line = create("div", "inside-cost", parent);
    addText("span", "", line, name);
    const track = create("span", "inside-track", line);
    times.forEach((time, i) => { create("i", names[i], track).style.width = `${(time / longest) * 100}%`; });
    const total = times.reduce((sum, part) => sum + part, 0);
    addText("span", "inside-number", line, `${milliseconds(total)} ${say("ms")}`);
  }
  const [draft, verify, rest] = row.t.map(milliseconds);
  addText("p", "inside-note", parent, say("round_times", { draft, verify, rest }));
}
