// A run seen as its flow: the steps of each task, what the user gave and gets, which task has failed.

import { between, count, taskPath } from "./format.js";

const WORST = ["error", "revert_failed", "running", "retrying", "suspended", "skipping", "reverting", "scheduling", "pending", "cancelled", "skipped", "reverted", "success"];
export const ACTIVE = new Set(["running", "suspended", "retrying", "skipping", "reverting", "revert_retrying", "scheduling"]);
export const BAD = new Set(["error", "revert_failed"]);

export function rank(state) {
  const at = WORST.indexOf(state);
  return at < 0 ? WORST.length : at;
}

export function isFlow(run) {
  return run.action === "flow" && Boolean(run.labels["flow.name"]);
}

/** The name of the flow of a run, as paths of the API want it; nothing for other runs. */
export function flowOf(run) {
  if (!isFlow(run)) return null;
  return { namespace: run.labels["flow.namespace"], name: run.labels["flow.name"], version: run.labels["flow.version"] };
}

/** Whether a step or an action of a flow's run is that of the flow itself, and of none of its tasks. */
export function isOfFlow({ name }) {
  return name === "flow";
}

/** What the history says of a run, as people want it: of a flow not what the engine does behind its tasks. */
export function toldOf(run) {
  const isInner = ({ text }) => /^step \d+ asks for [\d,]+ steps?$|^fail after the failure of step \d+ by policy$/.test(text);
  return isFlow(run) ? run.history.filter((line) => !isInner(line)) : run.history;
}

/** What the user gave: not how a flow keeps it. */
export function inputOf(run) {
  const { input } = run;
  return run.action === "flow" && input && typeof input === "object" && "definition" in input ? input.input ?? null : input;
}

/** What the user gets. */
export function outputOf(run) {
  const { output } = run;
  return run.action === "flow" && output && typeof output === "object" && "outcome" in output ? output.outcome?.output ?? null : output;
}

/** What a task of a flow was given: not how its step keeps it. */
export function taskInput(step) {
  const { input } = step;
  return input && typeof input === "object" && "raw" in input && "at" in input ? input.raw : input;
}

/** The task whose error has ended the run, as its path. */
export function faultOf(run) {
  const said = run.output?.outcome?.fault?.instance ?? / at (\/do\/\S+?):?(?:\s|$)/.exec(run.error ?? run.outcome ?? "")?.[1];
  return said ? taskPath(said) : null;
}

/** The steps of each task, by its path. */
export function byTask(tree, run) {
  const tasks = new Map();
  for (const action of tree?.nodes ?? []) {
    const path = taskPath(action.name);
    if (path === null) continue;
    if (!tasks.has(path)) tasks.set(path, { path, steps: [] });
    tasks.get(path).steps.push(...action.steps.filter((step) => step.phase === "run"));
  }
  for (const task of tasks.values()) {
    task.steps.sort((one, other) => one.id - other.id);
    const worst = [...task.steps].sort((one, other) => rank(one.state) - rank(other.state))[0];
    task.state = worst?.state ?? "pending";
    // What needs somebody is opened first, else what came last.
    task.step = worst && (BAD.has(worst.state) || ACTIVE.has(worst.state)) ? worst : task.steps.at(-1);
  }
  const fault = faultOf(run);
  if (fault) {
    const known = tasks.get(fault);
    const root = (tree?.nodes[0]?.steps ?? []).find((step) => step.phase === "run");
    tasks.set(fault, { path: fault, steps: known?.steps ?? [], state: "error", step: known?.step ?? root, isFault: true });
  }
  return tasks;
}

/** The task that stands for what a run is about: the failed one, else the one under way. */
export function focusOf(tasks) {
  // The task that the run ended at stands before errors that were caught.
  const fault = [...tasks.values()].find((task) => task.isFault);
  if (fault) return fault;
  const leaves = [...tasks.values()].sort((one, other) => rank(one.state) - rank(other.state) || other.path.length - one.path.length);
  return leaves.find((task) => BAD.has(task.state)) ?? leaves.find((task) => ACTIVE.has(task.state)) ?? null;
}

/** Attempts, repeats and the duration of a task, in few letters. */
export function noteOf(task) {
  const { steps } = task;
  if (steps.length === 0) return "";
  const attempts = Math.max(...steps.map((step) => step.attempts));
  const from = steps.map((step) => step.started_at).filter(Boolean).sort()[0];
  const isOver = steps.every((step) => step.ended_at);
  const to = isOver ? steps.map((step) => step.ended_at).sort().at(-1) : null;
  const last = steps.at(-1);
  const took = from ? (steps.length === 1 ? between(last.started_at, last.ended_at) : between(from, to)) : "";
  return [steps.length > 1 && `${steps.length}×`, attempts > 1 && count(attempts, "try", "tries"), took].filter(Boolean).join(" · ");
}
