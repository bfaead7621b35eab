// The runtime below the world: workers and what they do now, actors by class with their latencies.

import { useRef, useState } from "./preact-htm.js";
import { bytes, number, rate, serverNow, span } from "./format.js";
import { ask } from "./api.js";
import { useResource } from "./resource.js";
import { html, Loaded, Notice, Search, Table } from "./ui.js";

/** How many classes are listed at first, and more each time. */
const CLASSES = 30;
const BAR = { width: 7, gap: 1, height: 30 };

/** Microseconds as a duration. */
const us = (value) => span(value / 1000);

/** How a latency is spread, as small bars: each reaches twice as far as the one before. */
function Spread({ of, what }) {
  const last = of.buckets.findLastIndex((bucket) => bucket.turns > 0);
  const shown = of.buckets.slice(0, last + 1);
  if (shown.length === 0) return html`<span class="quiet">not sampled yet</span>`;
  const most = Math.max(...shown.map((bucket) => bucket.turns));
  const text = `${what}: half ${us(of.p50_us)}, 9 of 10 ${us(of.p90_us)}, 99 of 100 ${us(of.p99_us)}, longest ${us(of.max_us)}`;
  return html`<div class="spread"><svg width=${shown.length * (BAR.width + BAR.gap)} height=${BAR.height} role="img" aria-label=${text}>${shown.map((bucket, at) => {
    const height = bucket.turns === 0 ? 0 : Math.max(2, (bucket.turns / most) * BAR.height);
    return html`<g key=${at}><title>${`up to ${us(bucket.upto_us)}: ${number(bucket.turns)}`}</title><rect class="room" x=${at * (BAR.width + BAR.gap)} y="0" width=${BAR.width} height=${BAR.height} />
      <rect class="filled" x=${at * (BAR.width + BAR.gap)} y=${BAR.height - height} width=${BAR.width} height=${height} /></g>`;
  })}</svg><span class="quiet">half ${us(of.p50_us)} · 99 of 100 ${us(of.p99_us)} · longest ${us(of.max_us)}</span></div>`;
}

/** What each worker has done between two readings, a second. */
function compare(before, at, now) {
  const seconds = (at - before.at) / 1000;
  return new Map([...now].map(([key, worker]) => {
    const old = before.now.get(key);
    if (!old) return [key, null];
    const idle = (worker.idle_ms - old.idle_ms) / (at - before.at);
    return [key, { jobs: (worker.jobs - old.jobs) / seconds, turns: (worker.turns - old.turns) / seconds, load: Math.min(1, Math.max(0, 1 - idle)) }];
  }));
}

function Worker({ group, worker, at, some }) {
  const turn = group.running.find((one) => one.worker === at);
  const load = some ? Math.round(some.load * 100) : null;
  const lasts = worker.running_ms ?? null;
  return html`<tr><td>${`${group.name}-${at}`}</td>
    <td class="load">${load === null ? html`<span class="quiet">…</span>` : html`<meter min="0" max="100" value=${load} aria-label=${`Load of ${group.name}-${at}`}></meter> ${load} %`}</td>
    <td>${lasts === null ? html`<span class="quiet">short</span>` : html`<span class=${lasts >= 1000 ? "error" : null}>${span(lasts)}${turn && ` ${turn.name}`}</span>`}</td>
    <td class="right">${number(worker.queued)}</td><td class="right">${some && rate(some.turns)}</td><td class="right">${some && rate(some.jobs)}</td>
    <td class="right">${number(worker.steals)}</td><td class="right">${worker.failures ? html`<b class="error">${number(worker.failures)}</b>` : "0"}</td></tr>`;
}

function Tile({ name, value, note, isBad }) {
  return html`<div class=${isBad ? "tile bad" : "tile"}><span class="tile-value">${value}</span><span class="tile-name">${name}</span>${note && html`<span class="quiet">${note}</span>`}</div>`;
}

