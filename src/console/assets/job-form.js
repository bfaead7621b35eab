// The form of a job: a field for each setting; those of executors and receivers are JSON.

import { ask } from "./api.js";
import { order, say } from "./dialogs.js";

const pairs = (of) => Object.entries(of ?? {}).map(([name, value]) => `${name}=${value}`).join(", ");

/** `name=value, name=value` as an object. */
function unpaired(text) {
  return Object.fromEntries(text.split(",").map((one) => one.trim()).filter(Boolean).map((one) => {
    const at = one.indexOf("=");
    return at < 0 ? [one, ""] : [one.slice(0, at).trim(), one.slice(at + 1).trim()];
  }));
}

/** Settings by the kind of their field; how they are written and read. */
const TEXTS = [["schedule", "Schedule", "six fields, @daily, @every 1h30m, @at TIME, @manually"], ["timezone", "Time zone", "that of the server without one"], ["display_name", "Name for people"],
  ["jitter", "Jitter", "such as 30s"], ["starts_at", "Fires from"], ["expires_at", "Fires until"], ["start_within", "Begins within", "a later begin is a miss"],
  ["timeout", "Limit of an attempt"], ["deadline", "Limit of a launch"], ["concurrency_key", "One at a time with key"], ["owner", "Owner"], ["owner_email", "Address of the owner"]];
const CHOICES = [["dialect", "Fields of the schedule", ["seconds", "classic"]], ["hash", "Hash for ~", ["default", "legacy"]], ["daylight_saving", "Hour left out in spring", ["first", "shift", "skip"]], ["overlap", "While one is under way", ["allow", "forbid", "queue_one", "queue_all", "replace"]],
  ["unknown", "Outcome unknown after a crash", ["fail", "retry", "ask"]]];
const NUMBERS = [["retries", "Further attempts", 0], ["priority", "Priority"], ["keep", "Launches that are kept", 1], ["output_max", "Bytes of output that a run keeps", 0]];
const TICKS = [["disabled", "Fires not"], ["ephemeral", "Removed after its first success"]];
const OBJECTS = [["config", "Settings of the executor, as JSON", 4], ["missed", "Missed times, as JSON", 1], ["backoff", "Pauses between attempts, as JSON", 2], ["after", "Runs after, as JSON", 2], ["processors", "Processors of the output, as JSON", 2], ["notify", "Notifications, as JSON", 2]];

const NEW = { schedule: "@daily", executor: "shell", config: { command: "true" }, missed: "latest", after: [], processors: {}, notify: [], retries: 0, priority: 0, keep: 100, output_max: 256000,
  overlap: "forbid", unknown: "fail", backoff: { first: "1s", max: "5m" }, targets: {}, metadata: {} };

function fieldsOf(spec, executors, isNew) {
  const options = (of, known) => [...new Set([...known, of].filter(Boolean))].map((name) => [name]);
  return [
    ...(isNew ? [{ name: "name", label: "Name", required: true, note: "lower-case letters, digits, _ and -" }] : []),
    ...TEXTS.slice(0, 2).map(([name, label, note]) => ({ name, label, note, value: spec[name] ?? "" })),
    { name: "executor", label: "Executor", kind: "select", value: spec.executor, options: options(spec.executor, executors) },
    ...OBJECTS.slice(0, 1).map(([name, label, rows]) => ({ name, label, kind: "json", rows, value: JSON.stringify(spec[name], null, 1) })),
    ...CHOICES.filter(([name]) => spec[name] !== undefined).map(([name, label, known]) => ({ name, label, kind: "select", value: spec[name], options: options(spec[name], known) })),
    ...NUMBERS.map(([name, label, min]) => ({ name, label, kind: "number", min, value: spec[name], required: true })),
    ...TEXTS.slice(2).map(([name, label, note]) => ({ name, label, note, value: spec[name] ?? "" })),
    { name: "targets", label: "Labels that a node must have", value: pairs(spec.targets), placeholder: "role=web, zone=a:2" },
    { name: "metadata", label: "Labels for searches", value: pairs(spec.metadata), placeholder: "team=shop" },
    ...OBJECTS.slice(1).map(([name, label, rows]) => ({ name, label, kind: "json", rows, value: JSON.stringify(spec[name]) })),
    ...TICKS.map(([name, label]) => ({ name, label, kind: "tick", value: spec[name] ?? false })),
  ];
}

/** The values of the form as settings; empty texts are settings that are not given. */
export function specOf(old, given) {
  const spec = { ...old };
  for (const [name, value] of Object.entries(given)) {
    if (name === "targets" || name === "metadata") spec[name] = unpaired(value);
    else if (value === "" || value === undefined) delete spec[name];
    else spec[name] = value;
  }
  return spec;
}

/** Changes a job, or adds one; an edit of somebody else meanwhile is refused. */
export async function editJob(job, reload) {
  const { executors } = await ask("executors").catch(() => ({ executors: [{ name: "shell" }, { name: "http" }] }));
  const spec = job?.spec ?? NEW;
  const done = await order({ title: job ? `Change «${spec.name}»` : "A new job", verb: "Save", fields: fieldsOf(spec, executors.map((one) => one.name), !job), perform: (given) => {
    const body = specOf(spec, given);
    return ask("putJob", { at: { name: body.name }, query: { revision: job ? job.revision : 0 }, body });
  } });
  if (!done) return;
  say(`«${done.spec.name}» is saved.`);
  if (!job) location.hash = `#/job/${encodeURIComponent(done.spec.name)}`;
  reload();
}
