// What Gradio leaves running in an open page, ended: on a machine that also decodes, an idle page should cost nothing.

// Gradio's start-up spinner is never told that it has gone. Its clock goes on asking for sixty frames a second, and each
// costs the browser a look at the whole page. The only way in is the clock that it reads: asked by the spinner's own frame,
// and by nothing else on the stack, it fails, and the frame does not ask for another. Where there is no such frame nothing
// happens.
function endStartupSpinner() {
  const clock = performance.now;
  const ended = new Error("the start-up spinner has ended");
  const keepQuiet = (event) => { if (event.error === ended) event.preventDefault(); };
  addEventListener("error", keepQuiet);
  performance.now = () => {
    if (isSpinner(new Error().stack)) throw ended;
    return clock.call(performance);
  };
  setTimeout(() => {
    performance.now = clock;
    removeEventListener("error", keepQuiet);
  }, 1500);
}

// Nothing on the stack but the clock and the frame; some browsers put the error's name on top.
function isSpinner(stack = "") {
  const lines = stack.trim().split("\n");
  return lines.length <= 3 && lines.at(-1).includes("/statustracker-");
}
