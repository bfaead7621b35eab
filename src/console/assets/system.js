// The world of this server: queues, locks, retention, actions; its workers and entities.

import { ask } from "./api.js";
import { order } from "./dialogs.js";
import { bytes, number, rate, span } from "./format.js";
import { Entities } from "./entities.js";
import { useAsk, useFigures } from "./resource.js";
import { Runtime } from "./runtime.js";
import { Ago, Clock, Facts, Head, html, Loaded, Notice, RunLink, Table, Tabs, useTitle } from "./ui.js";

const TABS = ["world", "actions", "runtime", "entities"];

/** Processes before this one that were killed, or lost their power. */
function Incidents({ of }) {
  if (of.length === 0) return html`<p class="quiet">None is known: each process before this one has closed its store.</p>`;
  return html`<${Table} caption="Processes that have ended without closing" columns=${[["Found"], ["Process"], ["Had begun"], ["Runs that went on", "right"], ["Runs that were paused", "right"]]}>
    ${of.map((one) => html`<tr key=${one.found_at} title=${one.text}><td><${Clock} at=${one.found_at} /> <${Ago} at=${one.found_at} /></td><td>${one.process} on ${one.host} <span class="quiet">${one.name}</span></td>
      <td><${Clock} at=${one.since} /></td><td class="right">${number(one.continued)}</td><td class="right">${number(one.paused)}</td></tr>`)}<//>`;
}

/** How runs that are over are removed. */
function Retention({ of }) {
  if (!of) return html`<p class="quiet">Runs that are over stay until somebody removes them: no retention is set.</p>`;
  return html`${of.problem && html`<p class="why error"><b>The last time something went wrong: </b>${of.problem}</p>`}
    <${Facts} of=${[["Removed when over for", span(of.age_ms)], ["Written down before in", of.export ?? "nothing: they are only removed"], ["Looked for every", span(of.every_ms)],
      ["Last looked", of.last_at ? html`<${Ago} at=${of.last_at} />` : "not yet"], ["Removed since the world began", number(of.removed)],
      ["Kept, because they could not be written", of.kept ? html`<b class="error">${number(of.kept)}</b>` : "0"]]} />`;
}

function spread(of) {
  return of?.count ? `half ${span(of.p50 / 1000)}, 99 of 100 ${span(of.p99 / 1000)}, longest ${span(of.max / 1000)}` : "none yet";
}

function World() {
  const all = useFigures();
  const about = useAsk("world", {}, { every: 10000 });
  const locks = useAsk("locks", {}, { live: "all" });
  return html`<${Loaded} of=${about}>${(world) => html`<${Facts} of=${[["Version", world.version], ["Store", world.store], ["Process", `${world.process} on ${world.host}`], ["World began", html`<${Ago} at=${world.started_at} />`]]} />
      <div class="columns"><section><h2>Ends without closing</h2><${Incidents} of=${world.incidents} /></section><section><h2>Retention</h2><${Retention} of=${world.retention} /></section></div>`}<//>
    <${Loaded} of=${all}>${({ queues, journal }) => html`<div class="columns"><section><h2>Queues</h2><p class="quiet">Steps run their code in queues; a full one lets the others wait.</p>
      <${Table} caption="Queues" columns=${[["Queue"], ["Places", "right"], ["Running", "right"], ["Waiting", "right"], ["Load", "grow"]]}>${queues.map((queue) => html`<tr key=${queue.name}><td>${queue.name}</td><td class="right">${number(queue.size)}</td>
        <td class="right">${number(queue.running)}</td><td class="right">${number(queue.waiting)}</td><td class="grow"><meter min="0" max=${Math.max(1, queue.size)} value=${queue.running} aria-label=${`Load of ${queue.name}`}></meter></td></tr>`)}<//></section>
      <section><h2>Journal</h2><${Facts} of=${[["Commits", number(journal.commits)], ["Failed commits", journal.commits_failed ? html`<b class="error">${number(journal.commits_failed)}</b>` : "0"], ["A commit takes", spread(journal.commit_us)],
        ["Entries", number(journal.entries)], ["Bytes", bytes(journal.bytes)], ["Entries that wait for a commit", number(journal.entries_waiting)], ["Rows that are behind", number(journal.rows_behind)],
        ["Steps a second", rate(journal.steps_per_s)], ["Runs a second", rate(journal.plans_per_s)]]} /></section></div>`}<//>
    <h2>Locks</h2><${Loaded} of=${locks}>${({ locks: some }) => some.length === 0 ? html`<p class="quiet">No run has a lock or waits for one.</p>`
      : html`<${Table} caption="Locks" columns=${[["Lock"], ["Run that has it"], ["Runs that wait", "grow"]]}>${some.slice(0, 500).map((lock) => html`<tr key=${lock.name}><td>${lock.name}</td><td>${lock.holder && html`<${RunLink} id=${lock.holder} />`}</td>
        <td class="grow">${lock.waiting.slice(0, 10).map((id) => html`<${RunLink} key=${id} id=${id} /> `)}${lock.waiting.length > 10 && `and ${number(lock.waiting.length - 10)} more`}</td></tr>`)}<//>`}<//>`;
}

async function begin(action) {
  const fields = [{ name: "input", label: "Input, as JSON", kind: "json", value: "null" }, { name: "label", label: "A label, if you want", placeholder: "name=value" }];
  const begun = await order({ title: `Begin «${action}»`, text: "The run is durable when the answer comes.", verb: "Begin", fields, perform: ({ input = null, label }) => {
    const body = { action, input };
    const at = label.indexOf("=");
    if (label) body.labels = at < 0 ? { [label]: "" } : { [label.slice(0, at)]: label.slice(at + 1) };
    return ask("start", { body });
  } });
  if (begun) location.hash = `#/run/${begun.id}`;
}

function Actions() {
  const found = useAsk("actions", {}, { every: 60000 });
  return html`<${Loaded} of=${found}>${({ actions }) => actions.length === 0 ? html`<${Notice} title="No action" text="This program has registered none: flows and actions come from the program that serves." />`
    : html`<${Table} caption="Actions" columns=${[["Action", "grow"], ["Version", "right"], [""]]}>${actions.map((action) => html`<tr key=${action.name}><td class="grow">${action.name}</td><td class="right">${action.version}</td>
      <td class="right"><button data-change data-item onClick=${() => begin(action.name)}>Begin a run…</button></td></tr>`)}<//>`}<//>`;
}

export function System({ rest, query }) {
  useTitle("System");
  const tab = TABS.includes(rest[0]) ? rest[0] : "world";
  const part = { world: World, actions: Actions, runtime: Runtime, entities: Entities }[tab];
  return html`<${Head} title="System" /><${Tabs} label="Parts of the system" now=${tab} of=${TABS.map((name) => [name, `#/system/${name}`])} /><${part} query=${query} rest=${rest.slice(1)} />`;
}
