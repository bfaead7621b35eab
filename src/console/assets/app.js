// The shell: which page an address names, navigation, keys, the token.

import { html, render, useEffect, useLayoutEffect, useRef, useState } from "./preact-htm.js";
import { ask, isSignedIn, isSignedOut, signIn, signOut } from "./api.js";
import { Dialogs, dismiss, order } from "./dialogs.js";
import { span } from "./format.js";
import { onKey, keys } from "./keys.js";
import { Overview } from "./overview.js";
import { locked, opens, settle, trouble, useResource } from "./resource.js";
import { isZone, ownZone, theme, useCell, zone } from "./settings.js";
import { Failure, Notice, reason, tick, Zone } from "./ui.js";

/** Pages by the first word of their address: how their module is loaded, its component, the entry of the navigation. */
const PAGES = {
  "": { load: async () => ({ Overview }), name: "Overview", nav: "overview" },
  runs: { load: () => import("./runs.js"), name: "Runs", nav: "runs" },
  run: { load: () => import("./run.js"), name: "Run", nav: "runs" },
  flows: { load: () => import("./flows.js"), name: "Flows", nav: "flows" },
  flow: { load: () => import("./flow.js"), name: "Flow", nav: "flows" },
  "add-flow": { load: () => import("./editor.js"), name: "Editor", nav: "flows" },
  schedules: { load: () => import("./schedules.js"), name: "Schedules", nav: "schedules" },
  events: { load: () => import("./events.js"), name: "Events", nav: "events" },
  jobs: { load: () => import("./jobs.js"), name: "Jobs", nav: "jobs" },
  job: { load: () => import("./job.js"), name: "Job", nav: "jobs" },
  journeys: { load: () => import("./journeys.js"), name: "Journeys", nav: "journeys" },
  journey: { load: () => import("./journey.js"), name: "Journey", nav: "journeys" },
  cluster: { load: () => import("./cluster.js"), name: "Cluster", nav: "cluster" },
  system: { load: () => import("./system.js"), name: "System", nav: "system" },
};

/** Addresses of before, and the ones that stand for them. */
const MOVED = { plans: "runs", plan: "run", letters: "events", world: "system", runtime: "system/runtime", entities: "system/entities" };

const NAVIGATION = ["overview", "runs", "flows", "schedules", "events", "jobs", "journeys", "cluster", "system"];

/** Addresses are written by people too. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function place() {
  const text = location.hash.replace(/^#\/?/, "");
  const [path, query] = text.split("?", 2);
  const [name, ...rest] = path.split("/").map(decoded);
  return { name, rest, query: new URLSearchParams(query ?? "") };
}

function usePlace() {
  const [at, set] = useState(place);
  const shown = useRef(at);
  useEffect(() => {
    const look = () => {
      // The link to the content is no page.
      if (location.hash === "#main") return document.getElementById("main").focus();
      const next = place();
      if (next.name in MOVED) return location.replace(location.hash.replace(next.name, MOVED[next.name]));
      // A filter that is told late does not take a dialog of its page away.
      const isSame = next.name === shown.current.name && String(next.rest) === String(shown.current.rest);
      if (!isSame) dismiss();
      shown.current = next;
      set(next);
    };
    window.addEventListener("hashchange", look);
    look();
    return () => window.removeEventListener("hashchange", look);
  }, []);
  return at;
}

/** The component of a page; modules are loaded when they are needed. */
function usePage(name) {
  const [found, set] = useState({ name: null, View: null, error: null });
  useLayoutEffect(() => {
    const page = Object.hasOwn(PAGES, name) ? PAGES[name] : null;
    if (!page) return set({ name, View: null, error: null });
    const opened = opens();
    page.load()
      .then((module) => set({ name, View: module[page.name], error: null }))
      .catch((error) => set({ name, View: null, error }))
      .finally(opened);
    return undefined;
  }, [name]);
  return found;
}

function Health() {
  const { data, error } = useResource("health", () => ask("health"), { every: 10000 });
  const isGood = data?.is_taking_work === true && !error;
  const text = error ? "no answer" : !data ? "" : data.is_taking_work ? "healthy" : data.is_healthy ? "stopping" : "not healthy";
  const title = error ? reason(error) : data?.problem ?? (data && `Turnwheel ${data.version}; a commit took ${span(data.commit_ms ?? 0)}`);
  return html`<span class=${`health ${text && (isGood ? "good" : "bad")}`} role="status" title=${title}>${text}</span>`;
}

