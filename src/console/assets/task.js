// One step with all there is: input, output, error, attempts, its last sign of life, what can be done with it.

import { ask } from "./api.js";
import { order, say } from "./dialogs.js";
import { between, plain, plainIn, span, taskName, words } from "./format.js";
import { useAsk } from "./resource.js";
import { BAD, isFlow, isOfFlow, taskInput } from "./run-state.js";
import { Ago, Badge, Clock, Facts, html, Json, Loaded } from "./ui.js";

const WAYS = {
  skip: ["Skip it?", "It is left out when the run is resumed."],
  retry: ["Begin it anew?", "It and all steps that come after it are put back to their begin; resume the run then."],
  send_event: ["Send an event", "The step gets it when it waits for one.", "Data, as JSON"],
  edit_input: ["Change the input", "The input of its action; resume the run then.", "Input, as JSON"],
};

async function act(can, step, run, reload) {
  const [title, text, label] = WAYS[can] ?? [`${words(can)}?`, "The step is given this order."];
  const at = { plan: run.id, step: step.id };
  const fields = label ? [{ name: "json", label, kind: "json", value: JSON.stringify(can === "edit_input" ? step.input : null, null, 2) }] : [];
  const done = await order({ title, text, verb: words(can), fields, perform: async ({ json = null }) => {
    if (can === "send_event") await ask("event", { at, body: { event: json } });
    else if (can === "edit_input") await ask("order", { at, body: { order: "edit_input", action: step.action, input: json } });
    else await ask("order", { at, body: { order: can, step: step.id } });
    return true;
  } });
  if (done) say(`${words(can)}: done.`);
  reload();
}

function Failed({ title, of, name }) {
  if (!of) return null;
  return html`<h3>${title}</h3><p class="error">${plainIn(of.message, name)}</p>
    <p class="quiet">Kind: ${of.kind}${of.is_final ? "; trying again cannot help" : ""}</p>`;
}

/** Why a call was made, for people. */
export const cause = ({ why, attempt }) => (why !== "its turn" ? words(why) : attempt > 1 ? "another attempt" : "its first call");

/** Each attempt with what became of it. */
function Attempts({ run, step, name }) {
  const calls = useAsk("calls", { at: { plan: run.id }, query: { step: step.id, limit: 50, order: "newest" } }, { live: run.state === "stopped" ? null : run.id, isIdle: run.state === "stopped" });
  return html`<h3>Attempts</h3><${Loaded} of=${calls}>${({ calls: found, total }) => {
    // A flow is called for each of its tasks: what failed of it is the attempt.
    const all = found.filter((call) => !(isFlow(run) && isOfFlow(step)) || BAD.has(call.state));
    return all.length === 0 ? html`<p class="quiet">Its code was not called yet.</p>`
    : html`<ul class="rows">${all.map((call) => html`<li key=${call.call}><${Badge} of=${call.state} /> attempt ${call.attempt}, ${cause(call)}${call.is_revert && " (compensation)"} · <${Clock} at=${call.began} /> · ${call.state === "running" ? "under way" : span(call.ran_ms)}
        ${call.error && call.error.message !== step.error?.message && html`<div class="error">${plainIn(call.error.message, name)}</div>`}</li>`)}</ul>${total > found.length && html`<p class="quiet">${total - found.length} older calls are in the history.</p>`}`;
  }}<//>`;
}

/** The panel of a step of a run. `steps` are those of the same task, for loops; `name` is the task, if the step is that of its flow. */
export function Task({ run, id, name, steps = [], choose }) {
  const isOver = run.state === "stopped";
  const found = useAsk("step", { at: { plan: run.id, step: id } }, { live: isOver ? null : run.id, isIdle: isOver });
  const at = steps.findIndex((step) => step.id === id);
  return html`<aside class="panel" aria-label="The chosen step"><${Loaded} of=${found}>${(step) => {
    const called = taskName(name ?? step.name);
    return html`
    <div class="head"><h2 title=${step.name}>${called}</h2><${Badge} of=${step.state} /></div>
    ${steps.length > 1 && html`<p class="buttons"><span class="quiet">Run ${at + 1} of ${steps.length}</span>
      <button disabled=${at <= 0} onClick=${() => choose(steps[at - 1].id)}>Before</button><button disabled=${at >= steps.length - 1} onClick=${() => choose(steps[at + 1].id)}>After</button></p>`}
    ${step.waits_for && html`<p class="why"><b>It waits: </b>${plain(step.waits_for)}</p>`}
    ${step.is_queued && html`<p class="why">It waits for a place in the queue «${step.queue}».</p>`}
    ${step.possible.length > 0 && html`<p class="buttons">${step.possible.map((can) => html`<button data-change key=${can} class=${can === "send_event" && !step.waits_for ? "" : "main"} onClick=${() => act(can, step, run, found.reload)}>${words(can)}…</button>`)}</p>`}
    <${Failed} title="Error" of=${step.error} name=${called} /><${Failed} title="Error of its compensation" of=${step.revert_error} name=${called} />
    ${step.beat && html`<h3>Live output</h3><pre class="live" tabindex="0" aria-live="polite">${typeof step.beat === "string" ? step.beat : JSON.stringify(step.beat, null, 2)}</pre>`}
    <h3>Input</h3><${Json} of=${taskInput(step)} label="Input" />
    ${step.phase !== "plan" && html`<h3>Output</h3><${Json} of=${step.output} label="Output" />`}
    <${Attempts} run=${run} step=${step} name=${called} />
    <${Facts} of=${[["Step", !isFlow(run) && step.id], ["Phase", !isFlow(run) && step.phase], ["Outcome", !step.error && plain(step.outcome ?? (step.shown !== step.state ? step.shown : ""))],
      ["Began", step.started_at && html`<${Clock} at=${step.started_at} />`], ["Ended", step.ended_at && html`<${Clock} at=${step.ended_at} />`],
      ["Took", step.started_at && between(step.started_at, step.ended_at)], ["Its code ran", step.ran_ms ? span(step.ran_ms) : null],
      ["Next attempt", step.retry_at && html`<${Ago} at=${step.retry_at} />`], ["Has to be done", step.limit && html`<${Ago} at=${step.limit} />`],
      ["Progress", step.progress > 0 && step.progress < 1 ? `${Math.round(step.progress * 100)} %` : null], ["Queue", step.queue],
      ["Waiting events", step.waiting_events || null], ["Sign of life", step.beat_at && html`<${Ago} at=${step.beat_at} />`]]} />`;
  }}<//></aside>`;
}
