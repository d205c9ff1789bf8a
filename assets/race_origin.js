// Where a draft comes from: how sure its drafter was, or the tokens that an n-gram matched and the one it copied.

const MOST_CONTEXT = 6;
const MOST_MATCHED = 12;

// The tokens that a draft was copied from: all of them up to the draft, which were matched, and which was copied.
function copyOf({ lane, row, place }) {
  const position = judgedAt({ entry: row.v, row, place });
  if (position?.f == null) return null;
  const { prompt, answer, starts } = factsOf(lane);
  const now = row.s.slice(0, place).map(([id, text], i) => ({ id, text, row, place: i }));
  const before = prompt.map(([id, text]) => ({ id, text }));
  const words = [...before, ...answer.slice(0, starts.get(row)), ...now];
  return { words, numPrompt: prompt.length, copied: position.f, matched: position.m };
}

function addOrigin(parent, shown, position) {
  if (position.k != null) {
    addText("p", "inside-note", parent, say("inside_confidence", { confidence: figure(position.k) }));
    addBar(parent, position.k);
  }
  const copy = copyOf(shown);
  if (!copy) return;
  const { words, numPrompt, copied, matched } = copy;
  const isInPrompt = copied < numPrompt;
  const key = numPrompt ? (isInPrompt ? "inside_copied_prompt" : "inside_copied_answer") : "inside_copied";
  addText("p", "inside-note", parent, say(key, { matched, index: isInPrompt ? copied : copied - numPrompt }));
  if (!numPrompt) return;
  const excerpt = create("p", "inside-excerpt", parent);
  excerpt.dir = "auto";
  const numMarked = Math.min(matched, MOST_MATCHED);
  const first = Math.max(0, copied - numMarked - MOST_CONTEXT);
  for (let i = first; i < Math.min(words.length, copied + MOST_CONTEXT); i += 1) {
    const className = i === copied ? "copied" : i < copied && i >= copied - numMarked ? "matched" : "";
    addText(className ? "mark" : "span", className, excerpt, words[i].text);
  }
  if (!isInPrompt) addText("p", "inside-note", parent, say("inside_copied_marks"));
}

// The same tokens where they stand in the lane's answer; those of the prompt are in the excerpt alone.
function markCopy(now) {
  const copy = copyOf(now);
  if (!copy?.numPrompt) return;
  for (let i = Math.max(copy.numPrompt, copy.copied - copy.matched); i <= copy.copied; i += 1) {
    const word = copy.words[i];
    if (word) mark(nodeOf(now.lane, word.row, word.place), i === copy.copied ? "copied" : "matched");
  }
}
