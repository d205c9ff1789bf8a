// What the component asks the server: the rows of a live race while it runs, the place in the queue while it waits. An
// answer reaches this component alone, a yielded value the whole page.

const LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"];
// A browser on the machine that decodes paints with its cores: the race stands still until it asks again.
const IS_LOCAL = LOCAL_HOSTS.includes(location.hostname);
const MS_OF_A_HIDDEN_PAGE = 100;
const MS_WITHOUT_NEWS = 150;
const MS_BETWEEN_PLACES = 1500;
const MOST_MS_BETWEEN_PLACES = 8000;
const MS_OF_SILENCE = 20_000;
let askedRun = null;

async function askForNews(run) {
  if (askedRun === run) return;
  askedRun = run;
  while (isRunning(run)) {
    const first = view.numRows;
    const rows = await server.news(run, first, IS_LOCAL);
    if (!isRunning(run)) return;
    if (rows?.length) {
      receiveRows(rows, first);
      await painted();
      continue;
    }
    if (performance.now() - lastNews > MS_OF_SILENCE) showVerdict(false);
    await pause(MS_WITHOUT_NEWS);
  }
}

async function askForPlace(run, session) {
  while (isWaiting(run)) {
    // Not at once: most races never wait. Who stands far behind asks seldom: the device answers while it decodes.
    await pause(Math.min(MS_BETWEEN_PLACES * Math.max(1, (view.racesAhead ?? 0) / 2), MOST_MS_BETWEEN_PLACES));
    const place = isWaiting(run) ? await server.place(session) : null;
    if (!isWaiting(run)) return;
    if (place) [view.racesAhead, view.secondsAhead] = place;
    showVerdict(false);
    setText(refs.aria, refs.detail.textContent);
  }
}

// The frame after the next one begins when the next one has been painted. A hidden page has no frames.
function painted() {
  const frames = new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); });
  return Promise.race([frames, pause(MS_OF_A_HIDDEN_PAGE)]);
}

function pause(milliseconds) {
  return new Promise((resolve) => { setTimeout(resolve, milliseconds); });
}

function isWaiting(run) {
  return view.run === run && view.state === "waiting" && !view.isStopped && element.isConnected;
}

function isRunning(run) {
  return view.run === run && player.isLive && element.isConnected;
}
