// Bars and tables of a proof. All text reaches the page through textContent.

const MOST_BARS = 12;

function shortNumber(value, digits) {
  if (value === 0) return "0";
  return Math.abs(value) < 10 ** -digits ? value.toExponential(1) : value.toFixed(digits);
}

function percentage(share) {
  return `${(share * 100).toFixed(1)} %`;
}

// One row an outcome: its text, a bar for what was drawn with a line where the law stands, both shares in figures.
function barChart(host) {
  const rows = [];
  const more = create("p", "prove-more", host.parentElement);
  function grow(count) {
    while (rows.length > count) rows.pop().row.remove();
    while (rows.length < count) {
      const row = create("div", "prove-bar", host);
      const label = create("bdi", "", row);
      const track = create("span", "prove-track", row);
      const bar = create("i", "prove-drawn", track);
      rows.push({ row, label, bar, law: create("i", "prove-law", track), share: create("span", "prove-share", row) });
    }
  }
  return ({ labels, expected, observed }) => {
    const last = labels.length - 1;
    const shown = Math.min(MOST_BARS, last);
    const order = [...Array(shown).keys()];
    if (expected[last] > 0 || observed[last] > 0) order.push(last);
    grow(order.length);
    const most = Math.max(...order.flatMap((i) => [expected[i], observed[i]]), 1e-9);
    order.forEach((outcome, i) => {
      const { label, bar, law, share } = rows[i];
      setText(label, outcome === last ? say("rarer") : visible(labels[outcome]));
      bar.style.transform = `scaleX(${observed[outcome] / most})`;
      law.style.left = `${(expected[outcome] / most) * 100}%`;
      setText(share, `${percentage(observed[outcome])} / ${percentage(expected[outcome])}`);
    });
    setText(more, last > shown ? say("not_shown", { n: last - shown }) : "");
  };
}

function fitText({ tv, mean, spread, p }) {
  const values = { tv: shortNumber(tv, 4), mean: shortNumber(mean, 4), spread: shortNumber(spread, 4) };
  return say("fit", { ...values, p: shortNumber(p, 3) });
}

function fillTable(columns, rows) {
  refs.head.replaceChildren(...columns.map((key) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = say(key);
    return cell;
  }));
  refs.body.replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((content) => {
      const cell = document.createElement("td");
      cell.append(content);
      return cell;
    }));
    return row;
  }));
}

// A mark and a word beside the colour.
function badge(kind, text) {
  const node = create("span", `prove-badge ${kind}`);
  node.textContent = `${{ good: "✓", tie: "≈", bad: "✗" }[kind]} ${text}`;
  return node;
}

function answerRows(answers, withText) {
  return answers.map((row) => {
    const kind = { same: "good", tie: "tie", fault: "bad" }[row.verdict];
    const who = row.drafter ? `${drafterText(row.drafter)} · K = ${row.k}` : say("wide", { k: row.k });
    const cells = [badge(kind, say(row.verdict, { n: row.n })), who];
    return [...cells, ...(withText ? [row.temperature.toFixed(1)] : [row.dtype]), differenceText(row.difference),
      isolated(withText ? row.text : row.prompt)];
  });
}

function isolated(text) {
  const node = create("bdi", "prove-text");
  node.textContent = text;
  node.title = text;
  return node;
}

function differenceText(difference) {
  if (!difference) return say("none");
  const [index, plain, other, gap, top] = difference;
  const values = { index, plain: visible(plain), other: visible(other) };
  return say("differs", { ...values, gap: shortNumber(Math.abs(gap), 3), top: shortNumber(top, 3) });
}

function sampleRows(samples) {
  return samples.map((one) => {
    const isRight = one.verdict === (one.mistake ? "red" : "green");
    const verdict = one.verdict
      ? badge(one.verdict === "green" ? "good" : "bad", say(one.verdict) + (isRight ? "" : " !"))
      : `${Math.round(one.done * 100)} %`;
    return [one.mistake ? mistakeName(one.mistake) : say("right_rule"), verdict, shortNumber(one.tv, 4),
      `${shortNumber(one.mean, 4)} ± ${shortNumber(one.spread, 4)}`, shortNumber(one.p, 3),
      one.mistake ? why(one.mistake) : ""];
  });
}

function mistakeName(mistake) {
  return say(`planted_${mistake}`);
}

function why(mistake) {
  const node = create("span", "prove-said");
  node.append(`${say(`why_${mistake}`)} ${say("sources")} `);
  SOURCES[mistake].forEach(([title, address], i) => {
    const link = create("a", "");
    Object.assign(link, { textContent: title, href: address, target: "_blank", rel: "noopener noreferrer" });
    node.append(...(i ? [", ", link] : [link]));
  });
  return node;
}
