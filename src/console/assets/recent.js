// What ended lately: counts by time, durations and errors, from the newest runs that are over.

import { ask } from "./api.js";
import { now } from "./format.js";
import { useResource } from "./resource.js";
import { nameOf } from "./ui.js";

/** How many of the newest runs are looked at. */
const RUNS = 1000;
const DAY_MS = 86_400_000;

/** The runs that ended within a day, of one flow or of all, the newest first. */
export function useRecent(flow = null) {
  return useResource(`recent ${flow ?? ""}`, async (signal) => {
    const from = new Date(now() - DAY_MS).toISOString();
    const query = { state: "stopped", ended_from: from, limit: RUNS, labels: flow ? flowLabels(flow) : undefined };
    const { plans, next } = await ask("plans", { query, signal });
    return { runs: plans, isPart: next !== null };
  }, { every: 15000 });
}

export function flowLabels({ namespace, name }) {
  return `flow.namespace=${namespace},flow.name=${name}`;
}

/** Runs in slots of time until now: how many ended, failed, and their median duration. */
export function slots(runs, span, parts) {
  const end = now();
  const all = Array.from({ length: parts }, () => ({ ended: 0, failed: 0, took: [] }));
  for (const run of runs) {
    const at = Math.floor(((Date.parse(run.ended_at) - (end - span)) / span) * parts);
    if (at < 0 || at >= parts) continue;
    all[at].ended += 1;
    if (run.result === "error") all[at].failed += 1;
    if (run.started_at) all[at].took.push(Date.parse(run.ended_at) - Date.parse(run.started_at));
  }
  return all.map((slot) => ({ ...slot, took: middle(slot.took) }));
}

/** The median; nothing of nothing. */
export function middle(values) {
  if (values.length === 0) return NaN;
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)];
}

/** Errors that differ by numbers, ids and quoted words only are one kind. */
export function errorKind(text) {
  return String(text || "no reason was kept")
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/gi, "…").replace(/"[^"]*"|«[^»]*»/g, "…").replace(/\d+(\.\d+)*/g, "#").slice(0, 160);
}

/** Failed runs by their errors, the most frequent first. */
export function byError(runs) {
  const kinds = new Map();
  for (const run of runs) {
    const text = run.error ?? run.waits_for ?? "";
    const kind = errorKind(text);
    if (!kinds.has(kind)) kinds.set(kind, { kind, text, runs: [], flows: new Set() });
    const of = kinds.get(kind);
    of.runs.push(run);
    of.flows.add(nameOf(run));
  }
  return [...kinds.values()].sort((one, other) => other.runs.length - one.runs.length);
}
