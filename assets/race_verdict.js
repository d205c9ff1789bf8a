// What the race says: the line on top and the figures below it.

let announcedRun = null;

function showVerdict(isEnd) {
  const [plain, speculative] = lanes.map(lastRound);
  const latest = [plain, speculative].filter(Boolean).sort((one, other) => one.c - other.c).at(-1);
  const done = isEnd ? view.done : null;
  const speedup = done ? done.speedup : latest?.x;
  setText(refs.speedup, speedup == null ? "–" : number(speedup, 2) + "×");
  refs.verdict.classList.toggle("loses", speedup != null && speedup < 1);
  refs.verdict.classList.toggle("over", Boolean(done));
  const [headline, detail] = wording(plain, speculative, done);
  setText(refs.headline, headline);
  setText(refs.detail, detail);
  showStats(speculative, done);
  showServer(done);
  if (!done) return;
  setText(refs.aria, say("done_aria", { speedup: refs.speedup.textContent, headline }));
  if (announcedRun !== view.run) announce(done);
}

// The lessons go by the race that has just been shown to its end.
function announce(done) {
  announcedRun = view.run;
  document.dispatchEvent(new CustomEvent("race-shown", { detail: { head: view.head, done } }));
}

function wording(plain, speculative, done) {
  if (view.isStopped) return [say("cancelled"), soFar(plain, speculative)];
  if (view.state === "idle") return [say("empty_title"), say("empty")];
  if (view.state === "waiting") return [say("waiting_title"), waitingDetail()];
  if (view.state === "failed") return [say("failed_title"), say("details", { message: view.message })];
  if (done) return [outcome(done), outcomeDetail(done)];
  if (!plain && !speculative) return [say(serverKey("prefill_title")), view.head?.server ? "" : readingDetail()];
  const silence = player.isLive ? performance.now() - lastNews : 0;
  if (silence > MS_OF_SILENCE) return [say("racing"), say("silent", { seconds: Math.floor(silence / 1000) })];
  const key = player.isLive || !view.isOver ? "racing" : player.isPlaying ? "replaying" : "paused";
  return [say(key), soFar(plain, speculative)];
}

function readingDetail() {
  const lane = lanes.find((one) => one.reading);
  if (!lane) return "";
  return say("prefill", { lane: say(lane.name), read: lane.reading.n, all: lane.reading.of });
}

function waitingDetail() {
  if (view.racesAhead === null) return say("waiting");
  const place = view.racesAhead > 1 ? say("waiting_ahead", { ahead: view.racesAhead }) : say("waiting_next");
  if (view.secondsAhead == null) return place;
  return place + (language() === "en" ? " " : "") + say("waiting_seconds", { seconds: roughly(view.secondsAhead) });
}

// An estimate from the last races: whole seconds when few, fives when many.
function roughly(seconds) {
  return seconds < 10 ? Math.max(1, Math.round(seconds)) : Math.round(seconds / 5) * 5;
}

function outcomeDetail(done) {
  if (done.finish_reason.includes("failed")) return "";
  const key = done.finish_reason.includes("cancelled") ? "so_far" : "passes";
  return passes(key, done.target_passes, done.weight_bytes_read);
}

function soFar(plain, speculative) {
  return passes("so_far", [plain?.p ?? 0, speculative?.p ?? 0], [plain?.b ?? 0, speculative?.b ?? 0]);
}

function passes(key, counts, weights) {
  const values = { passes: counts[1], plain_passes: counts[0], bytes: bytes(weights[1]), plain_bytes: bytes(weights[0]) };
  return say(serverKey(key), values);
}

function outcome(done) {
  if (done.finish_reason.includes("cancelled")) return say("cancelled");
  if (done.finish_reason.includes("failed")) return say("lane_failed");
  const text = done.identical ? say("same") : say(differKey(), { index: done.first_divergence, dtype: view.head.dtype });
  const separator = language() === "en" ? " " : "";
  return done.speedup != null && done.speedup < 1 ? say("loses") + separator + text : text;
}

function differKey() {
  if (view.head.server && view.head.texts === "same") return "differ_server";
  if (view.head.texts !== "same") return view.head.texts === "lossy" ? "differ_lossy" : "differ_sampled";
  return ["bfloat16", "float16", "bf16", "fp16"].includes(view.head.dtype) ? "differ_tie" : "differ_error";
}

function showStats(speculative, done) {
  const [acceptance, alpha, perRound] = done
    ? [done.acceptance_rate, done.alpha, done.tokens_per_round] : speculative?.q ?? [];
  setText(refs.acceptance, percent(acceptance));
  setText(refs.alpha, percent(alpha));
  setText(refs.tokensPerRound, number(perRound, 2));
  const isWhole = done && !done.finish_reason.some((reason) => ["failed", "cancelled"].includes(reason));
  setText(refs.saved, isWhole ? String(done.passes_saved ?? "–") : "–");
  const firsts = done ? done.time_to_first_token_seconds : lanes.map((lane) => lastRound(lane)?.f);
  setText(refs.firstToken, `${firsts.map((value) => number(value, 2)).join(" / ")} ${say("s")}`);
  setText(refs.divergence, !isWhole ? "–" : done.identical ? say("none") : String(done.first_divergence));
}
