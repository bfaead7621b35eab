// What ended lately: counts by time, durations and errors.

import { useAsk } from "./resource.js";
import { nameOf } from "./ui.js";

/** What ended within the last hours, as the store counts it: all, by time and by name. */
export function useEnded(hours, parts) {
  return useAsk("ended", { query: { hours, parts } }, { every: 15000 });
}

export function flowLabels({ namespace, name }) {
  return `flow.namespace=${namespace},flow.name=${name}`;
}

/** Numbers of all versions of a flow; durations are those of the version that ran most. */
export function endedOf(ended, flow) {
  const own = (ended?.names ?? []).filter(({ name }) => name.startsWith(`${flow.namespace}/${flow.name}:`));
  const sum = (key) => own.reduce((all, one) => all + one[key], 0);
  return { ended: sum("ended"), failed: sum("failed"), p50_ms: own[0]?.p50_ms ?? null };
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
