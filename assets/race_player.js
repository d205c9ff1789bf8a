// The playhead: one time on the lanes' own clocks. Live it stands where both lanes have arrived, and moves with the news
// alone: nothing runs between two updates. In a replay it runs at the chosen speed.

const MS_BETWEEN_PAINTS = 40;
const ROWS_PER_PAINT_AT_MAX = 24;
const isStill = matchMedia("(prefers-reduced-motion: reduce)");

function createPlayer(show) {
  const player = { time: 0, isPlaying: false, isLive: false, speed: 1 };
  let frame = 0;
  let before = 0;

  function loop(now) {
    frame = 0;
    if (!element.isConnected) return;
    if (!player.isPlaying) return;
    if (now - before >= MS_BETWEEN_PAINTS - 4) {
      advance(Math.min(now - before, 250) / 1000);
      before = now;
      show();
    }
    if (player.isPlaying) wake();
  }

  // No frame is asked for before it is due: an idle frame costs as much as a painted one.
  function wake() {
    if (frame) return;
    frame = -1;
    setTimeout(() => { frame = requestAnimationFrame(loop); }, Math.max(0, MS_BETWEEN_PAINTS - (performance.now() - before)));
  }

  function advance(seconds) {
    if (player.speed === Infinity) player.time = timeAfterRows(ROWS_PER_PAINT_AT_MAX);
    else player.time += seconds * player.speed;
    if (end() - player.time < 1e-3) player.time = end();
    if (player.time >= end()) player.isPlaying = false;
  }

  return Object.assign(player, {
    follow() {
      Object.assign(player, { isLive: !view.isOver, isPlaying: false, time: frontier() });
    },
    play() {
      if (player.isLive) return;
      if (player.time >= end() - 1e-9) player.time = 0;
      player.isPlaying = true;
      before = performance.now();
      wake();
      show();
    },
    pause() {
      player.isPlaying = false;
      show();
    },
    halt() {
      Object.assign(player, { isLive: false, isPlaying: false });
    },
    goTo(time) {
      if (player.isLive) return;
      Object.assign(player, { time: Math.max(0, Math.min(end(), time)), isPlaying: false });
      show();
    },
    step(direction) {
      const ends = roundEnds();
      const next = direction > 0
        ? ends.find((time) => time > player.time + 1e-9) ?? end()
        : ends.findLast((time) => time < player.time - 1e-9) ?? 0;
      player.goTo(next);
    },
  });
}

function end() {
  return Math.max(...lanes.map((lane) => lane.clock));
}

// Live, a lane that is still running may append before this time no more.
function frontier() {
  const running = lanes.filter((lane) => !lane.finish);
  return running.length ? Math.min(...running.map((lane) => lane.clock)) : end();
}

function timeAfterRows(count) {
  const waiting = lanes.flatMap((lane) => lane.rows.slice(lane.painted.length, lane.painted.length + count));
  const times = waiting.map((row) => row.at).sort((one, other) => one - other);
  return times.length ? times[Math.min(count, times.length) - 1] : end();
}

// Rounds of the speculative lane; behind its end, those of the plain lane.
function roundEnds() {
  const [plain, speculative] = lanes.map((lane) => lane.rows.filter((row) => row.e === "r").map((row) => row.c));
  const last = speculative.at(-1) ?? 0;
  return [...speculative, ...plain.filter((time) => time > last)];
}
