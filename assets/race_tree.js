// A round whose drafts are a tree: where each of its tokens stands, and the drawing that the round and the inspector share.
// A column is a place in the text, a line goes on with the best guess; the next token stands behind the last that stayed.

function depthOf(row, place) {
  let depth = 0;
  for (let at = row.g[place][0]; at >= 0; at = row.g[at][0]) depth += 1;
  return depth;
}

// From guess to best guess, as spans.
function bestBranch(row) {
  const places = [];
  for (let at = -1; ; at = places.at(-1)) {
    const next = row.g.map(([parent, rank], place) => ({ parent, rank, place })).filter(({ parent }) => parent === at);
    if (!next.length) return places.map((place) => row.s[place]);
    places.push(next.reduce((best, one) => (one.rank < best.rank ? one : best)).place);
  }
}

// Of a draft that did not stay, whether it stands beside those that were judged.
function isLeftBranch(row, place) {
  return Boolean(row.g) && row.s[place]?.[2] === "d";
}

function treeNodes(row, isPending) {
  const nodes = row.g.map(([parent, rank], place) => ({ place, parent, rank, depth: depthOf(row, place) }));
  if (!isPending && row.s.length > row.g.length) {
    const numKept = row.s.slice(0, row.g.length).filter(([, , status]) => RETAINED.has(status)).length;
    nodes.push({ place: row.g.length, parent: numKept - 1, rank: Infinity, depth: numKept });
  }
  let numLines = 0;
  const put = (node, line, up) => {
    Object.assign(node, { line, up });
    const children = nodes.filter((one) => one.parent === node.place).sort((a, b) => a.rank - b.rank);
    children.forEach((child, i) => {
      if (i) numLines += 1;
      put(child, i ? numLines : line, i ? numLines - line : 0);
    });
  };
  put({ place: -1 }, 0, 0);
  return { nodes, numLines: numLines + 1 };
}

// `make(place)` gives the node of a token; all are put on one grid.
function drawTree(host, row, isPending, make) {
  const { nodes, numLines } = treeNodes(row, isPending);
  host.style.setProperty("--lines", String(numLines));
  for (const { place, depth, line, up } of nodes) {
    const node = make(place);
    node.classList.add("tree-node");
    node.classList.toggle("tree-first", depth === 0 && up === 0);
    node.style.gridColumn = String(depth + 1);
    node.style.gridRow = String(line + 1);
    node.style.setProperty("--up", String(up));
    host.append(node);
  }
}
