// The runtime below the world: workers and what they do now, actors by class with their latencies.

import { ask, figures } from "./api.js";
import { h, notice, put, s, table } from "./dom.js";
import { bytes, number, rate, serverNow, span } from "./format.js";

/** How many classes are listed at first, and more each time. */
const CLASSES = 30;
const BAR = { width: 7, gap: 1, height: 34 };

/** Microseconds as a duration. */
const us = (value) => span(value / 1000);

/** How a latency is spread, as small bars: each reaches twice as far as the one before. */
function spread(latency, what) {
  const last = latency.buckets.findLastIndex((bucket) => bucket.turns > 0);
  const shown = latency.buckets.slice(0, last + 1);
  if (shown.length === 0) return h("span", { class: "quiet" }, "not sampled yet");
  const most = Math.max(...shown.map((bucket) => bucket.turns));
  const width = shown.length * (BAR.width + BAR.gap);
  const text = `${what}: half ${us(latency.p50_us)}, 9 of 10 ${us(latency.p90_us)}, 99 of 100 ${us(latency.p99_us)}, longest ${us(latency.max_us)}`;
  return h("div", { class: "spread" },
    s("svg", { width, height: BAR.height, viewBox: `0 0 ${width} ${BAR.height}`, role: "img", "aria-label": text },
      shown.map((bucket, at) => {
        const height = bucket.turns === 0 ? 0 : Math.max(2, (bucket.turns / most) * BAR.height);
        return s("g", {}, s("title", {}, `up to ${us(bucket.upto_us)}: ${number(bucket.turns)}`),
          s("rect", { class: "room", x: at * (BAR.width + BAR.gap), y: 0, width: BAR.width, height: BAR.height }),
          s("rect", { class: "filled", x: at * (BAR.width + BAR.gap), y: BAR.height - height, width: BAR.width, height }));
      })),
    h("span", { class: "quiet" }, `half ${us(latency.p50_us)} · 99 of 100 ${us(latency.p99_us)} · longest ${us(latency.max_us)}`));
}

