// What can be done with a run: orders for one that is under way, new runs in place of one that is over.

import { ask } from "./api.js";
import { order, say } from "./dialogs.js";
import { words } from "./format.js";
import { byTask, focusOf, inputOf, isFlow, taskInput } from "./run-state.js";
import { reason } from "./ui.js";

/** What each order does, said before it is given. */
const ORDERS = {
  pause: "It takes no new step until it is resumed; code that runs is not interrupted.",
  resume: "It goes on: failed steps are tried again.",
  skip_failed: "Failed steps are left out, and it goes on.",
  retry_failed: "Failed steps, and all that come after them, are put back to their begin, and it goes on.",
  revert: "What was done is taken back, the last step first.",
  fail: "It ends as it is, with the result «error».",
  cancel: "It ends; code that runs is waited for.",
  cancel_now: "It ends; code that runs is not waited for.",
  terminate: "It ends where it is: none of its code is called, nothing is taken back.",
  freeze: "It is held until somebody gives it a time.",
  delay_until: "It is planned at another time; without a time at once.",
};

/** Gives a run an order. */
export async function give(name, run, reload) {
  const fields = name === "delay_until" ? [{ name: "time", label: "Time", kind: "time" }] : [];
  const done = await order({ title: `${words(name)}?`, text: ORDERS[name] ?? "The run is given this order.", verb: words(name), fields,
    perform: ({ time }) => ask("order", { at: { plan: run.id }, body: { order: name, ...(time ? { start_at: time } : {}) } }) });
  if (done) say(`${words(name)}: done, noted for ${done.by}.`);
  reload();
}

/** Labels as people write them, «name=value» a line; those of the system stay as they are. */
const OWN = /^(flow|retry|again)\.|^(schedule|planned|job|launch)$/;

/** Changes the labels of a run. */
export async function relabel(run, reload) {
  const before = Object.entries(run.labels).filter(([name]) => !OWN.test(name));
  const value = before.map(([name, of]) => (of ? `${name}=${of}` : name)).join("\n");
  const fields = [{ name: "labels", label: "Labels, name=value, one a line", kind: "area", rows: 4, value }];
  const done = await order({ title: "Labels", text: "They are found in the list of runs, and stay when the run is over.", verb: "Save", fields, perform: async ({ labels }) => {
    const after = new Map(labels.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => [line.split("=", 1)[0], line.slice(line.split("=", 1)[0].length + 1)]));
    const gone = before.filter(([name]) => !after.has(name)).map(([name]) => ({ order: "remove_label", name }));
    const put = [...after].filter(([name, of]) => run.labels[name] !== of).map(([name, of]) => ({ order: "label", name, value: of }));
    for (const body of [...gone, ...put]) await ask("order", { at: { plan: run.id }, body });
    return true;
  } });
  if (done) say("The labels are saved.");
  reload();
}

const TEXTS = {
  retry: ["A new run goes on with the task that failed. Tasks that were done are not done again.", "Input of the failed task, as JSON"],
  again: ["A new run does all of it from its begin.", "Input, as JSON"],
};
/** What the server shows in place of values that are nobody's to see. */
const MASK = "••••";
/** Tasks of a run that are looked through for the failed one. */
const TREE = 5000;

/** What can run in place of a run that is over; one retry is all that a failed run has. */
export function rerunsOf(run, isRetried = false) {
  if (run.state !== "stopped") return [];
  return isFlow(run) && run.result !== "success" && !isRetried ? ["retry", "again"] : ["again"];
}

/** The input that the failed task of a run had; that of the run if none of its tasks began. */
async function failedInput(run) {
  const at = { plan: run.id };
  const tree = await ask("tree", { at, query: { limit: TREE } });
  const tasks = byTask(tree, run);
  const task = focusOf(tasks) ?? [...tasks.values()].at(-1);
  const step = task?.steps.at(-1);
  return step ? taskInput(await ask("step", { at: { ...at, step: step.id } })) : inputOf(run);
}

/** Starts a run in place of one that is over, and goes there; answers it. */
export async function rerun(kind, run) {
  const [text, label] = TEXTS[kind];
  let known;
  try {
    known = kind === "retry" ? await failedInput(run) : inputOf(run);
  } catch (error) {
    return say(reason(error), true);
  }
  const value = JSON.stringify(known ?? null, null, 2);
  const note = value.includes(MASK) ? `${MASK} stands for what is hidden: it is kept if nothing is changed.` : null;
  const fields = [{ name: "input", label, kind: "json", value, note },
    ...(isFlow(run) ? [{ name: "version", label: "Version of the flow, if it is to be another one", placeholder: run.labels["flow.version"] ?? "" }] : [])];
  const begun = await order({ title: `${rerun.titles[kind]}?`, text, verb: rerun.titles[kind], fields, perform: (given, typed) => {
    const body = {};
    const isChanged = given.input !== undefined && typed.input !== value;
    if (isChanged && typed.input.includes(MASK)) throw new Error(`${MASK} stands for a hidden value: write the value itself in its place.`);
    if (isChanged) body.input = given.input;
    if (given.version) body.version = given.version;
    return ask(kind, { at: { plan: run.id }, body });
  } });
  if (begun) location.hash = `#/run/${begun.id}`;
  return begun;
}

rerun.titles = { retry: "Retry from the failed task", again: "Run again" };
