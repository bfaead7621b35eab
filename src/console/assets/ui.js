// Small components that every view uses. Text is always set as text: nothing that the server says is markup.

import { createContext, html, useContext, useEffect, useLayoutEffect, useReducer, useRef, useState } from "./preact-htm.js";
import { local, number, relative, short } from "./format.js";
import { released } from "./pointer.js";

export { html };

/** The zone of times on the page. */
export const Zone = createContext("UTC");

/** A word for a state or a result, with its colour. */
export function Badge({ of, title }) {
  const name = String(of);
  return html`<span class=${`badge s-${name.replace(/[^a-z_-]/g, "")}`} title=${title}>${name.replaceAll("_", " ")}</span>`;
}

/** What a run is called: its flow, its job, or its action. */
export function nameOf(run) {
  if (run.label && run.label !== run.action) return run.label;
  return run.labels?.job ? `job ${run.labels.job}` : run.action;
}

/** The state of a run as one word: how it ended, if it is over. */
export function stateOf(run) {
  return run.state === "stopped" ? run.result : run.state;
}

/** A dot in the colour of a state, with the word for those who do not see colours. */
export function Dot({ of }) {
  return html`<span class=${`dot s-${of}`} title=${of} role="img" aria-label=${of}></span>`;
}

/** The time itself, in the zone of the reader. */
export function Clock({ at }) {
  const zone = useContext(Zone);
  if (!at) return null;
  return html`<time datetime=${at} title=${at}>${local(at, zone)}</time>`;
}

/** How long ago, or how long until; a tick keeps it true, the time itself is its title. */
export function Ago({ at }) {
  const zone = useContext(Zone);
  if (!at) return null;
  return html`<time datetime=${at} title=${`${local(at, zone)} ${zone}`} data-ago>${relative(at)}</time>`;
}

/** Keeps all ages on the page true, without drawing components again. */
export function tick() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const text = relative(time.dateTime);
    if (time.firstChild && time.firstChild.data !== text) time.firstChild.data = text;
  }
}

export const runAddress = (id, part) => `#/run/${encodeURIComponent(id)}${part ? `/${part}` : ""}`;

/** A link to a run. */
export function RunLink({ id, text }) {
  return html`<a href=${runAddress(id)} title=${id}>${text ?? short(id)}</a>`;
}

/** Names and values; empty values are left out. */
export function Facts({ of }) {
  const some = of.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return html`<dl class="facts">${some.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** JSON for people to read; long values are cut, and say so. */
export function Json({ of, max = 100000, label }) {
  if (of === null || of === undefined) return html`<p class="quiet">nothing</p>`;
  const text = typeof of === "string" ? of : JSON.stringify(of, null, 2);
  const isCut = text.length > max;
  return html`<pre tabindex="0" aria-label=${label}>${isCut ? text.slice(0, max) : text}${
    isCut && `\n… ${number(text.length - max)} more characters: ask the API for all of it`}</pre>`;
}

/** What to show when there is nothing, or when it failed: what it is, and what to do. */
export function Notice({ title, text, children }) {
  return html`<div class="notice"><h2>${title}</h2><p>${text}</p>${children}</div>`;
}

/** What went wrong, in words. */
export function reason(error) {
  return error instanceof SyntaxError ? `That is no JSON: ${error.message}` : error.detail ?? error.message ?? String(error);
}

/** A failure, with a button that tries again. */
export function Failure({ error, again }) {
  return html`<${Notice} title=${error.title ?? "This did not work"} text=${reason(error)}>
    ${error.code && html`<p class="quiet">Code: ${error.code}</p>`}
    ${again && html`<button onClick=${again}>Try again</button>`}
  <//>`;
}

/** The view of a resource: nothing yet, its failure, or what `children` makes of its data. */
export function Loaded({ of, children }) {
  if (of.data !== null) return children(of.data);
  if (of.error && of.error.status !== 401) return html`<${Failure} error=${of.error} again=${of.reload} />`;
  return html`<p class="quiet">Loading…</p>`;
}

/** A table; `columns` are `[heading, class]` pairs. */
export function Table({ columns, caption, children, kind = "" }) {
  const place = useRef(null);
  // On a phone a row is a card: each cell says its heading.
  useEffect(() => {
    for (const row of place.current.tBodies[0].rows) {
      // Each write would have the styles of the cell computed anew.
      for (const cell of row.cells) {
        const heading = columns[cell.cellIndex]?.[0] ?? "";
        if (cell.dataset.heading !== heading) cell.dataset.heading = heading;
      }
    }
  });
  return html`<div class="wide"><table ref=${place} class=${`cards ${kind}`}>
    <caption class="hidden">${caption}</caption>
    <thead><tr>${columns.map(([text, of], at) => html`<th key=${at} scope="col" class=${of}>${text}</th>`)}</tr></thead>
    <tbody>${children}</tbody>
  </table></div>`;
}

/** Tabs as links; `of` are `[name, address]` pairs. */
export function Tabs({ of, now, label }) {
  return html`<nav class="tabs" aria-label=${label}>${of.map(([name, address]) =>
    html`<a key=${name} href=${address} aria-current=${name === now ? "page" : null}>${name}</a>`)}</nav>`;
}