function Choices() {
  const at = useCell(zone);
  const look = useCell(theme);
  const known = [...new Set(["UTC", ownZone, at])];
  const other = async () => {
    const done = await order({ title: "Zone of times", text: "A name of the IANA list, such as Europe/Madrid. Times are shown and typed in it.", verb: "Use it",
      fields: [{ name: "zone", label: "Zone", value: zone.value, required: true }],
      perform: ({ zone: name }) => {
        if (!isZone(name)) throw new Error(`«${name}» is no zone of this browser`);
        zone.set(name);
      } });
    return done;
  };
  return html`<label class="pick"><span class="hidden">Zone of times</span>
      <select value=${at} onChange=${(event) => { const { value } = event.currentTarget; if (value === "other") { event.currentTarget.value = at; other(); } else zone.set(value); }}>
        ${known.map((name) => html`<option key=${name} value=${name} selected=${name === at}>${name}</option>`)}<option value="other">Another zone…</option>
      </select></label>
    <label class="pick"><span class="hidden">Colours</span>
      <select value=${look} onChange=${(event) => theme.set(event.currentTarget.value)}>
        ${["system", "light", "dark"].map((name) => html`<option key=${name} value=${name} selected=${name === look}>${name}</option>`)}
      </select></label>
    ${isSignedIn() && html`<button class="link" onClick=${async () => { await signOut(); location.reload(); }}>Sign out</button>`}`;
}

function Token({ problem }) {
  const [refused, setRefused] = useState(problem);
  useEffect(() => { isSignedOut(); settle(); }, []);
  const submit = async (event) => {
    event.preventDefault();
    try {
      await signIn(new FormData(event.currentTarget).get("token").trim());
      locked.set(null);
    } catch (error) {
      setRefused(error);
    }
  };
  return html`<form class="notice" onSubmit=${submit}>
    <h2>A token is needed</h2>
    <p>${refused.detail ?? "This server wants to know who asks."}</p>
    <label>Token <input type="password" name="token" autocomplete="current-password" required autofocus /></label>
    <p class="quiet">It is given once: a cookie stands for it until you sign out, for twelve hours at most.</p>
    <p><button type="submit" class="main">Sign in</button></p>
  </form>`;
}

function Page({ at }) {
  const { name, View, error } = usePage(at.name);
  const key = `${at.name}/${["run", "system"].includes(at.name) ? at.rest[0] : at.rest.join("/")}`;
  useEffect(() => { window.scrollTo(0, 0); }, [key]);
  useEffect(() => { settle(); }, [at, View]);
  if (error) return html`<${Failure} error=${error} again=${() => location.reload()} />`;
  if (name !== at.name) return html`<p class="quiet">Loading…</p>`;
  if (!View) return html`<${Notice} title="There is no such page" text="The address may be old. Choose a page on the side." />`;
  return html`<div class=${`page p-${at.name || "overview"}`}><${View} key=${key} rest=${at.rest} query=${at.query} /></div>`;
}

function App() {
  const at = usePlace();
  const zoneName = useCell(zone);
  const problem = useCell(trouble);
  const lock = useCell(locked);
  const nav = PAGES[at.name]?.nav;
  // A reader sees no orders. While nobody knows who asks, the server refuses what they may not do.
  useEffect(() => {
    delete document.documentElement.dataset.role;
    if (lock !== null) return undefined;
    // The answer for whoever was there before counts no more.
    const gone = new AbortController();
    ask("session", { signal: gone.signal }).then(({ role }) => { document.documentElement.dataset.role = role; }, () => {});
    return () => gone.abort();
  }, [lock]);
  // On a phone the pages are a bar that is wider than the window.
  useEffect(() => { document.querySelector("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); }, [nav]);
  return html`<${Zone.Provider} value=${zoneName}>
    <header>
      <a class="brand" href="#/"><img src="icon.svg" alt="" width="20" height="20" />Turnwheel</a>
      <nav id="nav" aria-label="Pages">${NAVIGATION.map((name) => html`<a key=${name} href=${name === "overview" ? "#/" : `#/${name}`}
        aria-current=${name === nav ? "page" : null}>${name}</a>`)}</nav>
      <span class="choices"><${Health} /><${Choices} key=${lock === null} /></span>
    </header>
    <div class="middle">
      ${problem && html`<div class="banner" role="alert">${reason(problem.error)}. What is shown is old; it is tried again by itself.</div>`}
      <main id="main" tabindex="-1">${lock ? html`<${Token} problem=${lock} />` : html`<${Page} at=${at} />`}</main>
      <footer class="quiet">Keys: <kbd>/</kbd> search, <kbd>j</kbd> <kbd>k</kbd> through a list, <kbd>Enter</kbd> open, <button class="link" onClick=${keys}>all keys</button></footer>
    </div>
    <${Dialogs} />
  <//>`;
}

document.addEventListener("keydown", onKey);
setInterval(tick, 1000);
const app = document.getElementById("app");
app.replaceChildren();
render(html`<${App} />`, app);
