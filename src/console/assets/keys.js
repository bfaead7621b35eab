// Keys that work on every page.

import { order } from "./dialogs.js";
import { html } from "./ui.js";

const GOES = { o: "#/", r: "#/runs", p: "#/runs", f: "#/flows", s: "#/schedules", e: "#/events", b: "#/jobs", y: "#/journeys", c: "#/cluster", w: "#/system" };

const ALL = [["j, k or arrows", "next and previous in a list"], ["Enter", "open"], ["x", "tick the row"], ["/", "search"],
  ["g then o, r, f, s, e", "overview, runs, flows, schedules, events"], ["g then b, y, c, w", "jobs, journeys, cluster, system"],
  ["Escape", "leave a field or a dialog"], ["?", "these keys"]];

/** Shows all keys. */
export function keys() {
  order({ title: "Keys", verb: "Done", perform: () => true,
    more: () => html`<dl class="facts">${ALL.map(([name, text]) => html`<div key=${name}><dt><kbd>${name}</kbd></dt><dd>${text}</dd></div>`)}</dl>` });
}

function move(by) {
  const items = [...document.querySelectorAll("main [data-item]")].filter((item) => item.getClientRects().length > 0);
  if (items.length === 0) return;
  const at = items.indexOf(document.activeElement);
  const to = at < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, at + by));
  items[to].focus();
  items[to].scrollIntoView({ block: "nearest" });
}

let isGoing = false;

export function onKey(event) {
  const on = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(on.tagName) && on.type !== "checkbox";
  if (isTyping) {
    if (event.key === "Escape") on.blur();
    return;
  }
  if (isGoing) {
    isGoing = false;
    if (GOES[event.key]) location.hash = GOES[event.key];
    return;
  }
  if (event.defaultPrevented) return;
  const inList = on.closest?.("[data-item]") !== null;
  const does = {
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: inList ? () => move(1) : null,
    ArrowUp: inList ? () => move(-1) : null,
    x: inList ? () => on.closest("tr")?.querySelector("input[type=checkbox]")?.click() : null,
    "/": () => document.querySelector("main [data-search]")?.focus(),
    g: () => { isGoing = true; },
    "?": keys,
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}