/** The head of a page: its name and what can be done on it. */
export function Head({ title, children }) {
  return html`<div class="head"><h1>${title}</h1><span class="buttons">${children}</span></div>`;
}

/** How long after the last key a search is told. */
const PAUSE_MS = 200;
/** Fields with a text that is not told yet: each as the function that tells it. */
const untold = new Set();

/** Tells what was typed in all fields, for buttons that act on what the fields say. */
export function tellTyped() {
  for (const tell of [...untold]) tell();
}

/** The text of a field of which what is typed stays: `value` is written into it only when somebody else has changed it. */
export function useTyped(value) {
  const field = useRef(null);
  const known = useRef(null);
  useLayoutEffect(() => {
    if (value !== known.current) field.current.value = value;
    known.current = value;
  }, [value]);
  return [field, known];
}

/** A field for searches that tells what was typed after a pause; «/» goes to the first of a page. */
export function Search({ value, onText, label, placeholder, kind, pause = PAUSE_MS }) {
  const [field, known] = useTyped(value ?? "");
  const own = useRef({ timer: 0 });
  own.current.onText = onText;
  own.current.tell ??= () => {
    clearTimeout(own.current.timer);
    if (!untold.delete(own.current.tell)) return;
    known.current = field.current.value.trim();
    own.current.onText(known.current);
  };
  // A page that is left is not searched any more.
  useEffect(() => () => {
    clearTimeout(own.current.timer);
    untold.delete(own.current.tell);
  }, []);
  const typed = () => {
    clearTimeout(own.current.timer);
    untold.add(own.current.tell);
    // A page that changes under a pressed button would lose its click.
    own.current.timer = setTimeout(() => released().then(own.current.tell), pause);
  };
  return html`<input ref=${field} type="search" class=${kind} data-search aria-label=${label} placeholder=${placeholder ?? label} onInput=${typed} />`;
}

/** The title of the document while a page is shown. */
export function useTitle(title) {
  useEffect(() => { document.title = `${title} · Turnwheel`; }, [title]);
}

/** Which page of a long list is shown: the cursors of the ones before it. */
export function usePages(key) {
  const [state, set] = useState({ key, back: [], cursor: null, before: 0 });
  const own = state.key === key ? state : { key, back: [], cursor: null, before: 0 };
  const later = (next, count) => set({ key, cursor: next, before: own.before + count, back: [...own.back, own] });
  const earlier = () => set(own.back.at(-1));
  return { ...own, later, earlier };
}

/** The buttons of a long list beside a text. */
export function Pager({ pages, count, total, next, what }) {
  const text = count === 0 ? `None of ${number(total)} ${what}.`
    : `${number(pages.before + 1)} to ${number(pages.before + count)} of ${number(total)} ${what}.`;
  return html`<p class="buttons"><span class="quiet">${text}</span>
    ${pages.back.length > 0 && html`<button onClick=${pages.earlier}>Earlier</button>`}
    ${next && html`<button onClick=${() => pages.later(next, count)}>Later</button>`}</p>`;
}

/** How many new rows are drawn in one frame. */
const SLICE = 6;

/**
 * A list as it is to be drawn. Where many rows are new they come in slices, a frame each, above those that were there, so that no
 * frame is long while much comes. Another `key` is another list.
 */
export function useSlices(rows, key, nameOf) {
  const [, draw] = useReducer((times) => times + 1, 0);
  const drawn = useRef({ key, rows });
  if (drawn.current.key !== key) drawn.current = { key, rows };
  useEffect(() => {
    let frame = 0;
    const step = () => {
      const old = drawn.current.rows;
      if (old === rows) return;
      const known = new Set(old.map(nameOf));
      let at = 0;
      for (let fresh = 0; at < rows.length && fresh < SLICE; at += 1) fresh += known.has(nameOf(rows[at])) ? 0 : 1;
      const head = rows.slice(0, at);
      const has = new Set(head.map(nameOf));
      drawn.current = { key, rows: at === rows.length ? rows : [...head, ...old.filter((row) => !has.has(nameOf(row)))].slice(0, rows.length) };
      draw();
      if (at < rows.length) frame = requestAnimationFrame(step);
    };
    step();
    return () => cancelAnimationFrame(frame);
  }, [rows, key]);
  return drawn.current.rows;
}

/** A function that draws a row, which draws it again only if what it shows has changed. */
export function useKept(draw, changes) {
  const kept = useRef({ changes: null, rows: new Map() });
  if (kept.current.changes !== changes) kept.current = { changes, rows: new Map() };
  const { rows } = kept.current;
  return (row, name) => {
    const text = JSON.stringify(row);
    const known = rows.get(name);
    if (known?.text === text) return known.drawn;
    const drawn = draw(row);
    // Rows that are gone are forgotten now and then.
    if (rows.size > 1000) rows.clear();
    rows.set(name, { text, drawn });
    return drawn;
  };
}

/** The width of an element, kept true. */
export function useWidth(other = 900) {
  const place = useRef(null);
  const [width, set] = useState(other);
  useEffect(() => {
    const look = () => { if (place.current?.clientWidth) set(place.current.clientWidth); };
    const watch = new ResizeObserver(look);
    watch.observe(place.current);
    look();
    return () => watch.disconnect();
  }, []);
  return [place, width];
}
