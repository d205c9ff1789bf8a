// What one pass of the target costs at each width, as a curve: small, at rest, painted once.

const CURVE = { width: 330, height: 118, left: 8, right: 8, top: 14, bottom: 16 };

// costs: [width in tokens, seconds] of each point, narrowest first.
function paintCurve(parent, costs, grownText) {
  parent.replaceChildren();
  const svg = createSvg("svg", { viewBox: `0 0 ${CURVE.width} ${CURVE.height}`, role: "img" }, parent);
  const [, one] = costs[0];
  const widest = costs.at(-1)[0];
  const highest = Math.max(...costs.map(([, seconds]) => seconds)) * 1.25;
  const x = (width) => CURVE.left + 10 + ((width - 1) / (widest - 1)) * (CURVE.width - CURVE.left - CURVE.right - 34);
  const y = (seconds) => CURVE.height - CURVE.bottom - (seconds / highest) * (CURVE.height - CURVE.top - CURVE.bottom);
  const floor = CURVE.height - CURVE.bottom;
  createSvg("line", { class: "axis", x1: 0, x2: CURVE.width, y1: floor, y2: floor }, svg);
  const leaves = highest / one; // the width at which a cost that grows with width leaves the picture
  createSvg("line", { class: "grown", x1: x(1), y1: y(one), x2: x(leaves), y2: y(highest) }, svg);
  textAt(svg, x(leaves) + 6, y(highest) + 4, grownText, "start");
  createSvg("polyline", { class: "line", points: costs.map(([width, seconds]) => `${x(width)},${y(seconds)}`).join(" ") }, svg);
  for (const [width, seconds] of costs) {
    createSvg("circle", { cx: x(width), cy: y(seconds), r: 3 }, svg);
    textAt(svg, x(width), CURVE.height - 4, String(width), "middle");
    textAt(svg, x(width), y(seconds) + 14, milliseconds(seconds), "middle");
  }
  svg.setAttribute("aria-label", costs.map(([width, seconds]) => `${width}: ${milliseconds(seconds)} ms`).join(", "));
}

function textAt(svg, x, y, text, anchor) {
  createSvg("text", { x, y, "text-anchor": anchor }, svg).textContent = text;
}
