// The inspector: one token and the decision about it, in the numbers that the rule used. Opens below the round.

const DRAFT_STATUSES = "ardu";
const KNOWN_RULES = ["greedy", "rejection", "coupled", "block", "typical"];
// The token that is looked at, `null` while the panel follows the playhead; and what was painted last.
let seen = null;
let seenLane = 1;
let isRoundsShown = false;
let paintedKey = "";
const markedNodes = [];

function isInside() {
  return !refs.inside.hidden;
}

function toggleInside() {
  const isOpen = !isInside();
  const hadFocus = refs.inside.contains(document.activeElement);
  refs.inside.hidden = !isOpen;
  refs.root.classList.toggle("looking", isOpen);
  refs.look.setAttribute("aria-expanded", String(isOpen));
  keepEvidence(isOpen);
  paintedKey = "";
  if (isOpen) showInside();
  else showWhatWasCovered();
  if (hadFocus) refs.look.focus();
}

// What the panel hides is not painted while it is open.
function showWhatWasCovered() {
  unmark();
  showRound();
  showCharts();
}

// The page's own setting: the next race keeps the numbers while someone looks, and only then.
function keepEvidence(isKept) {
  const setting = document.querySelector("#evidence input");
  if (setting && setting.checked !== isKept) setting.click();
}

function forgetInside() {
  seen = null;
  seenLane = 1;
  paintedKey = "";
  unmark();
  clearRounds();
}

// The playhead moved: the panel follows it again. Live it moves by itself, and who has chosen a token goes on reading.
function followPlayhead() {
  if (!player.isLive) seen = null;
}

function showInside() {
  if (!isInside()) return;
  const now = seen ?? newestDecision();
  const key = [view.run, language(), isRoundsShown, Boolean(view.done), now?.lane.name, now?.row.i, now?.place].join("/");
  if (isRoundsShown) showRounds(now);
  if (key === paintedKey) return;
  paintedKey = key;
  refs.insideToken.hidden = isRoundsShown;
  refs.insideRounds.hidden = !isRoundsShown;
  refs.viewToken.setAttribute("aria-pressed", String(!isRoundsShown));
  refs.viewRounds.setAttribute("aria-pressed", String(isRoundsShown));
  markToken(now);
  for (const name of ["tokenBack", "tokenStep", "otherLane"]) refs[name].disabled = !now;
  setText(refs.otherLane, say(now?.lane.name === "plain" ? "inside_to_speculative" : "inside_to_plain"));
  if (!isRoundsShown) paintDecision(now);
}

// What decided the newest round: the draft that failed, else the token that the target added.
function newestDecision() {
  const lane = lanes[seenLane];
  const row = lastRound(lane);
  return row?.s?.length ? { lane, row, place: decisivePlace(row) } : null;
}

function decisivePlace(row) {
  const failed = row.s.findIndex(([, , status]) => status === "r");
  return failed < 0 ? row.s.length - 1 : failed;
}

// A click on a token: looked into while the panel is open, else its round is spelled out where nothing moves.
function pointAt(lane, node) {
  const row = node.token?.row;
  const place = paintedOf(lane, row)?.nodes.indexOf(node) ?? -1;
  if (place < 0) return;
  if (isInside()) return inspect(lane, row, place);
  if (lane.name !== "speculative" || player.isPlaying || player.isLive) return;
  chosenRound = row;
  showRound();
}

function inspect(lane, row, place) {
  if (!row?.s?.[place]) return;
  if (!paintedOf(lane, row)) player.goTo(row.at);
  else if (player.isPlaying) player.pause();
  seen = { lane, row, place };
  seenLane = lanes.indexOf(lane);
  if (seenLane === 1) chosenRound = row;
  showRound();
  showInside();
  if (isInside()) scrollToToken(lane, nodeOf(lane, row, place));
}

// Token by token, also those that were thrown away, across the borders of rounds.
function stepToken(direction) {
  const now = seen ?? newestDecision();
  if (!now) return;
  const { lane, row, place } = now;
  if (row.s[place + direction]) return inspect(lane, row, place + direction);
  const { rounds, places } = factsOf(lane);
  const next = rounds[places.get(row) + direction];
  if (next) inspect(lane, next, direction > 0 ? 0 : next.s.length - 1);
}

// From the token that was chosen, wherever the playhead stands.
function stepRound(direction) {
  const { rounds, places } = factsOf(seen.lane);
  const next = rounds[places.get(seen.row) + direction];
  if (next) inspect(seen.lane, next, decisivePlace(next));
}

// The same place of the answer in the other lane.
function changeLane() {
  const now = seen ?? newestDecision();
  if (!now) return;
  const index = answerIndex(now.lane, now.row, now.place);
  const other = lanes[1 - lanes.indexOf(now.lane)];
  const { rounds, starts } = factsOf(other);
  const row = rounds.findLast((one) => starts.get(one) <= index);
  const places = row ? [...row.s.keys()].filter((place) => RETAINED.has(row.s[place][2])) : [];
  if (places.length) inspect(other, row, places[Math.min(index - starts.get(row), places.length - 1)]);
}

