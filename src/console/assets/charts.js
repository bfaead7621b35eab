// Small pictures in lines of text: sparklines, strips of results, a calendar of days.

import { html } from "./preact-htm.js";

/** A line through values; nothing without two of them. */
export function Sparkline({ values, label, width = 120, height = 24, kind = "" }) {
  const known = values.filter((value) => Number.isFinite(value));
  if (known.length < 2) return html`<span class="quiet">–</span>`;
  const most = Math.max(...known, 1e-9);
  const step = width / (values.length - 1);
  const points = values.map((value, at) => [at * step, height - 2 - (Number.isFinite(value) ? value / most : 0) * (height - 4)]);
  const line = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  return html`<svg class=${`spark ${kind}`} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}>
    <title>${label}</title>
    <polygon class="under" points=${`0,${height} ${line} ${width},${height}`} />
    <polyline points=${line} />
  </svg>`;
}

/** One bar for each of the last results, the newest at the right; `of` are `{ state, title, href, share }`. */
export function Strip({ of, label }) {
  if (of.length === 0) return html`<span class="quiet">–</span>`;
  const height = 20;
  return html`<svg class="strip" width=${of.length * 7} height=${height} role="img" aria-label=${label}>
    ${of.map((one, at) => {
      const tall = 6 + Math.round((height - 6) * (one.share ?? 1));
      const bar = html`<rect class=${`s-${one.state}`} x=${at * 7} y=${height - tall} width="5" height=${tall} rx="1"><title>${one.title}</title></rect>`;
      return one.href ? html`<a key=${at} href=${one.href} tabindex="-1" aria-label=${one.title}>${bar}</a>` : bar;
    })}
  </svg>`;
}

/** The last days as weeks beside each other; `days` maps `2026-01-31` to `{ runs, failed }`. */
export function Calendar({ days, today, weeks = 13, label }) {
  const size = 13;
  const last = Date.parse(`${today}T00:00:00Z`);
  const weekday = (new Date(last).getUTCDay() + 6) % 7;
  const cells = [];
  for (let back = weeks * 7 - (7 - weekday); back >= 0; back -= 1) {
    const date = new Date(last - back * 86400000);
    const name = date.toISOString().slice(0, 10);
    const day = days.get(name);
    const column = weeks - 1 - Math.floor((back + 6 - weekday) / 7);
    const kind = !day ? "none" : day.failed > 0 ? (day.failed === day.runs ? "bad" : "some") : "good";
    const text = day ? `${name}: ${day.runs} runs, ${day.failed} failed` : `${name}: no run`;
    cells.push(html`<rect key=${name} class=${`day ${kind}`} x=${column * size} y=${((date.getUTCDay() + 6) % 7) * size}
      width=${size - 2} height=${size - 2} rx="2"><title>${text}</title></rect>`);
  }
  return html`<div class="wide"><svg class="calendar" width=${weeks * size} height=${7 * size} role="img" aria-label=${label}>${cells}</svg></div>`;
}
