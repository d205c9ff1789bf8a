// The newest run that a component shows: what comes of it, its stop, and a change of language. The component's own script
// has `show` and `refs`, and begins with `followRuns`.

const over = new Set(); // runs that were stopped, or whose place another took: what still comes of them is late
let view = { ...props.value };

function receive(value) {
  if (!value || over.has(value.run)) return;
  const isNews = value.run !== view.run || value.state !== view.state;
  if (value.run !== view.run) over.add(view.run);
  view = value;
  show();
  if (isNews) setText(refs.aria, `${refs.headline.textContent}. ${refs.detail.textContent}`);
}

// The browser stops at once; the server ends the work at its next update.
function stop() {
  if (!["waiting", "running"].includes(view.state)) return;
  over.add(view.run);
  view = { ...view, state: "stopped" };
  show();
}

function translateAll() {
  translateSkeleton();
  show();
}

function followRuns(stopButton) {
  document.addEventListener("click", ({ target }) => {
    if (target.closest?.(stopButton)) stop();
  }, true);
  new MutationObserver(translateAll).observe(document.documentElement, { attributes: true, attributeFilter: ["lang"] });
  watch("value", () => receive(props.value));
  translateAll();
}
