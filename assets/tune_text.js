// Figures and tables of the tab "Tune". All text reaches the page through textContent.

const refs = {};
for (const node of element.querySelectorAll("[data-ref]")) refs[node.dataset.ref] = node;

function interval(pair, digits = 2) {
  return pair ? `${pair[0].toFixed(digits)} – ${pair[1].toFixed(digits)}` : "–";
}

function times(value) {
  return value == null ? "–" : `${value.toFixed(2)}×`;
}

function setKey(point) {
  return `${drafterText(point.drafter)} · K = ${point.k}`;
}

// A speed beside plain decoding's, with a mark and not by its colour alone.
function speedCell(value) {
  const shown = Number(value?.toFixed(2));
  const [mark, kind] = shown > 1 ? ["▲", "tune-gain"] : shown < 1 ? ["▼", "tune-loss"] : ["=", ""];
  const node = create("span", kind);
  node.textContent = value == null ? "–" : `${mark} ${times(value)}`;
  return node;
}

// columns: { key, help?, value(row) for sorting, cell?(row) for showing }. The chosen order stays while rows come.
function sortableTable(host, columns, firstOrder) {
  let order = firstOrder;
  let shown = [];
  const table = create("table", "", host);
  const head = create("tr", "", create("thead", "", table));
  const body = create("tbody", "", table);
  const heads = columns.map((column) => {
    const cell = create("th", "", head);
    cell.scope = "col";
    const button = create("button", "tune-sort", cell);
    button.type = "button";
    button.addEventListener("click", () => {
      order = { key: column.key, down: order.key === column.key ? !order.down : !column.isText };
      paint(shown);
    });
    return { cell, button, column };
  });
  function paint(rows) {
    shown = rows;
    for (const { cell, button, column } of heads) {
      const isSorted = order.key === column.key;
      cell.setAttribute("aria-sort", !isSorted ? "none" : order.down ? "descending" : "ascending");
      setText(button, say(`col_${column.key}`) + (isSorted ? (order.down ? " ▼" : " ▲") : ""));
      button.title = say(`help_${column.key}`);
    }
    const { value } = columns.find(({ key }) => key === order.key);
    const sorted = rows.map((row, place) => ({ row, place }));
    sorted.sort((one, other) => compareCells(value(one.row), value(other.row), order.down) || one.place - other.place);
    body.replaceChildren(...sorted.map(({ row }) => {
      const line = document.createElement("tr");
      for (const column of columns) create("td", "", line).append((column.cell ?? column.value)(row));
      return line;
    }));
  }
  return paint;
}

// What is not known stands last, whichever way.
function compareCells(one, other, isDown) {
  if (one == null || other == null) return (one == null) - (other == null);
  const sign = typeof one === "string" ? one.localeCompare(other) : one - other;
  return isDown ? -sign : sign;
}

function duration(seconds) {
  if (seconds < 90) return say("seconds", { n: Math.round(seconds) });
  return say("minutes_long", { n: Math.round(seconds / 60) });
}