export function Runtime() {
  const [text, setText] = useState("");
  const [most, setMost] = useState(CLASSES);
  const seen = useRef({ before: null, rates: new Map() });
  const found = useResource("runtime", async (signal) => {
    const info = await ask("runtime", { signal });
    serverNow(info.now);
    const at = Date.parse(info.now);
    const now = new Map(info.groups.flatMap((group, of) => group.workers.map((worker, index) => [`${of} ${index}`, worker])));
    const { before } = seen.current;
    if (before && at > before.at) seen.current.rates = compare(before, at, now);
    if (!before || at - before.at >= 1000) seen.current.before = { at, now };
    return info;
    // Load is what happened between two looks.
  }, { every: 2000 });
  return html`<${Loaded} of=${found}>${(info) => {
    const longest = Math.max(0, ...info.groups.flatMap((group) => group.workers.map((worker) => worker.running_ms ?? 0)));
    const sum = (of) => info.groups.reduce((total, group) => total + of(group), 0);
    const classes = info.groups.flatMap((group) => group.classes.map((one) => ({ group, one }))).filter(({ one }) => one.class.toLowerCase().includes(text.toLowerCase()));
    return html`<div class="tiles"><${Tile} name="workers" value=${number(sum((group) => group.workers.length))} note=${`${number(sum((group) => group.parked))} without work`} />
        <${Tile} name="longest turn now" value=${longest ? span(longest) : "short"} note="seen from 100 ms on" isBad=${longest >= 1000} /><${Tile} name="actors" value=${number(sum((group) => group.tasks))} />
        <${Tile} name="ready and waiting" value=${number(sum((group) => group.injected + group.workers.reduce((total, worker) => total + worker.queued, 0)))} note="for a worker" />
        <${Tile} name="timers" value=${number(sum((group) => group.timers))} /><${Tile} name="queued messages" value=${bytes(sum((group) => group.mailbox_bytes))} />
        <${Tile} name="long turns" value=${number(sum((group) => group.long_turns))} note="since the begin" /></div>
      ${info.groups.map((group, of) => html`<section key=${of}><h2>Group «${group.name}»</h2>
        <p class="quiet">${number(group.tasks)} actors, ${number(group.injected)} in the shared queue, ${number(group.timers)} timers, ${number(group.blocking_threads)} threads for code that blocks.</p>
        <${Table} caption=${`Workers of ${group.name}`} columns=${[["Worker"], ["Load"], ["Its turn lasts"], ["Ready here", "right"], ["Turns a second", "right"], ["Jobs a second", "right"], ["Taken from others", "right"], ["Failed jobs", "right"]]}>
          ${group.workers.map((worker, at) => html`<${Worker} key=${at} group=${group} worker=${worker} at=${at} some=${seen.current.rates.get(`${of} ${at}`)} />`)}<//></section>`)}
      <h2>Actors by class</h2><p class="quiet">One turn in 256 is measured. Bars from left to right: up to 1 µs, each twice as far as the one before. Waited: from being ready to the begin of the turn.</p>
      <div class="filters"><${Search} value=${text} onText=${setText} label="Search classes" placeholder="Class of actors" pause=${50} /></div>
      ${classes.length === 0 ? html`<${Notice} title="None" text="No class of actors fits." />` : html`<${Table} caption="Actors by class" columns=${[["Class", "grow"], ["Group"], ["Live", "right"], ["Waited"], ["Its turns lasted"]]}>
        ${classes.slice(0, most).map(({ group, one }) => html`<tr key=${`${group.name} ${one.class}`}><td class="grow">${one.class}</td><td>${group.name}</td><td class="right">${number(one.tasks)}</td>
          <td><${Spread} of=${one.waited} what="Waited" /></td><td><${Spread} of=${one.ran} what="Lasted" /></td></tr>`)}<//>`}
      ${classes.length > most && html`<button onClick=${() => setMost(most + CLASSES)}>More</button>`}`;
  }}<//>`;
}
