// The projector view: large type and few controls, for the back of a room. The address says so too, so that a link opens it.

const PROJECTOR = "projector";
let hadSettings = false;

function startProjector() {
  refs.projector.addEventListener("click", () => setProjector(!isProjector()));
  onLetter("p", () => setProjector(!isProjector()));
  // The settings are mounted after the race.
  if (new URLSearchParams(location.search).get("view") === PROJECTOR) setTimeout(setProjector, 0, true);
}

function isProjector() {
  return refs.root.classList.contains(PROJECTOR);
}

function setProjector(isOn) {
  refs.root.classList.toggle(PROJECTOR, isOn);
  refs.projector.setAttribute("aria-pressed", String(isOn));
  const settings = document.querySelector("#settings");
  const isOpen = Boolean(settings?.classList.contains("open"));
  if (isOn ? isOpen : hadSettings && !isOpen) settings?.querySelector(".toggle-button")?.click();
  hadSettings = isOn && isOpen;
  keepInAddress(isOn);
}

// What else the address says stays.
function keepInAddress(isOn) {
  const address = new URL(location.href);
  if (isOn) address.searchParams.set("view", PROJECTOR);
  else address.searchParams.delete("view");
  if (address.href !== location.href) history.replaceState(history.state, "", address);
}

// A letter by itself, pressed where no text is written.
function onLetter(letter, act) {
  document.addEventListener("keydown", (event) => {
    if (!element.isConnected || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.toLowerCase() !== letter || event.target.matches("input, select, textarea, [contenteditable]")) return;
    event.preventDefault();
    act();
  });
}
