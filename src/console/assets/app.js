// Pages by address, navigation, keys, refreshing, the token.

import { ask, follow, isSignedIn, isSignedOut, Problem, signIn, signOut } from "./api.js";
import { failure, h, put } from "./dom.js";
import { span, tick } from "./format.js";
import { entities } from "./entities.js";
import { editor } from "./editor.js";
import { flow, flows } from "./flows.js";
import { overview } from "./overview.js";
import { plan } from "./plan.js";
import { plans } from "./plans.js";
import { runtime } from "./runtime.js";
import { schedules } from "./schedules.js";
import { letters, world } from "./world.js";

/** How often a page asks what is new. */
const REFRESH_MS = 2000;
/** The same while the server tells by itself what has changed: figures change without news. */
const LIVE_REFRESH_MS = 10000;
/** How often at most it asks when the server tells much. */
const NEWS_MS = 500;
/** After how long a stream that has ended is asked for again. */
const AGAIN_MS = 5000;

const PAGES = { "": overview, plans, plan, flows, flow, "add-flow": editor, schedules, letters, entities, runtime, world };
const main = document.getElementById("main");
const banner = document.getElementById("banner");

let current = null;
let timer = 0;
let lastRefresh = 0;

function place() {
  const text = location.hash.replace(/^#\/?/, "");
  const [path, query] = text.split("?", 2);
  const [name, ...rest] = path.split("/").map(decoded);
  return { name, rest, query: new URLSearchParams(query ?? "") };
}

/** Addresses are written by people too. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function show() {
  // The link to the content is no page.
  if (location.hash === "#main") return main.focus();
  const { name, rest, query } = place();
  const key = `${name}/${(name === "plan" ? rest.slice(0, 1) : rest).join("/")}`;
  clearTimeout(timer);
  // The same page with other words keeps what it knows.
  if (current?.key === key && current.page.change) {
    current.page.change(rest, query);
    return refresh();
  }
  current?.abort.abort();
  // What was asked on the page that is left is not done.
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.dispatchEvent(new Event("cancel", { cancelable: true }));
  const make = PAGES[name];
  for (const link of document.querySelectorAll("#nav a")) {
    const of = { plan: "plans", flow: "flows", "add-flow": "flows" }[name] ?? (name || "overview");
    if (link.dataset.page === of) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const root = h("div", { class: `page ${name || "overview"}` });
  put(main, root);
  window.scrollTo(0, 0);
  if (!make) {
    current = null;
    put(root, failure({ title: "There is no such page", detail: "The address may be old. Choose a page above." }));
    main.dataset.shown = location.hash;
    return;
  }
  const abort = new AbortController();
  current = { key, abort, page: make(root, rest, query, { signal: abort.signal, refresh }), root, failed: false };
  life(current);
  document.title = `${current.page.title ?? "Turnwheel"} · Turnwheel`;
  return refresh();
}

/** Asks the page to show what is new; one at a time, and again after a while. */
async function refresh() {
  const shown = current;
  if (!shown) return;
  clearTimeout(timer);
  if (shown.busy) {
    shown.again = true;
    return;
  }
  shown.busy = true;
  lastRefresh = Date.now();
  const of = location.hash;
  main.setAttribute("aria-busy", String(main.dataset.shown !== of));
  try {
    await shown.page.refresh();
    if (shown.failed) main.querySelector(".failed")?.remove();
    shown.failed = false;
    shown.shown = true;
    trouble(null);
  } catch (error) {
    if (shown.abort.signal.aborted) return;
    if (error.status === 401) return askToken(error);
    if (!(error instanceof Problem)) console.error(error);
    // What was shown stays, with a word that it is old.
    if (shown.shown && (error.status === 0 || error.status >= 500)) trouble(error);
    else put(shown.root, failure(error, refresh));
    shown.failed = true;
  } finally {
    shown.busy = false;
    if (shown === current) {
      main.dataset.shown = of;
      main.setAttribute("aria-busy", "false");
    }
  }
  if (shown !== current) return;
  if (shown.again) {
    shown.again = false;
    return refresh();
  }
  const wait = shown.page.every ?? (shown.isLive ? LIVE_REFRESH_MS : REFRESH_MS);
  timer = setTimeout(refresh, document.hidden ? wait * 10 : wait);
}

function trouble(error) {
  banner.hidden = error === null;
  const text = error === null ? "" : `${error.detail ?? error.message}. What is shown is old; it is tried again by itself.`;
  if (banner.textContent !== text) banner.textContent = text;
}

function askToken(error) {
  isSignedOut();
  clearTimeout(timer);
  const input = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true });
  put(main, h("form", {
    class: "notice",
    on: {
      submit: async (event) => {
        event.preventDefault();
        const { submitter } = event;
        if (submitter?.disabled) return;
        if (submitter) submitter.disabled = true;
        try {
          await signIn(input.value.trim());
        } catch (refused) {
          askToken(refused);
          return;
        }
        current = null;
        show();
        drawOut();
      },
    },
  },
  h("h2", {}, "A token is needed"),
  h("p", {}, error.detail ?? "This server wants to know who asks."),
  h("label", {}, "Token ", input),
  h("p", { class: "quiet" }, "It is given once: a cookie stands for it until you sign out, for twelve hours at most."),
  h("p", {}, h("button", { type: "submit", class: "main" }, "Sign in"))));
  main.dataset.shown = location.hash;
  input.focus();
}

