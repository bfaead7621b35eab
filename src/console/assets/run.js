// One run: drawn on its flow, its times, its steps, what happened, its data; what can be done with it.

import { useMemo, useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { flowLabels } from "./recent.js";
import { FlowGraph } from "./flow-graph.js";
import { between, count, number, plain, taskName, taskPath, words } from "./format.js";
import { give, relabel, rerun, rerunsOf } from "./run-orders.js";
import { byTask, flowOf, focusOf, inputOf, isFlow, noteOf, outputOf, taskInput } from "./run-state.js";
import { useAsk, useResource } from "./resource.js";
import { StepGraph } from "./step-graph.js";
import { Steps } from "./steps.js";
import { Task } from "./task.js";
import { History, Timeline } from "./timeline.js";
import { Ago, Badge, Clock, Facts, html, Json, Loaded, nameOf, RunLink, runAddress, stateOf, Tabs, useTitle } from "./ui.js";

const TABS = ["graph", "timeline", "steps", "history", "data"];
/** Steps of a plan beyond which its tree is shown by pages. */
const TREE = 5000;
/** Orders that take something away are not the first choice. */
const HARD = new Set(["cancel", "cancel_now", "terminate", "fail", "revert"]);

function sum(counts) {
  return Object.values(counts).reduce((all, some) => all + some, 0);
}

function total(run) {
  return sum(run.steps);
}

function Crumbs({ run }) {
  const flow = flowOf(run);
  const { labels } = run;
  return html`<p class="crumbs"><a href="#/runs">Runs</a>
    ${flow && html` › <a href=${`#/flow/${[flow.namespace, flow.name, flow.version].map(encodeURIComponent).join("/")}`}>${flow.namespace}/${flow.name} ${flow.version}</a> · <a href=${`#/runs?labels=${encodeURIComponent(flowLabels(flow))}`}>its runs</a>`}
    ${labels.schedule && html` · schedule <a href=${`#/schedules/${encodeURIComponent(labels.schedule)}`}>${labels.schedule}</a>`}
    ${labels.job && html` · job <a href=${`#/job/${encodeURIComponent(labels.job)}`}>${labels.job}</a>`}
    ${run.caller && html` · parent <${RunLink} id=${run.caller.plan} /> step ${run.caller.step}`}
    ${labels["retry.of"] && html` · retry of <${RunLink} id=${labels["retry.of"]} />`}
    ${labels["again.of"] && html` · run again of <${RunLink} id=${labels["again.of"]} />`}
    ${run.sub_plans.length > 0 && html` · <a href=${`#/runs?caller=${encodeURIComponent(run.id)}`}>${count(run.sub_plans.length, "child run")}</a>`}</p>`;
}

function Reasons({ run }) {
  // The outcome of a flow names the task that it ended at; other errors may have been caught.
  const error = run.result === "error" && isFlow(run) && run.outcome ? run.outcome : run.error ?? (run.result === "error" ? run.outcome : null);
  return html`${run.waits_for && html`<p class="why"><b>It waits: </b>${plain(run.waits_for)}${run.wakes_at && html` · goes on <${Ago} at=${run.wakes_at} />`}</p>`}
    ${error && html`<p class="why error"><b>It failed: </b>${plain(error)}</p>`}
    ${run.planning_error && html`<p class="why error"><b>Planning failed: </b>${run.planning_error.message}</p>`}
    ${run.cancel && html`<p class="why">${run.cancel.by} has asked for its end <${Ago} at=${run.cancel.at} />${run.cancel.is_forced && ", not waiting for code that runs"}</p>`}
    ${run.is_reverting && html`<p class="why">What was done is being taken back.</p>`}`;
}

/** The runs that were begun in place of a run that is over; nothing until they are known. */
function useInPlaceOf(run, label) {
  const query = { labels: `${label}=${run.id}`, limit: 20 };
  const found = useAsk("plans", { query, isOff: run.state !== "stopped" }, { every: 5000 });
  return found.data?.plans ?? (found.error ? [] : null);
}

function RunHead({ run, reload }) {
  const retries = useInPlaceOf(run, "retry.of");
  const agains = useInPlaceOf(run, "again.of") ?? [];
  const orders = [...run.possible].sort((one, other) => HARD.has(one) - HARD.has(other));
  const labels = Object.entries(run.labels).filter(([name]) => !/^(flow|retry|again)\./.test(name));
  const after = Object.entries(run.delayed?.after ?? {});
  const counted = isFlow(run) ? run.tasks : run.steps;
  return html`<${Crumbs} run=${run} />
    <div class="head"><h1>${nameOf(run)} <${Badge} of=${stateOf(run)} /></h1>
      <span class="buttons">${rerunsOf(run, retries?.length !== 0).map((kind) => html`<button data-change key=${kind} class="main" onClick=${() => rerun(kind, run)}>${rerun.titles[kind]}…</button>`)}
        ${orders.map((name) => html`<button data-change key=${name} class=${HARD.has(name) ? "hard" : "main"} onClick=${() => give(name, run, reload)}>${words(name)}</button>`)}
        <button data-change onClick=${() => relabel(run, reload)}>Labels…</button></span></div>
    <${Reasons} run=${run} />
    ${retries?.length > 0 && html`<p class="why">It was retried: ${retries.map((one) => html`<span key=${one.id}><${RunLink} id=${one.id} /> <${Badge} of=${stateOf(one)} /> </span>`)}</p>`}
    <${Facts} of=${[
      ["Created", html`<${Clock} at=${run.created_at} /> by ${run.by}`], ["Took", between(run.started_at, run.ended_at)],
      ["Ended", run.ended_at && html`<${Ago} at=${run.ended_at} />`], ["Outcome", !run.error && run.result !== "error" && plain(run.outcome)],
      [isFlow(run) ? "Tasks" : "Steps", sum(counted) > 0 && html`${number(sum(counted))} · ${Object.entries(counted).map(([name, some]) => html`<span key=${name}><${Badge} of=${name} /> ${number(some)} </span>`)}`],
      ["Deadline", run.deadline && html`<${Ago} at=${run.deadline} />`], ["Key", run.key], ["Priority", run.priority || null], ["Locks", run.locks.join(", ")],
      ["Labels", labels.length > 0 && labels.map(([name, value]) => html`<a key=${name} class="label" href=${`#/runs?labels=${encodeURIComponent(`${name}=${value}`)}`}>${value ? `${name}=${value}` : name}</a>`)],
      ["Not before", run.delayed?.start_at && html`<${Clock} at=${run.delayed.start_at} />`], ["Not after", run.delayed?.start_before && html`<${Clock} at=${run.delayed.start_before} />`],
      ["Held", run.delayed?.is_frozen && "until somebody gives it a time"],
      ["After", after.length > 0 && after.slice(0, 20).map(([other, result]) => html`<span key=${other}><${RunLink} id=${other} /> ${result ? html`<${Badge} of=${result} />` : "not over"} </span>`)],
      ["Timers", run.timers.length > 0 && run.timers.slice(0, 5).map((timer) => html`<span key=${timer.step}>step ${timer.step} <${Ago} at=${timer.due} /> </span>`)],
      ["Run again as", agains.length > 0 && agains.map((one) => html`<span key=${one.id}><${RunLink} id=${one.id} /> <${Badge} of=${stateOf(one)} /> </span>`)],
      ["Id", html`<code>${run.id}</code>`],
    ]} />`;
}

/** The definition of a run's flow; nothing if it is known no more. */
function useDefinition(run) {
  const flow = flowOf(run);
  const key = flow ? `definition ${JSON.stringify(flow)}` : null;
  return useResource(key, (signal) => ask("flow", { at: flow, signal }).catch((error) => {
    if (error.status === 404) return { source: null };
    throw error;
  }), { every: 600000 });
}

/** The run drawn on its flow, with the chosen task beside it. */
function FlowPart({ run, source, chosen, choose }) {
  const isOver = run.state === "stopped";
  const tree = useAsk("tree", { at: { plan: run.id }, query: { limit: TREE } }, { live: isOver ? null : run.id, isIdle: isOver });
  const tasks = useMemo(() => byTask(tree.data, run), [tree.data, run]);
  const focus = focusOf(tasks);
  const id = chosen ?? focus?.step?.id ?? null;
  const overlay = (path) => {
    const task = tasks.get(path);
    if (!task) return { state: "not_run", note: "" };
    const isChosen = chosen === null ? path === focus?.path : task.steps.some((step) => step.id === chosen) || task.step?.id === chosen;
    return { state: task.state, note: noteOf(task), isChosen, open: task.step && (() => choose(task.step.id)) };
  };
  const of = [...tasks.values()].find((task) => task.steps.some((step) => step.id === id));
  return html`<${Loaded} of=${tree}>${() => html`<div class="split">
    <div class="picture" ref=${(place) => see(place, focus?.path)}><${FlowGraph} source=${source} overlay=${overlay} label="The run on its flow" /></div>
    ${id === null ? html`<aside class="panel"><h3>Input</h3><${Json} of=${inputOf(run)} label="Input" />${isOver && html`<h3>Output</h3><${Json} of=${outputOf(run)} label="Output" />`}
        <p class="quiet">A task that is chosen shows its own input, output and attempts.</p></aside>`
      : html`<${Task} key=${id} run=${run} id=${id} name=${of?.path ?? (id === focus?.step?.id ? focus.path : undefined)} steps=${of?.steps ?? []} choose=${choose} />`}</div>`}<//>`;
}

/** Brings the task that matters into view, once. */
function see(place, path) {
  if (!place || !path || place.dataset.seen === path) return;
  place.dataset.seen = path;
  const box = place.querySelector("[aria-current]")?.getBoundingClientRect();
  if (!box) return;
  const own = place.getBoundingClientRect();
  place.scrollTo(box.left - own.left - own.width / 2 + box.width / 2, box.top - own.top - own.height / 2 + box.height / 2);
}

/** What the task got at which a retry went on: the run itself has the input of the one before. */
function WentOnWith({ run }) {
  const tree = useAsk("tree", { at: { plan: run.id }, query: { limit: 20 } }, { every: 60000 });
  const nodes = tree.data?.nodes ?? [];
  let at = nodes.findIndex((node) => taskPath(node.name) !== null);
  // It went on inside of the tasks around it.
  while (at >= 0 && nodes[at + 1]?.depth > nodes[at].depth) at += 1;
  const id = nodes[at]?.steps.find((step) => step.phase === "run")?.id;
  const step = useAsk("step", { at: { plan: run.id, step: id }, isOff: id === undefined }, { every: 60000 });
  return step.data && html`<section><h2>Input of «${taskName(nodes[at].name)}», where the retry went on</h2><${Json} of=${taskInput(step.data)} label="Input where it went on" /></section>`;
}

function Data({ run }) {
  return html`<div class="columns">${run.labels["retry.of"] && html`<${WentOnWith} run=${run} />`}<section><h2>Input</h2><${Json} of=${inputOf(run)} label="Input" /></section>
    <section><h2>Output</h2><${Json} of=${outputOf(run)} label="Output" /></section></div>`;
}

function Part({ tab, run, chosen, choose }) {
  const definition = useDefinition(run);
  if (tab === "data") return html`<${Data} run=${run} />`;
  if (tab === "timeline") return html`<${Timeline} run=${run} chosen=${chosen} choose=${choose} />`;
  if (tab === "steps") return html`<${Steps} run=${run} chosen=${chosen} choose=${choose} />`;
  if (tab === "history") return html`<${History} run=${run} choose=${choose} />`;
  if (isFlow(run) && definition.data === null && !definition.error) return html`<p class="quiet">Loading…</p>`;
  if (definition.data?.source && total(run) <= TREE) return html`<${FlowPart} run=${run} source=${definition.data.source} chosen=${chosen} choose=${choose} />`;
  return html`<${StepGraph} run=${run} chosen=${chosen} choose=${choose} />`;
}

export function Run({ rest }) {
  const [id, part, step] = rest;
  useTitle(`Run ${id.slice(-12)}`);
  const found = useAsk("plan", { at: { plan: id } }, { live: id });
  const [own, setOwn] = useState(null);
  const chosen = step ? Number(step) : own;
  return html`<${Loaded} of=${found}>${(run) => {
    const tab = TABS.includes(part) ? part : isFlow(run) || total(run) <= 3 ? (isFlow(run) ? "graph" : "steps") : "graph";
    const choose = (other) => { setOwn(other); if (step) location.hash = runAddress(id, tab); };
    return html`<${RunHead} run=${run} reload=${found.reload} />
      <${Tabs} label="Parts of the run" now=${tab === "steps" && isFlow(run) ? "tasks" : tab} of=${TABS.map((name) => [name === "steps" && isFlow(run) ? "tasks" : name, runAddress(id, name)])} />
      <${Part} key=${tab} tab=${tab} run=${run} chosen=${chosen} choose=${choose} />`;
  }}<//>`;
}
