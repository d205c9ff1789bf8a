// What Gradio gives the script of a component, given by the page itself: no server, no modules, nothing fetched, so that
// the site opens from a file. A part is a component of the app; a race comes as a script of its own, when it is asked for.

const site = { parts: {}, races: {} };

function mountPart(id, props, start) {
  const watched = [];
  const watch = (names, act) => watched.push([[names].flat(), act]);
  // Of a server, questions have no answer.
  const server = new Proxy({}, { get: () => async () => null });
  site.parts[id] = {
    set(name, value) {
      props[name] = value;
      for (const [names, act] of watched) if (names.includes(name)) act();
    },
  };
  const trigger = (name, data) => site.answer?.(name, data);
  start(document.getElementById(id), props, trigger, server, async () => null, watch);
}

function takeRace(name, value) {
  site.races[name] = value;
}

function loadRace(name) {
  return new Promise((resolve, reject) => {
    if (site.races[name]) return resolve(site.races[name]);
    const script = document.createElement("script");
    script.src = `races/${name}.js`;
    script.onload = () => (site.races[name] ? resolve(site.races[name]) : reject(new Error(name)));
    script.onerror = () => reject(new Error(name));
    document.head.append(script);
  });
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const showTheme = () => document.documentElement.classList.toggle("dark", prefersDark.matches);
prefersDark.addEventListener("change", showTheme);
showTheme();
