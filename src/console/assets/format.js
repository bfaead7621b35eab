// Times, durations and numbers as people read them.

import { h } from "./dom.js";

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

export function rate(value) {
  const some = Number(value ?? 0);
  return some >= 10 ? number(Math.round(some)) : some.toFixed(1);
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
  const whole = Math.floor(seconds / bigSize);
  const next = units[at + 1];
  const rest = next ? Math.floor((seconds - whole * bigSize) / next[1]) : 0;
  return rest > 0 ? `${whole} ${big} ${rest} ${next[0]}` : `${whole} ${big}`;
}

function relative(iso) {
  const ms = now() - Date.parse(iso);
  if (Math.abs(ms) < 1000) return "now";
  const whole = ms > 0 ? Math.floor(ms / 1000) * 1000 : Math.ceil(ms / 1000) * 1000;
  const text = Math.abs(whole) < 60000 ? `${Math.abs(whole) / 1000} s` : span(Math.abs(whole));
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

/** How long ago, or how long until; the tick keeps it true, the whole time is its title. */
export function ago(iso) {
  if (!iso) return null;
  return h("time", { datetime: iso, title: iso, "data-ago": "" }, relative(iso));
}

/** The time itself. */
export function clock(iso) {
  if (!iso) return null;
  return h("time", { datetime: iso, title: iso }, iso.replace("T", " ").replace(/(\.\d{3})\d*Z?$/, "$1").replace(/Z$/, ""));
}

/** Keeps all ages on the page true. */
export function tick() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const text = relative(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
  }
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

/** A link to a plan. */
export function planLink(id, text) {
  return h("a", { href: `#/plan/${encodeURIComponent(id)}`, title: id }, text ?? short(id));
}

/** What a step is called: a task of a flow by the names on the way to it, without their places. */
export function taskName(name) {
  if (!/^do\/\d+\//.test(name)) return name;
  const parts = name.split("/");
  const names = parts.filter((_, at) => at > 0 && /^\d+$/.test(parts[at - 1]));
  return names.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~")).join(" › ");
}

/** What is in the words of the API, for people. */
export function words(name) {
  return String(name).replaceAll("_", " ");
}
