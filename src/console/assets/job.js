// One job: its settings, its history with live output, the jobs around it as a graph, its days.

import { useEffect, useRef, useState } from "./preact-htm.js";
import { ask, stream } from "./api.js";
import { Calendar, Sparkline } from "./charts.js";
import { Dag } from "./dag.js";
import { confirm, order, say } from "./dialogs.js";
import { between, bytes, count, local, now, number, span, words } from "./format.js";
import { editJob } from "./job-form.js";
import { causeOf, jobAddress, tookOf } from "./jobs.js";
import { useAsk } from "./resource.js";
import { zone } from "./settings.js";
import { Ago, Badge, Clock, Facts, html, Json, Loaded, RunLink, Table, useTitle } from "./ui.js";

/** Characters of live output that are shown: the last ones. */
const SHOWN = 60000;
const PAGE = 100;

/** The output of a run, as it is written while it runs. */
function Output({ name, launch, run }) {
  const [text, setText] = useState(null);
  const [problem, setProblem] = useState(null);
  const place = useRef(null);
  const isOver = Boolean(launch.ended_at);
  useEffect(() => {
    const abort = new AbortController();
    const at = { name, launch: launch.id };
    const failed = (error) => { if (!abort.signal.aborted) setProblem(error.detail ?? error.message); };
    if (isOver) {
      ask("jobOutput", { at, query: { run }, signal: abort.signal }).then((found) => setText(`${found.output_truncated ? "…\n" : ""}${found.output}`), failed);
    } else {
      stream("jobLive", { at, query: { run }, signal: abort.signal }, ({ event, data }) => {
        if (event === "output") setText((old) => ((old ?? "") + JSON.parse(data).text).slice(-SHOWN));
      }).catch(failed);
    }
    return () => abort.abort();
  }, [name, launch.id, run, isOver]);
  useEffect(() => { if (place.current) place.current.scrollTop = place.current.scrollHeight; }, [text]);
  return problem ? html`<p class="quiet">${problem}</p>` : html`<pre ref=${place} class="live" tabindex="0" aria-label="Output" aria-live=${isOver ? null : "polite"}>${text === null ? "…" : text || "no output"}</pre>`;
}

function Launch({ job, launch, reload }) {
  const { name } = job.spec;
  const cancel = () => confirm("Cancel it?", "Its runs end; their processes are stopped.", "Cancel", () => ask("cancelLaunch", { at: { name }, body: { launch: launch.id } })).then((done) => { if (done) say("It ends."); reload(); });
  const tell = () => order({ title: "What has become of it?", text: "Nobody knows whether its last run has done its work: look there, and say it.", verb: "Say it",
    fields: [{ name: "outcome", label: "Outcome", kind: "select", required: true, value: "succeeded", options: [["succeeded", "it has done its work"], ["failed", "it has not: the launch has failed"], ["retry", "it has not: try it again"]] }],
    perform: ({ outcome }) => ask("answerLaunch", { at: { name }, body: { launch: launch.id, outcome } }) }).then((done) => { if (done) say("It is noted."); reload(); });
  return html`<aside class="panel" aria-label="The chosen launch"><div class="head"><h2>Launch ${launch.id}</h2><${Badge} of=${launch.state} /></div>
    ${launch.reason && html`<p class="why">${launch.reason}</p>`}
    ${!launch.ended_at && html`<p class="buttons">${launch.state === "unknown" && html`<button data-change class="main" onClick=${tell}>Say what has become of it…</button>`}<button data-change class="hard" onClick=${cancel}>Cancel</button></p>`}
    <${Facts} of=${[["Planned", html`<${Clock} at=${launch.planned} />`], ["Cause", causeOf(launch)], ["Decided", html`<${Clock} at=${launch.decided} />`], ["Ended", launch.ended_at && html`<${Clock} at=${launch.ended_at} />`],
      ["Stands for", launch.times > 1 && `${number(launch.times)} times`], ["Cancelled by", launch.cancelled_by], ["Answered by", launch.answered_by]]} />
    ${launch.runs.map((run, at) => html`<section key=${at}><h3>Run ${at + 1}${run.node && ` on ${run.node}`} <${Badge} of=${run.state} /></h3>
      <p class="quiet">attempt ${run.attempt}${run.started_at && html` · <${Clock} at=${run.started_at} /> · ${between(run.started_at, run.ended_at)}`}${run.output_bytes > 0 && ` · ${bytes(run.output_bytes)}`}${run.plan && html` · <${RunLink} id=${run.plan} />`}</p>
      ${run.reason && html`<p class="error">${run.reason}</p>`}${run.note && html`<p>${run.note}</p>`}
      ${run.started_at && html`<${Output} name=${name} launch=${launch} run=${at + 1} />`}</section>`)}</aside>`;
}