/** Whether the server does its work; asked without a token. */
async function health() {
  const shown = document.getElementById("health");
  let text = "no answer";
  let state = "bad";
  let title = "";
  try {
    const found = await ask("health");
    state = found.is_taking_work ? "good" : "bad";
    text = found.is_taking_work ? "healthy" : found.is_healthy ? "stopping" : "not healthy";
    title = found.problem ?? `a commit took ${span(found.commit_ms ?? 0)}`;
    document.getElementById("version").textContent = `Turnwheel ${found.version}.`;
  } catch (error) {
    title = error.detail ?? error.message;
  }
  shown.className = `health ${state}`;
  shown.title = title;
  if (shown.textContent !== text) shown.textContent = text;
  drawOut();
  setTimeout(health, document.hidden ? 60000 : 10000);
}

/** Who has given a token can take it back. */
function drawOut() {
  const out = h("button", { class: "link", on: { click: async () => { await signOut(); location.reload(); } } }, "Sign out");
  put(document.getElementById("out"), isSignedIn() && out);
}

/** News of the server: a page that follows them need not ask again and again. */
async function life(shown) {
  let waiting = 0;
  const { signal } = shown.abort;
  const news = () => {
    if (waiting || document.hidden || shown !== current) return;
    const wait = Math.max(NEWS_MS - (Date.now() - lastRefresh), 0);
    waiting = setTimeout(() => { waiting = 0; refresh(); }, wait);
  };
  while (!signal.aborted) {
    // Browsers have few connections to one server, for all their tabs: only one that is seen keeps one.
    await seen(signal);
    const hidden = new AbortController();
    const leave = () => { if (document.hidden) hidden.abort(); };
    document.addEventListener("visibilitychange", leave);
    try {
      shown.isLive = true;
      await follow(shown.page.follows, news, AbortSignal.any([signal, hidden.signal]));
    } catch {
      // Without the stream the page asks every now and then, as it does anyway.
    }
    document.removeEventListener("visibilitychange", leave);
    shown.isLive = false;
    if (!hidden.signal.aborted) await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
  }
}

/** Waits until the tab is seen, or its page is left. */
function seen(signal) {
  return new Promise((resolve) => {
    const look = () => { if (!document.hidden || signal.aborted) resolve(); };
    document.addEventListener("visibilitychange", look, { signal });
    signal.addEventListener("abort", look);
    look();
  });
}

function move(by) {
  const items = [...document.querySelectorAll("main [data-item]")];
  if (items.length === 0) return;
  const at = items.indexOf(document.activeElement);
  const to = at < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, at + by));
  items[to].focus();
  items[to].scrollIntoView({ block: "nearest" });
}

let isGoing = false;

function key(event) {
  const on = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(on.tagName)) {
    if (event.key === "Escape") on.blur();
    return;
  }
  if (isGoing) {
    isGoing = false;
    const to = { o: "#/", p: "#/plans", f: "#/flows", s: "#/schedules", e: "#/letters", d: "#/letters", n: "#/entities", r: "#/runtime", w: "#/world" }[event.key];
    if (to) location.hash = to;
    return;
  }
  if (event.defaultPrevented) return;
  const inList = on.closest?.("[data-item]") !== null;
  const does = {
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: inList ? () => move(1) : null,
    ArrowUp: inList ? () => move(-1) : null,
    "/": () => document.querySelector("main [data-search]")?.focus(),
    g: () => { isGoing = true; },
    "?": help,
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}

function help() {
  const keys = [["j, k or arrows", "next and previous in a list"], ["Enter", "open"], ["/", "search"],
    ["g then o, p, f, s, e", "overview, plans, flows, schedules, events"], ["g then n, r, w", "entities, runtime, world"], ["Escape", "leave a field or a dialog"]];
  const dialog = h("dialog", { "aria-label": "Keys", on: { close: () => dialog.remove(), cancel: () => dialog.close() } },
    h("h2", {}, "Keys"),
    h("dl", { class: "facts" }, keys.map(([name, text]) => h("div", {}, h("dt", {}, h("kbd", {}, name)), h("dd", {}, text)))),
    h("button", { on: { click: () => dialog.close() } }, "Close"));
  document.body.append(dialog);
  dialog.showModal();
}

window.addEventListener("hashchange", show);
document.addEventListener("keydown", key);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
// A browser may keep a document that was left, with its connections.
window.addEventListener("pagehide", () => { current?.abort.abort(); current = null; });
window.addEventListener("pageshow", (event) => { if (event.persisted) show(); });
setInterval(tick, 1000);
show();
health();
