// What the component asks the server: the rows of a live race while it runs, the place in the queue while it waits. An
// answer reaches this component alone, a yielded value the whole page.

const LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"];
// A browser on the machine that decodes paints with its cores, and each paint slows the race.
const MS_BETWEEN_QUESTIONS = LOCAL_HOSTS.includes(location.hostname) ? 330 : 130;
const MS_BETWEEN_PLACES = 1500;
const MS_OF_SILENCE = 20_000;
let askedRun = null;

async function askForNews(run) {
  if (askedRun === run) return;
  askedRun = run;
  while (isRunning(run)) {
    await pause(MS_BETWEEN_QUESTIONS);
    const first = view.numRows;
    const rows = isRunning(run) ? await server.news(run, first) : null;
    if (!isRunning(run)) return;
    if (rows?.length) receiveRows(rows, first);
    else if (performance.now() - lastNews > MS_OF_SILENCE) showVerdict(false);
  }
}

async function askForPlace(run, session) {
  while (isWaiting(run)) {
    // Not at once: most races never wait.
    await pause(MS_BETWEEN_PLACES);
    const racesAhead = isWaiting(run) ? await server.place(session) : null;
    if (!isWaiting(run)) return;
    view.racesAhead = racesAhead ?? view.racesAhead;
    showVerdict(false);
    setText(refs.aria, refs.detail.textContent);
  }
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