/** The jobs that this one comes after, and those that come after it. */
function Around({ job, jobs }) {
  const { name } = job.spec;
  const by = new Map(jobs.map((one) => [one.spec.name, one]));
  const edges = jobs.flatMap((one) => one.spec.after.map((after) => ({ from: after.job, to: one.spec.name, label: after.on === "success" ? "" : after.on, kind: after.on === "success" ? "" : "other" })));
  const reach = (from, step) => {
    const found = new Set([from]);
    for (const at of found) for (const next of step(at)) found.add(next);
    return found;
  };
  const near = new Set([...reach(name, (at) => edges.filter((edge) => edge.from === at).map((edge) => edge.to)), ...reach(name, (at) => edges.filter((edge) => edge.to === at).map((edge) => edge.from))]);
  if (near.size < 2) return html`<p class="quiet">It runs after no other job, and no job after it.</p>`;
  const nodes = [...near].map((id) => ({ id, title: id, note: by.get(id)?.spec.schedule || "after others", state: by.get(id)?.last?.state, isChosen: id === name, open: () => { location.hash = jobAddress(id); } }));
  return html`<${Dag} nodes=${nodes} edges=${edges.filter((edge) => near.has(edge.from) && near.has(edge.to))} label="Jobs around this one" direction="LR" />`;
}

/** The launches of the last days by day. */
function days(launches) {
  const found = new Map();
  for (const launch of launches) {
    const day = local(launch.planned).slice(0, 10);
    const of = found.get(day) ?? { runs: 0, failed: 0 };
    of.runs += 1;
    if (!["succeeded", "success", "running", "waiting"].includes(launch.state)) of.failed += 1;
    found.set(day, of);
  }
  return found;
}

async function run(job, reload) {
  const done = await order({ title: `Run «${job.spec.name}» now?`, text: "A launch besides its times.", verb: "Run it", fields: [{ name: "force", label: "Though another one is under way", kind: "tick" }],
    perform: ({ force }) => ask("runJob", { at: { name: job.spec.name }, body: { force } }) });
  if (done) location.hash = jobAddress(job.spec.name, String(done.launch));
  reload();
}

