// Schedules: when they launch next, what became of their runs; pause, backfill, new ones.

import { useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { Strip } from "./charts.js";
import { order, say } from "./dialogs.js";
import { count, fieldTime, local, moment, number, plain, span, words } from "./format.js";
import { useAsk, useResource } from "./resource.js";
import { ownZone } from "./settings.js";
import { Ago, Badge, Clock, Facts, Head, html, Json, Loaded, Notice, reason, RunLink, Search, stateOf, Table, useTitle } from "./ui.js";

/** How many of the next times are shown. */
const NEXT = 8;
/** How many of them a form counts before it asks to launch them. */
const COUNTED = 1000;
const PAGE = 200;
const STRIP = 20;

export function timing(spec) {
  if (spec.cron) return `${spec.cron.pattern} (${spec.cron.zone})`;
  if (spec.every) return `every ${span(spec.every.period_ms)}`;
  if (spec.after) return `${span(spec.after.pause_ms)} after the last one`;
  if (spec.at) return `once, at ${local(spec.at)}`;
  return "by hand";
}

/** What a schedule launches, and its address. */
function target({ action, input }) {
  const named = action === "flow" ? /^([^/]+)\/(.+):([^:]+)$/.exec(input?.flow ?? "") : null;
  return named ? { text: input.flow, href: `#/flow/${named.slice(1).map(encodeURIComponent).join("/")}` } : { text: action, href: null };
}

async function act(schedule, name, title, text, verb, reload, fields = []) {
  const done = await order({ title, text, verb, fields, perform: async (given) =>
    await ask(name, { at: { name: schedule.name }, body: fields.length ? given : undefined }) ?? {} });
  if (done?.id) say(html`A run has begun: <${RunLink} id=${done.id} />`);
  else if (done) say("Done.");
  reload();
}

/** Counts the times of a range as it is typed. */
function Counted({ name, values }) {
  let range = null;
  try {
    range = [moment(values.from), moment(values.until)];
  } catch {
    range = null;
  }
  const query = range && { after: new Date(Date.parse(range[0]) - 1).toISOString(), limit: COUNTED };
  const found = useAsk("scheduleTimes", { at: { name }, query, isOff: !range }, { every: 60000 });
  if (!range) return html`<p class="quiet" role="status">A time is missing.</p>`;
  const some = (found.data?.times ?? []).filter((time) => Date.parse(time) < Date.parse(range[1]));
  const text = found.error ? reason(found.error) : !found.data ? "…"
    : `${number(some.length)}${some.length === COUNTED ? " or more" : ""} ${some.length === 1 ? "time is" : "times are"} in this range${some.length ? `, the first ${local(some[0])}` : ""}.`;
  return html`<p class="quiet" role="status">${text}</p>`;
}

async function backfill(schedule, reload) {
  const fields = [{ name: "from", label: "From", kind: "time", required: true, value: fieldTime(Date.now() - 3_600_000) },
    { name: "until", label: "Until", kind: "time", required: true, value: fieldTime(Date.now()), note: "that time itself is not in it" }];
  const done = await order({ title: `Backfill «${schedule.name}»`, text: "What it would have launched in a range of times is launched now. Times that were launched are not launched again.",
    verb: "Launch them", fields, more: (values) => html`<${Counted} name=${schedule.name} values=${values} />`,
    perform: (body) => ask("backfill", { at: { name: schedule.name }, body }) });
  if (done) say(`${count(done.times, "time is", "times are")} in the range: the launches are under way.`);
  reload();
}

async function add(reload) {
  // A program that embeds a world may run no flows.
  const [{ actions }, { flows }] = await Promise.all([ask("actions"), ask("flows").catch(() => ({ flows: [] }))]);
  const is = (kind) => (values) => values.kind === kind;
  const fields = [
    { name: "name", label: "Name", required: true, maxlength: 200 },
    { name: "what", label: "Launches", kind: "select", value: flows.length ? "flow 0" : `action ${actions[0]?.name}`, options: [
      ...flows.map((flow, at) => [`flow ${at}`, `${flow.namespace}/${flow.name} ${flow.version}`]), ...actions.map((action) => [`action ${action.name}`, action.name])] },
    { name: "kind", label: "When", kind: "select", value: "every", options: [["every"], ["cron"], ["at"], ["manual"]] },
    { name: "every", label: "Seconds between", kind: "number", min: 1, step: 1, value: 60, required: true, when: is("every") },
    { name: "pattern", label: "Pattern", value: "0 * * * *", required: true, note: "minute, hour, day, month, day of the week", when: is("cron") },
    { name: "zone", label: "Time zone", value: ownZone, required: true, when: is("cron") },
    { name: "at", label: "Time", kind: "time", required: true, value: fieldTime(Date.now() + 3_600_000), when: is("at") },
    { name: "overlap", label: "While one is under way", kind: "select", value: "forbid", options: [["forbid"], ["allow"], ["replace"], ["queue"]] },
    { name: "input", label: "Input, as JSON", kind: "json", rows: 4, value: "{}" },
  ];
  const done = await order({ title: "A new schedule", text: "A schedule with the same name is changed.", verb: "Save", fields, perform: (given) => {
    const timings = { every: { every: { period_ms: given.every * 1000 } }, cron: { cron: { pattern: given.pattern, zone: given.zone } }, at: { at: given.at }, manual: { manual: {} } };
    const [of, ...rest] = given.what.split(" ");
    const flow = of === "flow" ? flows[Number(rest[0])] : null;
    const input = given.input ?? null;
    const body = { timing: timings[given.kind], overlap: given.overlap, action: flow ? "flow" : rest.join(" "), input };
    // A run of a flow keeps the definition that it begins with: so does the schedule.
    if (flow) body.input = { definition: flow.hash, flow: `${flow.namespace}/${flow.name}:${flow.version}`, input };
    return ask("putSchedule", { at: { name: given.name }, body });
  } });
  if (done) say(`«${done.name}» is saved${done.next ? `; it launches next at ${local(done.next)}` : ""}.`);
  reload();
}

/** The last launches with what became of their runs, the newest at the right. */
export function LaunchStrip({ schedule }) {
  const found = useAsk("plans", { query: { labels: `schedule=${schedule.name}`, limit: STRIP } }, { every: 5000 });
  const runs = new Map((found.data?.plans ?? []).map((run) => [run.id, run]));
  const bars = schedule.history.slice(-STRIP).map((launch) => {
    const run = runs.get(launch.plan);
    const state = run ? stateOf(run) : launch.outcome;
    return { state, href: launch.plan && `#/run/${launch.plan}`, share: run ? 1 : 0.4, title: `${local(launch.planned)}: ${words(state)}${run?.error ? `, ${plain(run.error)}` : launch.why ? `, ${launch.why}` : ""}` };
  });
  return html`<${Strip} of=${bars} label=${`The last launches of ${schedule.name}`} />`;
}

function Buttons({ schedule, reload }) {
  const { name } = schedule;
  const why = [{ name: "why", label: "Why", maxlength: 500 }];
  return html`<span class="buttons">
    ${schedule.paused ? html`<button data-change onClick=${() => act(schedule, "unpause", "Go on?", `«${name}» launches again at its times.`, "Go on", reload)}>Go on</button>`
      : html`<button data-change onClick=${() => act(schedule, "pause", "Pause?", `«${name}» launches nothing by itself until somebody lets it go on.`, "Pause", reload, why)}>Pause</button>`}
    <button data-change onClick=${() => act(schedule, "trigger", "Launch now?", `«${name}» begins a run now, besides its times.`, "Launch", reload)}>Launch now</button>
    ${!schedule.timing.manual && html`<button data-change onClick=${() => backfill(schedule, reload)}>Backfill…</button>`}
    <button data-change class="hard" onClick=${() => act(schedule, "removeSchedule", "Remove it?", `«${name}» is forgotten. Its runs that are under way go on.`, "Remove", reload)}>Remove</button></span>`;
}

/** One schedule: its next times, and its launches with their runs. */
function One({ schedule, reload }) {
  const next = useAsk("scheduleTimes", { at: { name: schedule.name }, query: { limit: NEXT } }, { every: 15000 });
  const runs = useAsk("plans", { query: { labels: `schedule=${schedule.name}`, limit: 100 } }, { live: "all" });
  const known = new Map((runs.data?.plans ?? []).map((run) => [run.id, run]));
  const caught = typeof schedule.catch_up === "string" ? schedule.catch_up : `all within ${span(schedule.catch_up.all?.window_ms)}`;
  const to = target(schedule);
  return html`<p class="crumbs"><a href="#/schedules">Schedules</a> · <a href=${`#/runs?labels=${encodeURIComponent(`schedule=${schedule.name}`)}`}>its runs</a></p>
    <div class="head"><h1>${schedule.name} ${schedule.paused && html`<${Badge} of="paused" />`}</h1><${Buttons} schedule=${schedule} reload=${reload} /></div>
    ${schedule.paused && html`<p class="why">Paused by ${schedule.paused.by} <${Ago} at=${schedule.paused.at} />${schedule.paused.why && `: ${schedule.paused.why}`}</p>`}
    ${schedule.problem && html`<p class="why error">${schedule.problem}: put the schedule again.</p>`}
    <${Facts} of=${[["When", timing(schedule.timing)], ["Launches", to.href ? html`<a href=${to.href}>${to.text}</a>` : to.text], ["Overlap", words(schedule.overlap)], ["Missed times", words(caught)],
      ["Jitter", schedule.jitter_ms ? span(schedule.jitter_ms) : null], ["Created", html`<${Clock} at=${schedule.created_at} />`], ["Launched", number(schedule.launched)],
      ["Left out", number(schedule.skipped)], ["Missed", number(schedule.missed)], ["Failed to launch", number(schedule.failed)], ["Waiting", number(schedule.waiting)]]} />
    <div class="columns"><section><h2>Launches</h2>${schedule.history.length === 0 ? html`<p class="quiet">There was none yet.</p>`
      : html`<${Table} caption="Launches" columns=${[["Planned"], ["Launch"], ["Run"], ["What became of it", "grow"]]}>${[...schedule.history].reverse().slice(0, 50).map((launch, at) => {
        const run = known.get(launch.plan);
        return html`<tr key=${at}><td><${Clock} at=${launch.planned} /></td><td><${Badge} of=${launch.outcome} /> <span class="quiet">${words(launch.occasion)}</span></td>
          <td>${launch.plan && html`<${RunLink} id=${launch.plan} />`}</td><td class="grow">${run ? html`<${Badge} of=${stateOf(run)} /> <span class="error-line">${plain(run.error)}</span>` : launch.why}</td></tr>`;
      })}<//>`}</section>
    <section><h2>Next times</h2><${Loaded} of=${next}>${({ times }) => times.length === 0 ? html`<p class="quiet">There are none.</p>`
      : html`<ul>${times.map((time) => html`<li key=${time}><${Clock} at=${time} /> <${Ago} at=${time} /></li>`)}</ul>`}<//>
      <h2>Input</h2><${Json} of=${schedule.action === "flow" ? schedule.input?.input : schedule.input} label="Input" /></section></div>`;
}

function Row({ schedule, reload }) {
  const to = target(schedule);
  return html`<tr><td class="name"><a href=${`#/schedules/${encodeURIComponent(schedule.name)}`} data-item>${schedule.name}</a>
      ${schedule.problem && html`<div class="error">${schedule.problem}: put the schedule again.</div>`}</td>
    <td>${timing(schedule.timing)}</td><td>${to.href ? html`<a href=${to.href}>${to.text}</a>` : to.text}</td>
    <td>${schedule.paused ? html`<${Badge} of="paused" title=${schedule.paused.why} /> <span class="quiet">${schedule.paused.why}</span>` : schedule.next ? html`<${Ago} at=${schedule.next} />` : html`<span class="quiet">no more times</span>`}</td>
    <td><${LaunchStrip} schedule=${schedule} /></td><td class="acts"><${Buttons} schedule=${schedule} reload=${reload} /></td></tr>`;
}

export function Schedules({ rest, query }) {
  useTitle("Schedules");
  const [text, setText] = useState("");
  const cursor = query.get("cursor");
  const [name] = rest;
  const found = useResource(`schedules ${name ?? cursor}`, async (signal) => {
    if (!name) return ask("schedules", { query: { limit: PAGE, cursor }, signal });
    const schedule = await ask("schedule", { at: { name }, signal }).catch((error) => { if (error.status === 404) return null; throw error; });
    return { schedule };
  }, { live: "all" });
  return html`<${Loaded} of=${found}>${({ schedule, schedules, next }) => {
    if (name) {
      return schedule ? html`<${One} schedule=${schedule} reload=${found.reload} />`
        : html`<${Notice} title="There is no such schedule" text=${`«${name}» may have been removed.`}><p><a href="#/schedules">Schedules</a></p><//>`;
    }
    const fit = schedules.filter((one) => `${one.name} ${target(one).text}`.toLowerCase().includes(text.toLowerCase()));
    return html`<${Head} title="Schedules"><button data-change class="main" onClick=${() => add(found.reload).catch((error) => say(reason(error), true))}>Add a schedule…</button><//>
      ${schedules.length === 0 ? html`<${Notice} title="There is no schedule" text="Add one here, or from a shell: turnwheel schedule add --help." />`
        : html`<div class="filters"><${Search} value=${text} onText=${setText} label="Search schedules" placeholder="Name, flow or action" pause=${50} /></div>
          <${Table} caption="Schedules" columns=${[["Schedule"], ["When"], ["Launches"], ["Next"], ["Last runs"], [""]]}>${fit.map((schedule) => html`<${Row} key=${schedule.name} schedule=${schedule} reload=${found.reload} />`)}<//>`}
      <p class="buttons">${cursor && html`<a href="#/schedules">First page</a>`}${next && html`<a href=${`#/schedules?cursor=${encodeURIComponent(next)}`}>Next page</a>`}</p>`;
  }}<//>`;
}
