// Times, durations and numbers as people read them.

import { zone } from "./settings.js";

/** Server time minus the browser's, in milliseconds: ages are right though a clock is wrong. */
let skew = 0;

export function serverNow(iso) {
  const at = Date.parse(iso);
  if (!Number.isNaN(at)) skew = at - Date.now();
}

export function now() {
  return Date.now() + skew;
}

export function number(value) {
  return Number(value ?? 0).toLocaleString("en");
}

/** «1 run», «2 runs». */
export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${Number(value) === 1 ? one : many}`;
}

export function rate(value) {
  const some = Number(value ?? 0);
  return some >= 10 ? number(Math.round(some)) : some.toFixed(1);
}

export function percent(part, all) {
  return all > 0 ? `${Math.round((100 * part) / all)} %` : "";
}

export function bytes(value) {
  let rest = Number(value ?? 0);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (rest < 1024 || unit === "GiB") return `${unit === "B" ? rest : rest.toFixed(1)} ${unit}`;
    rest /= 1024;
  }
  return "";
}

/** A duration in milliseconds. */
export function span(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = units.findIndex(([, size]) => seconds >= size);
  const [big, bigSize] = units[at];
  const full = Math.floor(seconds / bigSize);
  const next = units[at + 1];
  const rest = next ? Math.floor((seconds - full * bigSize) / next[1]) : 0;
  return rest > 0 ? `${full} ${big} ${rest} ${next[0]}` : `${full} ${big}`;
}

/** «5 s ago», «in 3 min». */
export function relative(iso) {
  const ms = now() - Date.parse(iso);
  if (Math.abs(ms) < 1000) return "now";
  const full = ms > 0 ? Math.floor(ms / 1000) * 1000 : Math.ceil(ms / 1000) * 1000;
  const text = Math.abs(full) < 60000 ? `${Math.abs(full) / 1000} s` : span(Math.abs(full));
  // The age of what is over is read at a glance.
  return ms > 0 ? `${text.split(" ").slice(0, 2).join(" ")} ago` : `in ${text}`;
}

const formats = new Map();

function partsIn(name, ms) {
  if (!formats.has(name)) {
    formats.set(name, new Intl.DateTimeFormat("en-CA", { timeZone: name, hourCycle: "h23", year: "numeric", month: "2-digit",
      day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" }));
  }
  return Object.fromEntries(formats.get(name).formatToParts(ms).map(({ type, value }) => [type, value]));
}

/** A time in the chosen zone: «2026-01-05 12:00:07». */
export function local(iso, name = zone.value) {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return String(iso);
  const part = partsIn(name, at);
  return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second}`;
}

/** A moment as a field for dates and times wants it. */
export function fieldTime(ms) {
  return local(new Date(ms).toISOString()).replace(" ", "T");
}

/** What such a field says in the chosen zone, as a time in UTC. */
export function moment(text, name = zone.value) {
  const guess = Date.parse(`${text}Z`);
  if (Number.isNaN(guess)) throw new Error("A time is missing.");
  const offset = (ms) => Date.parse(`${local(new Date(ms).toISOString(), name).replace(" ", "T")}Z`) - Math.floor(ms / 1000) * 1000;
  const once = guess - offset(guess);
  return new Date(guess - offset(once)).toISOString();
}

/** From one time to another one, or to now. */
export function between(from, to) {
  if (!from) return "";
  return span(Math.max(0, (to ? Date.parse(to) : now()) - Date.parse(from)));
}

/** Enough of an id to know it by. */
export function short(id) {
  return id.length > 13 ? `…${id.slice(-12)}` : id;
}

/** The path of a task of a flow without a slash before it; nothing for other steps. */
export function taskPath(name) {
  const path = String(name).replace(/^\//, "");
  return /^do\/\d+\//.test(path) ? path : null;
}

/** What a step is called: a task of a flow by the names on the way to it, without their places. */
export function taskName(name) {
  const path = taskPath(name);
  if (path === null) return String(name);
  const parts = path.split("/");
  const names = parts.filter((_, at) => at > 0 && /^\d+$/.test(parts[at - 1]));
  return names.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~")).join(" › ");
}

/** Titles that say no more than the number beside them. */
const GENERAL = /^(https?:\S+|\w+ Error)$/;

/** An error or a reason to wait in the names of the flow, what matters first: «send: no such mailbox (500)». */
export function plain(text) {
  const found = /^(?:.{1,80}? failed: )?(.*?) \((\d{3})\) at (\/do\/\S*?)(?:: ([\s\S]*))?$/.exec(String(text ?? "").replace(/ \(https?:[^\s()]+\)$/, ""));
  if (!found) return String(text ?? "").replace(/^job\.run failed: /, "").replace(/\/do\/\d+\/[^\s:,;)]+/g, (path) => taskName(path));
  const [, title, status, path, detail] = found;
  const what = [GENERAL.test(title) && detail ? "" : title, detail].filter(Boolean).join(": ");
  return `${taskName(path)}: ${what} (${status})`;
}

/** The same where the name of its task is shown beside it: it is not said twice. */
export function plainIn(text, name) {
  const said = plain(text);
  return said.startsWith(`${name}: `) ? said.slice(name.length + 2) : said;
}

/** What is in the words of the API, for people. */
export function words(name) {
  return String(name).replaceAll("_", " ");
}

/** A text that is cut in the middle of nowhere says so. */
export function cut(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
