// Jobs: one row each, with the next fire, the last result and the last durations; what runs now, what was missed.

import { useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { Sparkline, Strip } from "./charts.js";
import { between, count, local, number } from "./format.js";
import { editJob } from "./job-form.js";
import { useAsk, useResource } from "./resource.js";
import { Ago, Badge, Clock, Head, html, Loaded, Notice, reason, Search, Table, useTitle } from "./ui.js";

const STRIP = 20;
/** How many jobs are listed at first, and more each time. */
const JOBS = 100;

export const jobAddress = (name, part) => `#/job/${encodeURIComponent(name)}${part ? `/${part}` : ""}`;

/** How long the launch took, in milliseconds; nothing if it did not run. */
export function tookOf(launch) {
  const began = launch.runs.map((run) => run.started_at).filter(Boolean).sort()[0];
  return began && launch.ended_at ? Date.parse(launch.ended_at) - Date.parse(began) : NaN;
}

/** Why a launch was planned, in words. */
export function causeOf({ cause }) {
  if (cause?.manual) return `by ${cause.manual}`;
  if (cause?.after) return `after ${cause.after.job}`;
  return cause === "catch_up" ? "made up for" : "schedule";
}

/** The last launches of a job: results and durations. */
function Lately({ name }) {
  const found = useAsk("jobHistory", { at: { name }, query: { limit: STRIP } }, { every: 15000 });
  const launches = [...(found.data?.launches ?? [])].reverse();
  const bars = launches.map((launch) => ({ state: launch.state, href: jobAddress(name, String(launch.id)), title: `${local(launch.planned)}: ${launch.state}${launch.reason ? `, ${launch.reason}` : ""}` }));
  return html`<span class="pair"><${Strip} of=${bars} label=${`The last launches of ${name}`} />
    <${Sparkline} values=${launches.map(tookOf)} width=${80} height=${20} label=${`Durations of the last launches of ${name}`} /></span>`;
}

function Row({ job }) {
  const { spec, last } = job;
  const running = job.active.filter((launch) => launch.state === "running").length;
  return html`<tr><td class="name"><a href=${jobAddress(spec.name)} data-item>${spec.display_name || spec.name}</a>${spec.display_name && html` <span class="quiet">${spec.name}</span>`}${job.problem && html`<div class="error">${job.problem}</div>`}</td>
    <td><code>${spec.schedule || (spec.after.length ? `after ${spec.after.map((one) => one.job).join(", ")}` : "")}</code> <span class="quiet">${spec.timezone}</span></td>
    <td>${spec.disabled ? html`<${Badge} of="disabled" />` : job.next ? html`<${Ago} at=${job.next} />` : html`<span class="quiet">–</span>`}</td>
    <td>${running > 0 && html`<${Badge} of="running" /> `}${last && html`<${Badge} of=${last.state} title=${last.reason} /> <${Ago} at=${last.ended_at ?? last.decided} />`}</td>
    <td><${Lately} name=${spec.name} /></td><td class="right">${number(job.success)}</td><td class="right">${job.error ? html`<span class="error-line">${number(job.error)}</span>` : "0"}</td><td class="right">${number(job.missed)}</td></tr>`;
}

function Active({ jobs }) {
  const active = jobs.flatMap((job) => job.active.map((launch) => ({ job, launch })));
  return html`<section><h2>What runs now</h2>${active.length === 0 ? html`<p class="quiet">No job runs or waits.</p>` : html`<ul class="rows">${active.slice(0, 30).map(({ job, launch }) => html`<li key=${`${job.spec.name} ${launch.id}`}>
    <a href=${jobAddress(job.spec.name, String(launch.id))} data-item><${Badge} of=${launch.state} /><span class="grow">${job.spec.name}</span><span class="quiet">${launch.runs.map((run) => run.node).filter(Boolean).join(", ")}</span>
      <span>${between(launch.runs.map((run) => run.started_at).filter(Boolean).sort()[0])}</span></a></li>`)}</ul>`}</section>`;
}

function Missed({ jobs }) {
  const missed = jobs.filter((job) => job.missed > 0).sort((one, other) => other.missed - one.missed);
  return html`<section><h2>What was missed</h2>${missed.length === 0 ? html`<p class="quiet">No planned time was missed.</p>` : html`<ul class="rows">${missed.slice(0, 10).map((job) => html`<li key=${job.spec.name}>
    <a href=${jobAddress(job.spec.name)} data-item><b class="right">${number(job.missed)}</b><span class="grow">${job.spec.name}</span></a>
    ${job.last?.state === "missed" && html`<p class="quiet">the last at <${Clock} at=${job.last.planned} />: ${job.last.reason}</p>`}</li>`)}</ul>`}</section>`;
}

const SHOWS = { all: () => true, failing: (job) => ["failed", "error"].includes(job.last?.state) || job.status === "failed", running: (job) => job.active.length > 0, disabled: (job) => job.spec.disabled, missed: (job) => job.missed > 0 };

export function Jobs({ query }) {
  useTitle("Jobs");
  const [text, setText] = useState(query.get("text") ?? "");
  const [most, setMost] = useState(JOBS);
  const show = SHOWS[query.get("show")] ? query.get("show") : "all";
  const found = useResource("jobs", (signal) => ask("jobs", { signal }), { live: "all" });
  if (found.error?.status === 404) return html`<${Notice} title="This server runs no jobs" text=${reason(found.error)} />`;
  return html`<${Head} title="Jobs"><button data-change class="main" onClick=${() => editJob(null, found.reload)}>Add a job…</button><//><${Loaded} of=${found}>${({ jobs }) => {
    if (jobs.length === 0) return html`<${Notice} title="There is no job" text="Add one here, or from a shell: turnwheel job apply FILE." />`;
    const said = (job) => [job.spec.name, job.spec.display_name, job.spec.owner, job.spec.executor, ...Object.entries(job.spec.metadata).map(([name, value]) => `${name}=${value}`)].join(" ").toLowerCase();
    const fit = jobs.filter((job) => SHOWS[show](job) && said(job).includes(text.toLowerCase())).sort((one, other) => one.spec.name.localeCompare(other.spec.name));
    return html`<nav class="chips" aria-label="Ready filters">${Object.keys(SHOWS).map((name) => html`<a key=${name} class="chip" href=${name === "all" ? "#/jobs" : `#/jobs?show=${name}`} aria-current=${name === show ? "true" : null}>${name} ${number(jobs.filter(SHOWS[name]).length)}</a>`)}</nav>
      <div class="filters"><${Search} value=${text} onText=${setText} label="Search jobs" placeholder="Name, owner, name=value" pause=${50} /></div>
      ${fit.length === 0 ? html`<p class="quiet">No job fits.</p>` : html`<${Table} caption="Jobs" columns=${[["Job"], ["Schedule"], ["Next"], ["Last"], ["Lately"], ["Success", "right"], ["Failed", "right"], ["Missed", "right"]]}>
        ${fit.slice(0, most).map((job) => html`<${Row} key=${job.spec.name} job=${job} />`)}<//>`}
      ${fit.length > most && html`<button onClick=${() => setMost(most + JOBS)}>More of ${count(fit.length, "job")}</button>`}
      <div class="columns"><${Active} jobs=${jobs} /><${Missed} jobs=${jobs} /></div>`;
  }}<//>`;
}
