// Flows, one row each: the newest version, what its last runs became, its schedules, how often it fails.

import { useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { Strip } from "./charts.js";
import { say } from "./dialogs.js";
import { between, number, percent, plain, span } from "./format.js";
import { start } from "./flow-start.js";
import { endedOf, flowLabels, useEnded } from "./recent.js";
import { useAsk, useResource } from "./resource.js";
import { Ago, Head, html, Loaded, Notice, reason, Search, stateOf, Table, useTitle } from "./ui.js";

/** How many flows are listed at first, and more each time. */
const FLOWS = 100;
/** How many of the last runs a strip shows. */
const STRIP = 20;

export const flowAddress = (flow) => `#/flow/${[flow.namespace, flow.name, flow.version].map(encodeURIComponent).join("/")}`;

/** Versions by their numbers, not by their letters. */
function newer(one, other) {
  return one.version.localeCompare(other.version, "en", { numeric: true });
}

/** The versions of each flow, the newest last. */
function grouped(flows) {
  const groups = new Map();
  for (const flow of flows) {
    const key = `${flow.namespace}/${flow.name}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(flow);
  }
  return [...groups].map(([key, versions]) => ({ key, versions: versions.sort(newer) })).sort((one, other) => one.key.localeCompare(other.key));
}

/** The last runs of a flow as a strip: as high as they took long. */
export function LastRuns({ flow }) {
  const found = useResource(`strip ${flowLabels(flow)}`, (signal) => ask("plans", { query: { labels: flowLabels(flow), limit: STRIP }, signal }), { every: 20000 });
  const runs = found.data?.plans ?? [];
  const took = (run) => (run.started_at && run.ended_at ? Date.parse(run.ended_at) - Date.parse(run.started_at) : 0);
  const most = Math.max(...runs.map(took), 1);
  const bars = [...runs].reverse().map((run) => ({ state: stateOf(run), href: `#/run/${run.id}`, share: Math.sqrt(took(run) / most),
    title: `${stateOf(run)}, ${between(run.started_at, run.ended_at)}${run.error ? `: ${plain(run.error)}` : ""}` }));
  return html`<${Strip} of=${bars} label=${`The last ${runs.length} runs of ${flow.name}`} />`;
}

function schedulesOf(schedules, { key }) {
  return schedules.filter(({ action, input }) => action === "flow" && String(input?.flow ?? "").startsWith(`${key}:`));
}

/** Its form needs the schema of its input, which the list does not have. */
function startNewest(flow) {
  ask("flow", { at: flow }).then(start).catch((error) => say(reason(error), true));
}

function Row({ group, schedules, lately }) {
  const newest = group.versions.at(-1);
  const { ended, failed, p50_ms: took } = endedOf(lately, newest);
  return html`<tr><td class="name"><a href=${flowAddress(newest)} data-item>${newest.name}</a> <span class="quiet">${newest.namespace}</span></td>
    <td>${newest.version}${group.versions.length > 1 && html`<span class="quiet"> of ${group.versions.length}</span>`}</td>
    <td><${LastRuns} flow=${newest} /></td>
    <td class="right"><a href=${`#/runs?labels=${encodeURIComponent(flowLabels(newest))}`} aria-label=${`Runs of ${newest.name}`}>${number(ended)}</a></td><td class="right">${ended ? html`<span class=${failed ? "error-line" : ""}>${percent(failed, ended)}</span>` : "–"}</td>
    <td class="right">${took === null ? "–" : span(took)}</td>
    <td>${schedulesOf(schedules, group).map((schedule) => html`<a key=${schedule.name} href=${`#/schedules/${encodeURIComponent(schedule.name)}`}>${schedule.name}</a>${" "}${schedule.paused ? "paused" : html`<${Ago} at=${schedule.next} />`} `)}</td>
    <td class="acts"><span class="buttons"><button data-change aria-label=${`Start ${newest.name}`} onClick=${() => startNewest(newest)}>Start…</button></span></td></tr>`;
}

export function Flows() {
  useTitle("Flows");
  const [text, setText] = useState("");
  const [most, setMost] = useState(FLOWS);
  const found = useResource("flows", async (signal) => {
    const [flows, schedules] = await Promise.all([
      // A program that embeds a world may run none.
      ask("flows", { signal }).catch((error) => { if (error.status === 404) return null; throw error; }),
      ask("schedules", { query: { limit: 1000 }, signal }),
    ]);
    return { flows, schedules: schedules.schedules };
  }, { every: 10000 });
  const lately = useEnded(24, 1);
  return html`<${Head} title="Flows"><a data-change class="button main" href="#/add-flow">Add a flow…</a><//>
    <${Loaded} of=${found}>${({ flows, schedules }) => {
    if (!flows) return html`<${Notice} title="This server runs no flows" text="Its runs begin with the actions of the program that serves."><p><a href="#/system/actions">Actions</a></p><//>`;
    if (flows.flows.length === 0) return html`<${Notice} title="There is no flow" text="Add one here, with POST api/v1/flows, or run one from a shell: turnwheel run FILE." />`;
    const groups = grouped(flows.flows).filter(({ key }) => key.toLowerCase().includes(text.toLowerCase()));
    return html`<div class="filters"><${Search} onText=${setText} value=${text} label="Search flows" placeholder="Name of a flow" pause=${50} /></div>
      ${groups.length === 0 ? html`<p class="quiet">No flow fits.</p>` : html`<${Table} caption="Flows"
        columns=${[["Flow"], ["Version"], ["Last runs"], ["Ended in a day", "right"], ["Failed", "right"], ["Median", "right"], ["Schedule"], [""]]}>
        ${groups.slice(0, most).map((group) => html`<${Row} key=${group.key} group=${group} schedules=${schedules} lately=${lately.data} />`)}<//>`}
      ${groups.length > most && html`<button onClick=${() => setMost(most + FLOWS)}>More</button>`}
      ${flows.unheard_events > 0 && html`<p class="quiet">Events that nobody waited for since the world began: ${number(flows.unheard_events)}.</p>`}
      ${flows.unclear_filters > 0 && html`<p class="quiet">Event filters that could not be evaluated: ${number(flows.unclear_filters)} times. The history of the run that listens says why.</p>`}`;
  }}<//>`;
}


export const useVersions = (of) => useAsk("flows", {}, { every: 60000 }).data?.flows.filter((flow) => flow.namespace === of.namespace && flow.name === of.name).sort(newer).reverse() ?? [];
