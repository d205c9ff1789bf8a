// A race on servers: what they tell of it, in one sentence, and nothing shown that they do not tell.

// The text of this key for servers that know as much as this one, for any server, or for a model that runs here.
function serverKey(key) {
  const server = view.head?.server;
  if (!server) return key;
  const texts = TEXTS[language()];
  return [`${server.known}_${key}`, `server_${key}`].find((one) => one in texts) ?? key;
}

// What stands under the speculative lane's name: a server does not say its K.
function subtitleKey() {
  if (view.head?.drafter === "server") return "server_speculative_sub";
  return view.head?.adaptive ? "adaptive_sub" : "speculative_sub";
}

function showServer(done) {
  const server = view.head?.server;
  const known = server?.known ?? "all";
  if (refs.root.dataset.known !== known) refs.root.dataset.known = known;
  refs.server.hidden = !server;
  const separator = language() === "en" ? " " : "";
  setText(refs.server, server ? say(`server_${known}`, server) + separator + reportedText(known, done) : "");
}

// The server's own totals, where its stream shows no rounds.
function reportedText(known, done) {
  const reported = done?.reported;
  if (!done || known !== "tokens") return "";
  if (reported?.num_drafted == null) return say("server_no_totals");
  const values = { source: reported.source, drafted: reported.num_drafted, accepted: reported.num_accepted ?? "–" };
  return say("server_totals", values);
}
