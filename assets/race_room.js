// In class: the page's address and its QR code over the whole screen, to be opened and closed.

function startRoom() {
  if (!props.room) return;
  const sheet = createSheet(props.room);
  refs.join.hidden = false;
  refs.join.addEventListener("click", () => sheet.showModal());
  onLetter("j", () => (sheet.open ? sheet.close() : sheet.showModal()));
  // The teacher's page stands on the machine that serves it; the others have come by the code.
  if (IS_LOCAL) sheet.showModal();
}

function createSheet(room) {
  const sheet = create("dialog", "race-join", refs.root);
  sheet.dataset.label = "join_heading";
  const words = create("div", "race-join-words", sheet);
  create("h2", "", words).dataset.text = "join_heading";
  create("div", "race-join-address", words).textContent = room.address.replace("http://", "");
  create("p", "", words).dataset.text = "join_how";
  const close = create("button", "", words);
  Object.assign(close, { type: "button" }).dataset.text = "close";
  const code = createSvg("svg", { viewBox: `0 0 ${room.size} ${room.size}`, "aria-hidden": "true" }, sheet);
  createSvg("path", { d: room.path }, code);
  close.addEventListener("click", () => sheet.close());
  // Escape closes the sheet and nothing behind it: there it would stop a race.
  sheet.addEventListener("keydown", (event) => { if (event.key === "Escape") event.stopPropagation(); });
  translateSkeleton();
  return sheet;
}
