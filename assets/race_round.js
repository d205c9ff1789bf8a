// The current round spelled out. The boxes are kept and refilled, so that a race never rebuilds them.

const ROUND_MARKS = { a: "✓", r: "✗", d: "·", c: "✎", b: "★", p: "▸", u: "∅", w: "?" };

function createRoundBox() {
  const boxes = [];
  const tree = create("span", "race-tree", null);
  const then = create("span", "race-then", null);
  function box(i) {
    while (boxes.length <= i) {
      const node = create("span", "race-box", refs.roundBoxes);
      boxes.push({ node, mark: create("b", "", node), text: create("bdi", "", node) });
    }
    return boxes[i];
  }
  function fill(spans, isPending) {
    spans.forEach(([, text, status], i) => {
      const shown = isPending ? "w" : status;
      const { node, mark, text: label } = box(i);
      node.className = `race-box ${shown}`;
      node.title = say(STATUS_TEXTS[shown]);
      setText(mark, ROUND_MARKS[shown]);
      setText(label, visible(text));
    });
    for (let i = spans.length; i < boxes.length; i += 1) boxes[i].node.className = "race-box gone";
  }
  function fillTree(row, isPending) {
    tree.replaceChildren();
    if (!row?.g) return tree.remove();
    if (!tree.parentElement) refs.roundBoxes.append(tree);
    drawTree(tree, row, isPending, (place) => {
      const [, text, status] = row.s[place];
      const shown = isPending ? "w" : status;
      const node = create("span", `race-box ${shown}`, null);
      node.title = say(isLeftBranch(row, place) && !isPending ? "inside_branch_left" : STATUS_TEXTS[shown]);
      addText("b", "", node, ROUND_MARKS[shown]);
      addText("bdi", "", node, visible(text));
      return node;
    });
  }
  function placeThen(spans) {
    const last = spans.at(-1)?.[2];
    const key = { c: "then_corrected", b: "then_bonus", p: "then_plain" }[last];
    setText(then, key ? say(key) : "");
    if (key) refs.roundBoxes.insertBefore(then, boxes[spans.length - 1].node);
  }
  return {
    clear() {
      setText(refs.roundName, say("round_none"));
      setText(refs.roundTimes, "");
      setText(then, "");
      fill([], false);
      fillTree(null, false);
    },
    paint(row, isPending, plain) {
      const spans = isPending ? row.s.filter(([, , status]) => "ardu".includes(status)) : row.s ?? [];
      setText(refs.roundName, say("round", { index: row.i + 1 }));
      fill(row.g ? [] : spans, isPending);
      fillTree(row, isPending);
      placeThen(isPending || row.g ? [] : spans);
      setText(refs.roundTimes, isPending ? say("round_drafted") : roundTimes(row, plain));
    },
  };
}

function roundTimes(row, plain) {
  const [draft, verify, rest] = row.t.map(milliseconds);
  const times = say(serverKey("round_times"), { draft, verify, rest });
  const perToken = plain?.m.reduce((sum, part) => sum + part, 0);
  const tokens = row.s.filter(([, , status]) => RETAINED.has(status)).length;
  if (!perToken) return times;
  const own = milliseconds(row.t.reduce((sum, part) => sum + part, 0));
  const key = tokens === 1 ? "round_plain_one" : "round_plain";
  return `${times} — ${say(key, { tokens, ms: own, plain: milliseconds(perToken * tokens) })}`;
}