function JobHead({ job, reload }) {
  const { spec } = job;
  const { name } = spec;
  const toggle = () => ask("toggleJob", { at: { name }, body: { disabled: !spec.disabled } }).then(reload, (error) => say(error.detail ?? error.message, true));
  const remove = () => confirm("Remove it?", `«${name}» and its history are forgotten.`, "Remove", () => ask("removeJob", { at: { name } })).then((done) => { if (done) location.hash = "#/jobs"; });
  return html`<p class="crumbs"><a href="#/jobs">Jobs</a> · <a href=${`#/runs?labels=${encodeURIComponent(`job=${name}`)}`}>its runs</a></p>
    <div class="head"><h1>${spec.display_name || name} ${spec.disabled && html`<${Badge} of="disabled" />`}</h1><span class="buttons">
      <button data-change class="main" onClick=${() => run(job, reload)}>Run now…</button><button data-change onClick=${() => editJob(job, reload)}>Change it…</button>
      <button data-change onClick=${toggle}>${spec.disabled ? "Let it fire" : "Disable"}</button><button data-change class="hard" onClick=${remove}>Remove</button></span></div>
    ${job.problem && html`<p class="why error">${job.problem}</p>`}
    <${Facts} of=${[["Schedule", html`<code>${spec.schedule || "after others"}</code> ${spec.timezone}`], ["Next", html`<${Ago} at=${job.next} />`], ["Executor", spec.executor], ["Overlap", words(spec.overlap)], ["Retries", spec.retries || null],
      ["Success", number(job.success)], ["Failed", number(job.error)], ["Missed", number(job.missed)], ["Left out", number(job.skipped)], ["Owner", spec.owner],
      ["Changed", html`<${Ago} at=${job.changed_at} /> by ${job.changed_by}`]]} />`;
}

export function Job({ rest }) {
  const [name, chosen] = rest;
  useTitle(`Job ${name}`);
  const found = useAsk("job", { at: { name } }, { live: "all" });
  const all = useAsk("jobs", {}, { every: 15000 });
  const times = useAsk("jobTimes", { at: { name }, query: { limit: 10 } }, { every: 15000 });
  const history = useAsk("jobHistory", { at: { name }, query: { limit: 1000 } }, { live: "all" });
  const [most, setMost] = useState(PAGE);
  const reload = () => { found.reload(); history.reload(); times.reload(); };
  return html`<${Loaded} of=${found}>${(job) => {
    const known = history.data?.launches ?? [];
    const launches = [...job.active.filter((launch) => !known.some((one) => one.id === launch.id)), ...known].sort((one, other) => other.id - one.id);
    const launch = launches.find((one) => String(one.id) === chosen);
    const took = [...launches].reverse().map(tookOf);
    return html`<${JobHead} job=${job} reload=${reload} />
      <div class="columns"><section><h2>Last 90 days</h2><${Calendar} days=${days(launches)} today=${local(new Date(now()).toISOString()).slice(0, 10)} label=${`Launches of ${name} by day, in ${zone.value}`} />
          <p class="quiet">Of the ${count(launches.length, "launch", "launches")} that ${launches.length === 1 ? "is" : "are"} kept. Durations <${Sparkline} values=${took} label="Durations, the newest at the right" width=${160} /></p></section>
        <section><h2>Next times</h2><${Loaded} of=${times}>${({ times: next, planned = [] }) => next.length === 0 ? html`<p class="quiet">There are none.</p>` : html`<ul>${next.slice(0, 5).map((time, place) => html`<li key=${planned[place] ?? time}><${Clock} at=${time} /> <${Ago} at=${time} />${planned[place] && planned[place] !== time && html` <span class="quiet">planned <${Clock} at=${planned[place]} /></span>`}</li>`)}</ul>`}<//></section></div>
      <h2>Jobs around it</h2><${Around} job=${job} jobs=${all.data?.jobs ?? [job]} />
      <h2>History</h2><div class=${launch ? "split" : ""}><div>${launches.length === 0 ? html`<p class="quiet">There was no launch yet.</p>` : html`<${Table} caption="History" columns=${[["Planned"], ["State"], ["Cause"], ["Took", "right"], ["Nodes"], ["Reason", "grow"]]}>
        ${launches.slice(0, most).map((one) => html`<tr key=${one.id} aria-current=${one === launch ? "true" : null}><td><a href=${jobAddress(name, String(one.id))} data-item><${Clock} at=${one.planned} /></a></td><td><${Badge} of=${one.state} /></td><td>${causeOf(one)}</td>
          <td class="right">${Number.isFinite(tookOf(one)) ? span(tookOf(one)) : ""}</td><td>${[...new Set(one.runs.map((each) => each.node).filter(Boolean))].join(", ")}</td><td class="grow">${one.reason ?? one.runs.map((each) => each.reason).find(Boolean)}</td></tr>`)}<//>`}
        ${launches.length > most && html`<button onClick=${() => setMost(most + PAGE)}>More</button>`}</div>
        ${launch && html`<${Launch} key=${launch.id} job=${job} launch=${launch} reload=${reload} />`}</div>
      <details><summary>All settings</summary><${Json} of=${job.spec} /></details>`;
  }}<//>`;
}
