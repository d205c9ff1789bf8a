// The whole run as rounds: a line for each, a cell for each draft, so that one sees where acceptance dies.

let roundLines = [];
let activeCell = null;
let positionsKey = "";

function clearRounds() {
  roundLines = [];
  activeCell = null;
  positionsKey = "";
  refs.roundGrid.replaceChildren();
  refs.positions.replaceChildren();
}

// Lines are appended and kept: a race of hundreds of rounds is built once.
function showRounds(now) {
  const { rounds } = factsOf(lanes[1]);
  if (roundLines.length > rounds.length) clearRounds();
  const added = rounds.slice(roundLines.length).map(roundLine);
  roundLines.push(...added);
  refs.roundGrid.append(...added);
  const longest = Math.max(1, ...rounds.map((row) => row.s.length));
  refs.roundGrid.style.setProperty("--cells", String(longest));
  const line = now && now.lane === lanes[1] ? roundLines[factsOf(lanes[1]).places.get(now.row)] : roundLines[0];
  activate(line?.children[now?.lane === lanes[1] ? now.place + 1 : 1]);
  showPositions();
  setText(refs.insideTitle, say("inside_rounds", { rounds: rounds.length }));
}

function roundLine(row) {
  const line = create("div", "rounds-line", null);
  line.setAttribute("role", "row");
  const head = addText("span", "", line, String(row.i + 1));
  head.setAttribute("role", "rowheader");
  for (const [, , status] of row.s) {
    const cell = addText("i", `cell ${status}`, line, ROUND_MARKS[status]);
    cell.setAttribute("role", "gridcell");
  }
  line.row = row;
  return line;
}

// One cell is in the tab order; it is named when it becomes that one, most never are.
function activate(cell) {
  if (activeCell === cell) return;
  activeCell?.removeAttribute("tabindex");
  activeCell = cell ?? null;
  if (!cell) return;
  cell.tabIndex = 0;
  nameCell(cell);
}

function nameCell(cell) {
  const { row } = cell.parentElement;
  const [, text, status] = row.s[placeOf(cell)];
  const values = { round: row.i + 1, text: visible(text), status: say(STATUS_TEXTS[status]) };
  cell.title = say("inside_cell", values);
  cell.setAttribute("aria-label", cell.title);
}

function placeOf(cell) {
  return [...cell.parentElement.children].indexOf(cell) - 1;
}

function openCell(cell) {
  isRoundsShown = false;
  inspect(lanes[1], cell.parentElement.row, placeOf(cell));
  refs.insideToken.querySelector("[aria-current]")?.focus({ preventScroll: true });
}

function moveCell(event) {
  const cell = event.target.closest(".cell");
  if (!cell) return;
  const index = roundLines.indexOf(cell.parentElement);
  const place = placeOf(cell);
  const lineAt = { ArrowUp: index - 1, ArrowDown: index + 1 }[event.key] ?? index;
  const placeAt = { ArrowLeft: place - 1, ArrowRight: place + 1 }[event.key] ?? place;
  if (event.key === "Enter" || event.key === " ") openCell(cell);
  else if (lineAt !== index || placeAt !== place) {
    const cells = roundLines[lineAt] ? [...roundLines[lineAt].children].slice(1) : [];
    const next = cells[Math.min(Math.max(placeAt, 0), cells.length - 1)];
    activate(next ?? cell);
    activeCell.focus();
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

// By position in the round: accepted of those judged there, and of all that were drafted there.
function showPositions() {
  const key = `${view.run}/${language()}/${Boolean(view.done)}`;
  if (positionsKey === key) return;
  positionsKey = key;
  refs.positions.replaceChildren();
  addText("h3", "", refs.positions, say("inside_positions"));
  const { acceptance_by_position: given = [], survival_by_position: all = [] } = view.done ?? {};
  if (!given.length) {
    addText("p", "inside-note", refs.positions, say(view.done ? "inside_no_drafts" : "inside_not_over"));
    return;
  }
  const bar = (value) => (cell) => {
    cell.className = "share";
    addBar(cell, value ?? 0);
    addText("span", "inside-number", cell, percent(value));
  };
  const rows = given.map((value, i) => ({ cells: [String(i + 1), bar(value), bar(all[i])] }));
  addTable(refs.positions, [say("inside_position"), say("inside_given"), say("inside_all")], rows);
  addText("p", "inside-note", refs.positions, say("inside_positions_help"));
}