export function runtime(root, _rest, _query, { signal }) {
  let most = CLASSES;
  let text = "";
  let all = null;
  /** The reading before, by group and worker, for what is done a second. */
  let before = null;
  let rates = new Map();
  const search = h("input", { type: "search", "data-search": true, placeholder: "Class of actors", "aria-label": "Search classes",
    on: { input: () => { text = search.value.trim().toLowerCase(); draw(); } } });
  const head = h("div", {});
  const workers = h("section", {});
  const classes = h("section", {});
  put(root, head, workers, h("h2", {}, "Actors by class"),
    h("p", { class: "quiet" }, "One turn in 256 is measured. Bars from left to right: up to 1 µs, each twice as far as the one before. Waited: from being ready to the begin of the turn."),
    h("div", { class: "filters" }, search), classes);

  /** What each worker has done since the reading before. */
  function compare(info) {
    const at = Date.parse(info.now);
    const now = new Map(info.groups.flatMap((group, of) => group.workers.map((worker, index) => [`${of} ${index}`, worker])));
    if (before && at > before.at) {
      const seconds = (at - before.at) / 1000;
      rates = new Map([...now].map(([key, worker]) => {
        const old = before.now.get(key);
        if (!old) return [key, null];
        const idle = (worker.idle_ms - old.idle_ms) / (at - before.at);
        return [key, { jobs: (worker.jobs - old.jobs) / seconds, turns: (worker.turns - old.turns) / seconds, load: Math.min(1, Math.max(0, 1 - idle)) }];
      }));
    }
    if (!before || at - before.at >= 1000) before = { at, now };
  }

  function workerRow(group, of, worker, index) {
    const some = rates.get(`${of} ${index}`);
    const turn = group.running.find((one) => one.worker === index);
    const load = some ? Math.round(some.load * 100) : null;
    return h("tr", {},
      h("td", { class: "load" }, `${group.name}-${index}`),
      h("td", { class: "load" }, load === null ? h("span", { class: "quiet" }, "…") : [h("meter", { min: 0, max: 100, value: load, "aria-label": `Load of ${group.name}-${index}` }), ` ${load} %`]),
      h("td", {}, worker.running_ms === null || worker.running_ms === undefined ? h("span", { class: "quiet" }, "short")
        : h("span", { class: worker.running_ms >= 1000 ? "error" : null }, span(worker.running_ms), turn && ` ${turn.name}`)),
      h("td", { class: "right" }, number(worker.queued)),
      h("td", { class: "right" }, some ? rate(some.turns) : ""), h("td", { class: "right" }, some ? rate(some.jobs) : ""),
      h("td", { class: "right" }, number(worker.steals)), h("td", { class: "right" }, worker.failures ? h("b", { class: "error" }, number(worker.failures)) : "0"));
  }

  function draw() {
    const { info, queues } = all;
    const longest = info.groups.flatMap((group) => group.workers.map((worker) => worker.running_ms ?? 0)).reduce((one, other) => Math.max(one, other), 0);
    const sum = (of) => info.groups.reduce((total, group) => total + of(group), 0);
    const waits = sum((group) => group.injected + group.workers.reduce((total, worker) => total + worker.queued, 0));
    const tile = (name, value, note, kind = "") => h("div", { class: `tile ${kind}` }, h("span", { class: "tile-value" }, value), h("span", { class: "tile-name" }, name), note && h("span", { class: "quiet" }, note));
    put(head, h("h1", {}, "Runtime"), h("div", { class: "tiles small" },
      tile("workers", number(sum((group) => group.workers.length)), `${number(sum((group) => group.parked))} without work`),
      tile("longest turn now", longest ? span(longest) : "short", "seen from 100 ms on", longest >= 1000 ? "bad" : ""),
      tile("actors", number(sum((group) => group.tasks))), tile("ready and waiting", number(waits), "for a worker"),
      tile("timers", number(sum((group) => group.timers))), tile("queued messages", bytes(sum((group) => group.mailbox_bytes)), "within 32 KiB a worker"),
      tile("long turns", number(sum((group) => group.long_turns)), "since the begin", "")));
    put(workers, info.groups.map((group, of) => [h("h2", {}, `Group «${group.name}»`),
      h("p", { class: "quiet" }, `${number(group.tasks)} actors, ${number(group.injected)} in the shared queue, ${number(group.timers)} timers, ${number(group.blocking_threads)} threads for code that blocks.`),
      table([["Worker"], ["Load"], ["Its turn lasts"], ["Ready here", "right"], ["Turns a second", "right"], ["Jobs a second", "right"], ["Taken from others", "right"], ["Failed jobs", "right"]],
        group.workers.map((worker, index) => workerRow(group, of, worker, index)), `Workers of ${group.name}`)]),
    h("h2", {}, "Queues of steps"), queues.length === 0 ? h("p", { class: "quiet" }, "There are none.")
      : table([["Queue"], ["Places", "right"], ["Running", "right"], ["Waiting", "right"], ["Load", "grow"]], queues.map((queue) => h("tr", {}, h("td", {}, queue.name),
        h("td", { class: "right" }, number(queue.size)), h("td", { class: "right" }, number(queue.running)), h("td", { class: "right" }, number(queue.waiting)),
        h("td", { class: "grow" }, h("meter", { min: 0, max: Math.max(1, queue.size), value: queue.running, "aria-label": `Load of ${queue.name}` })))), "Queues"));
    const rows = info.groups.flatMap((group) => group.classes.map((one) => ({ group, one }))).filter(({ one }) => one.class.toLowerCase().includes(text));
    put(classes, rows.length === 0 ? notice("None", "No class of actors fits.")
      : table([["Class", "grow"], ["Group"], ["Live", "right"], ["Waited"], ["Its turns lasted"]], rows.slice(0, most).map(({ group, one }) => h("tr", {},
        h("td", { class: "grow" }, h("span", { title: one.class }, one.class)), h("td", {}, group.name), h("td", { class: "right" }, number(one.tasks)),
        h("td", {}, spread(one.waited, "Waited")), h("td", {}, spread(one.ran, "Lasted")))), "Actors by class"),
    rows.length > most && h("button", { "data-key": "more", on: { click: () => { most += CLASSES; draw(); } } }, "More"));
  }

  return {
    title: "Runtime",
    async refresh() {
      const [info, stats] = await Promise.all([ask("runtime", { signal }), figures(signal)]);
      serverNow(info.now);
      compare(info);
      all = { info, queues: stats.queues };
      draw();
    },
    // Load is what happened between two looks.
    every: 2000,
  };
}
