// Inline SVG charts. Points are appended in data units and a transform scales them, so a paint costs what is new.

function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

function rateChart(host) {
  const [width, height, left, bottom] = [300, 88, 28, 74];
  const svg = createSvg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  createSvg("path", { d: `M${left} 6V${bottom}H${width - 4}`, class: "axis" }, svg);
  const plot = createSvg("g", {}, svg);
  const lines = ["plain", "speculative"].map((name) => createSvg("polyline", { class: `line ${name}` }, plot));
  const names = ["plain", "speculative"].map((name) => createSvg("text", { class: `name ${name}` }, svg));
  const top = createSvg("text", { x: left - 4, y: 13, "text-anchor": "end" }, svg);
  createSvg("text", { x: left - 4, y: bottom + 2, "text-anchor": "end" }, svg).textContent = "0";
  const last = createSvg("text", { x: width - 4, y: bottom + 12, "text-anchor": "end" }, svg);
  host.replaceChildren(svg);
  // Points that were added since the last paint: a line that changes is painted again.
  const added = [[], []];
  let highest = 0;
  return {
    add(lane, seconds, rate) {
      const point = svg.createSVGPoint();
      [point.x, point.y] = [seconds, rate];
      added[lane].push(point);
      highest = Math.max(highest, rate);
    },
    remove(lane) {
      const points = lines[lane].points;
      if (added[lane].length) added[lane].pop();
      else if (points.numberOfItems) points.removeItem(points.numberOfItems - 1);
    },
    paint(axis) {
      lines.forEach((line, lane) => added[lane].splice(0).forEach((point) => line.points.appendItem(point)));
      const scale = niceCeiling(highest * 1.05);
      const [sx, sy] = [(width - left - 6) / axis, (bottom - 8) / scale];
      plot.setAttribute("transform", `translate(${left} ${bottom}) scale(${sx} ${-sy})`);
      setText(top, String(Math.round(scale)));
      setText(last, `${number(axis, axis < 10 ? 1 : 0)} ${say("s")}`);
      this.placeNames(sx, sy);
    },
    placeNames(sx, sy) {
      const ends = lines.map((line) => line.points.numberOfItems && line.points.getItem(line.points.numberOfItems - 1));
      const isFasterBelow = ends[0] && ends[1] && ends[1].y < ends[0].y;
      names.forEach((name, lane) => {
        const end = ends[lane];
        setText(name, end ? say(lane ? "short_speculative" : "short_plain") : "");
        if (!end) return;
        const isAbove = (lane === 1) !== Boolean(isFasterBelow);
        name.setAttribute("x", Math.min(left + end.x * sx, width - 4));
        name.setAttribute("y", Math.min(bottom - 4, Math.max(10, bottom - end.y * sy + (isAbove ? -6 : 13))));
        name.setAttribute("text-anchor", "end");
      });
    },
  };
}

function histogramChart(host) {
  const [width, height, bottom] = [240, 88, 74];
  const svg = createSvg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  host.replaceChildren(svg);
  const bars = [];
  const counts = [];
  function grow(longest) {
    while (bars.length <= longest) {
      const rect = createSvg("rect", { class: "bar", rx: 2 }, svg);
      const label = createSvg("text", { y: height - 2, "text-anchor": "middle" }, svg);
      const count = createSvg("text", { class: "count", "text-anchor": "middle" }, svg);
      label.textContent = String(bars.length);
      bars.push({ rect, label, count });
      counts.push(0);
    }
    const slot = width / bars.length;
    bars.forEach(({ rect, label, count }, i) => {
      rect.setAttribute("x", i * slot + slot * 0.15);
      rect.setAttribute("width", slot * 0.7);
      for (const text of [label, count]) text.setAttribute("x", i * slot + slot / 2);
    });
  }
  return {
    grow,
    add(length, step) {
      if (length >= bars.length) grow(length);
      counts[length] += step;
    },
    paint() {
      const most = Math.max(1, ...counts);
      bars.forEach(({ rect, count }, i) => {
        const tall = (counts[i] / most) * (bottom - 16);
        rect.setAttribute("y", bottom - tall);
        rect.setAttribute("height", tall);
        count.setAttribute("y", bottom - tall - 3);
        setText(count, counts[i] ? String(counts[i]) : "");
      });
    },
  };
}

function timeChart(host) {
  const [width, height, left] = [260, 88, 68];
  const svg = createSvg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const rows = ["plain", "speculative"].map((name, lane) => ({
    name: createSvg("text", { x: 0, y: 22 + lane * 30 }, svg),
    total: createSvg("text", { y: 22 + lane * 30 }, svg),
    parts: ["draft", "verify", "rest"].map((part) =>
      createSvg("rect", { class: `part ${part} ${name}`, y: 9 + lane * 30, height: 18, rx: 2 }, svg)),
  }));
  const legend = ["draft", "verify", "rest"].map((part, i) => {
    createSvg("rect", { class: `part ${part}`, x: left + i * 62, y: 74, width: 9, height: 9, rx: 2 }, svg);
    return createSvg("text", { x: left + 13 + i * 62, y: 82 }, svg);
  });
  host.replaceChildren(svg);
  return {
    paint(times) {
      ["draft", "verify", "rest"].forEach((part, i) => setText(legend[i], say(part)));
      const totals = times.map((parts) => parts.reduce((sum, part) => sum + part, 0));
      const scale = (width - left - 48) / Math.max(...totals, 1e-9);
      rows.forEach(({ name, total, parts }, lane) => {
        let x = left;
        setText(name, say(lane ? "short_speculative" : "short_plain"));
        parts.forEach((rect, i) => {
          rect.setAttribute("x", x);
          rect.setAttribute("width", times[lane][i] * scale);
          x += times[lane][i] * scale;
        });
        total.setAttribute("x", x + 5);
        setText(total, totals[lane] ? `${milliseconds(totals[lane])} ${say("ms")}` : "");
      });
    },
  };
}