// Rows are painted in their order.
function paintedOf(lane, row) {
  return lane.painted[factsOf(lane).indices.get(row)];
}

function nodeOf(lane, row, place) {
  return paintedOf(lane, row)?.nodes[place];
}

function mark(node, name) {
  if (!node) return;
  node.classList.add(name);
  markedNodes.push([node, name]);
}

function unmark() {
  for (const [node, name] of markedNodes.splice(0)) node.classList.remove(name);
}

function markToken(now) {
  unmark();
  if (!now) return;
  mark(nodeOf(now.lane, now.row, now.place), "seen");
  markCopy(now);
}

// Within the lane's own box: the page stays where it is.
function scrollToToken(lane, node) {
  if (!node) return;
  const host = lane.parts.text.parentElement;
  const [edge, token] = [host.getBoundingClientRect(), node.getBoundingClientRect()];
  if (token.top < edge.top) host.scrollTop += token.top - edge.top - 8;
  else if (token.bottom > edge.bottom) host.scrollTop += token.bottom - edge.bottom + 8;
}

function paintDecision(now) {
  const host = refs.insideToken;
  const hadFocus = host.contains(document.activeElement);
  host.replaceChildren();
  setText(refs.insideTitle, now ? tokenTitle(now) : say("inside_none"));
  if (!now) return;
  const shown = { ...now, entry: now.row.v };
  paintChips(host, shown);
  addText("p", "inside-verdict", host, verdictOf(shown));
  const boxes = create("div", "inside-boxes", host);
  if (shown.entry) paintEvidence(boxes, shown);
  else addText("p", "inside-missing", host, say("inside_missing"));
  addCost(box(boxes, say("inside_cost")), now.row, now.lane.name === "speculative" ? lastRound(lanes[0]) : null);
  // Asking for the focus lays the page out: once, when all is built.
  if (hadFocus) host.querySelector("[aria-current]").focus({ preventScroll: true });
}

function tokenTitle({ lane, row, place }) {
  const [id, text, status] = row.s[place];
  const words = { id, text: visible(text), status: say(STATUS_TEXTS[status]), round: row.i + 1 };
  return `${say(lane.name)} · ${say("tip", { ...words, index: RETAINED.has(status) ? answerIndex(lane, row, place) : "–" })}`;
}

// The tokens of the round as buttons; one of them is in the tab order, the arrow keys move.
function paintChips(host, shown) {
  const { lane, row, place } = shown;
  const line = create("div", row.g ? "inside-chips race-tree" : "inside-chips", host);
  const makeChip = (i) => {
    const [, text, status] = row.s[i];
    const chip = create("button", `race-box ${status}`, line);
    Object.assign(chip, { type: "button", tabIndex: i === place ? 0 : -1, title: say(STATUS_TEXTS[status]) });
    if (i === place) {
      chip.setAttribute("aria-current", "true");
      chip.setAttribute("aria-label", `${visible(text)}. ${verdictOf(shown)}`);
    }
    addText("b", "", chip, ROUND_MARKS[status]);
    addText("bdi", "", chip, visible(text));
    chip.addEventListener("click", () => inspect(lane, row, i));
    return chip;
  };
  if (row.g) drawTree(line, row, false, makeChip);
  else row.s.forEach((_, i) => makeChip(i));
}

// Position of a draft in its round, and what the rule said of it; nothing of a token that the target added.
function judgedAt({ entry, row, place }) {
  return DRAFT_STATUSES.includes(row.s[place][2]) ? entry?.p?.[place] : undefined;
}

// A file may name a rule that this page has no words for: then its numbers are shown without any.
function ruleShown() {
  return KNOWN_RULES.find((rule) => rule === view.head.rule);
}

function verdictOf(shown) {
  const { row, place, entry, lane } = shown;
  const status = row.s[place][2];
  const position = judgedAt(shown);
  const rule = ruleShown();
  if (isLeftBranch(row, place)) return say("inside_branch_left");
  if (status === "u" || (status === "d" && !position)) return say(`inside_${status === "u" ? "unused" : "discarded"}`);
  if (!entry || !rule) return say(`inside_bare_${STATUS_TEXTS[status]}`);
  if (!position) return nextVerdict(shown);
  const best = visible(tokenText(lane, row, position.c?.[0][0] ?? row.s[place][0]));
  const values = { uniform: figure(position.u), accept: figure(position.a), best, target: figure(position.t), threshold: figure(position.y) };
  if (rule === "block" && status === "a" && position.u >= position.a) return say("inside_block_carried", values);
  return say(`inside_${rule}_${status === "a" ? "accepted" : "rejected"}`, values);
}

function nextVerdict({ entry, row, place }) {
  const why = say(`inside_bare_${STATUS_TEXTS[row.s[place][2]]}`);
  const next = entry.n;
  if (!next) return why;
  const how = next.r ? "residual" : next.u != null ? "drawn" : view.head.rule === "greedy" ? "highest" : "noise";
  return `${why}${language() === "en" ? " " : ""}${say(`inside_from_${how}`)}`;
}

function paintEvidence(boxes, shown) {
  const position = judgedAt(shown);
  const isNext = !DRAFT_STATUSES.includes(shown.row.s[shown.place][2]);
  if (position) paintPosition(boxes, shown, position);
  const isFailed = shown.row.s[shown.place][2] === "r";
  if (shown.entry.n && (isNext || (isFailed && shown.entry.n.u != null))) paintNext(boxes, shown);
}

function paintPosition(boxes, shown, position) {
  const { row, place } = shown;
  const id = row.s[place][0];
  const rule = ruleShown();
  const decision = box(boxes, say("inside_decision"));
  if (position.u != null && rule !== "block") {
    addPair(decision, [["inside_draft", position.d, "draft"], ["inside_target", position.t, "target"]], 1);
    addAcceptance(decision, position);
  }
  if (rule === "block") addBlock(decision, shown);
  if (rule === "greedy" && position.c) addLogits(decision, shown, position.c, id);
  if (rule === "coupled" && position.c) addNoise(decision, shown, position.c, id);
  if (rule === "typical") {
    const pair = [["inside_target", position.t, "target"], ["inside_threshold", position.y, "draft"]];
    addPair(decision, pair, Math.max(position.t, position.y));
    addText("p", "inside-note", decision, say("inside_entropy", { entropy: figure(position.h) }));
  }
  if (rule) addText("p", "inside-note", decision, say(`inside_help_${rule}`));
  const isByRest = row.g && position.u != null && Math.abs(position.a - Math.min(1, position.t / position.d)) > 1e-3;
  if (isByRest) addText("p", "inside-note", decision, say("inside_after_siblings"));
  if (position.f != null || position.k != null) {
    addText("h3", "", decision, say("inside_origin"));
    addOrigin(decision, shown, position);
  }
  const candidates = box(boxes, say("inside_candidates"));
  const columns = create("div", "inside-columns", candidates);
  addCandidates(columns, shown, say("inside_draft"), position.q ?? [], { id, prob: position.d });
  addCandidates(columns, shown, say("inside_target"), position.g ?? [], { id, prob: position.t });
  if (position.q?.length === 1 && position.q[0][1] === 1) addText("p", "inside-note", candidates, say("inside_one_hot"));
}

// What the round's last token was drawn from, or won.
function paintNext(boxes, shown) {
  const next = shown.entry.n;
  const id = shown.row.s.at(-1)[0];
  const host = box(boxes, say(next.r ? "inside_residual" : "inside_target_law"));
  if (next.u != null) addStretches(host, shown, next, id);
  if (next.c && view.head.rule === "greedy") addLogits(host, shown, next.c, undefined);
  if (next.c && view.head.rule === "coupled") addNoise(host, shown, next.c, undefined);
  addCandidates(host, shown, say(next.r ? "inside_residual_help" : "inside_target"), next.t ?? [], { id, prob: next.p });
}

// Keys of the panel; those of the whole race are in race.js. True where one was used.
function useInsideKey(event) {
  if (!isInside()) return false;
  if (event.key === "Escape" && !canStop()) toggleInside();
  else if (isRoundsShown) return false;
  else if (seen && event.key === "ArrowRight") stepRound(1);
  else if (seen && event.key === "ArrowLeft") stepRound(-1);
  else if (!refs.inside.contains(event.target)) return false;
  else if (event.key === "ArrowDown") stepToken(1);
  else if (event.key === "ArrowUp") stepToken(-1);
  else return false;
  return true;
}

function showView(isRounds) {
  isRoundsShown = isRounds;
  showInside();
}

function connectInside() {
  refs.look.addEventListener("click", toggleInside);
  refs.closeInside.addEventListener("click", toggleInside);
  refs.viewToken.addEventListener("click", () => showView(false));
  refs.viewRounds.addEventListener("click", () => showView(true));
  refs.tokenBack.addEventListener("click", () => stepToken(-1));
  refs.tokenStep.addEventListener("click", () => stepToken(1));
  refs.otherLane.addEventListener("click", changeLane);
  refs.roundGrid.addEventListener("click", ({ target }) => {
    if (target.matches(".cell")) openCell(target);
  });
  refs.roundGrid.addEventListener("pointerover", ({ target }) => {
    if (target.matches(".cell") && !target.title) nameCell(target);
  });
  refs.roundGrid.addEventListener("keydown", moveCell);
}
