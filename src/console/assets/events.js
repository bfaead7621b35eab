// Events: what came lately and which task took it, or nobody; what a step has left; a form that publishes one.

import { useEffect, useReducer, useRef, useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { order, say } from "./dialogs.js";
import { count, number, taskName } from "./format.js";
import { followNews } from "./live.js";
import { useAsk, useResource } from "./resource.js";
import { useCell, zone } from "./settings.js";
import { Ago, Badge, Clock, Head, html, Json, Loaded, Notice, reason, RunLink, Table, useKept, useSlices, useTitle } from "./ui.js";

const LETTERS = 100;
const SHOWN = 100;
/** How often at most the list is drawn when much comes. */
const DRAW_MS = 500;
/** How often the published events are asked for: one that nobody took makes no news. */
const RECENT_MS = 2000;

async function again(letter, reload) {
  const done = await order({ title: "Send it again?", text: "It goes to this step, or to another one of the same run; if it is taken it leaves the list.", verb: "Send",
    fields: [{ name: "step", label: "Step", kind: "number", min: 1, value: letter.step, required: true }],
    perform: async (body) => { await ask("redeliver", { at: { name: letter.number }, body }); return true; } });
  if (done) say("It was taken, and is durable.");
  reload();
}

async function publish(reload) {
  // The same id when it is tried again: an event is taken once.
  const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const fields = [{ name: "type", label: "Type", required: true, placeholder: "com.shop.paid" }, { name: "source", label: "Source", required: true, value: "/console" },
    { name: "subject", label: "Subject, if it has one" }, { name: "data", label: "Data, as JSON", kind: "json", rows: 6, value: "{}" }];
  const done = await order({ title: "Publish an event", text: "A CloudEvent: the flows that listen for such a one get it, and those that begin with one begin.", verb: "Publish", fields,
    perform: ({ type, source, subject, data = null }) => ask("publish", { text: JSON.stringify({ specversion: "1.0", id, type, source, data, ...(subject ? { subject } : {}) }) }) });
  if (!done) return;
  say(html`It is durable. ${done.repeated > 0 && `${number(done.repeated)} had got it before. `}${count(done.delivered, "task has", "tasks have")} got it${done.undecided > 0 && `, of which ${number(done.undecided)} still decide whether it is meant`};
    ${" "}${count(done.started.length, "run has", "runs have")} begun.${done.started.slice(0, 10).map((one) => html` <${RunLink} key=${one} id=${one} />`)}`);
  reload();
}

/** Who has got an event, and the runs that began with it. */
function Takers({ of }) {
  const { delivered, undecided, repeated, takers, started } = of;
  if (isUnheard(of)) return html`<span class="error-line">Nobody took it.</span>`;
  const more = delivered - takers.length;
  return html`${takers.map(({ plan, step, flow, task }) => html`<span key=${`${plan} ${step}`}>to «${taskName(task)}» of <${RunLink} id=${plan} text=${flow} /> </span>`)}
    ${more > 0 && html`<span>to ${count(more, "more task")} </span>`}${undecided > 0 && html`<span class="quiet">${number(undecided)} of them decide whether it is meant </span>`}
    ${repeated > 0 && html`<span class="quiet">a repeat for ${number(repeated)} </span>`}
    ${started.map((plan) => html`<span key=${plan}>began <${RunLink} id=${plan} /> </span>`)}`;
}

/** A line of the list: an event that was published, or what happened to a run. */
function line(one) {
  if (one.type) {
    return html`<tr key=${one.key}><td><${Clock} at=${one.at} /></td><td>event</td>
      <td title=${`id ${one.id}`}><b>${one.type}</b> <span class="quiet">${one.subject ? `${one.subject}, ` : ""}from ${one.source}</span></td><td class="grow"><${Takers} of=${one} /></td></tr>`;
  }
  const task = one.step && (one.action && !one.action.startsWith("flow.") ? taskName(one.action) : `step ${one.step}`);
  return html`<tr key=${one.key}><td><${Clock} at=${one.at} /></td><td>${one.what === "plan" && one.to ? html`<${Badge} of=${one.to === "stopped" ? one.result ?? one.to : one.to} />` : one.what}</td>
    <td>${one.plan && html`<${RunLink} id=${one.plan} text=${one.label} />`}</td>
    <td class="grow">${one.step && `to «${task}» `}${one.by && `by ${one.by} `}<span class="quiet">${one.why}</span></td></tr>`;
}

const isUnheard = ({ delivered, repeated, started }) => delivered === 0 && !repeated && started.length === 0;
/** What is listed by the choice of the reader. */
const KINDS = {
  "": ["events and runs", (one) => one.type || !["step", "note"].includes(one.what)], event: ["events of outside", (one) => one.type || one.what === "event"],
  unheard: ["events that nobody took", (one) => one.type && isUnheard(one)], plan: ["changes of runs", (one) => one.what === "plan"], step: ["changes of steps", (one) => one.what === "step"],
  note: ["notes", (one) => one.what === "note"], cancel: ["requests to end", (one) => one.what === "cancel"],
};

/** Events that were published lately, and what the server tells while the page is open, the newest first. */
function Stream({ recent }) {
  const [, draw] = useReducer((times) => times + 1, 0);
  const [feed, setFeed] = useState(null);
  const [filter, setFilter] = useState("");
  useEffect(() => {
    let timer = 0;
    const [of, leave] = followNews("everything", () => { timer ||= setTimeout(() => { timer = 0; draw(); }, DRAW_MS); });
    setFeed(of);
    return () => { clearTimeout(timer); leave(); };
  }, []);
  const published = (recent?.events ?? []).map((one) => ({ ...one, key: `${one.at} ${one.source} ${one.id}` }));
  // A step that gets a published event is told with the event itself.
  const known = new Set(published.map(({ source, id }) => `${source} ${id}`));
  const told = (feed?.newest ?? []).filter((one) => !(one.what === "event" && known.has(one.event))).map((one) => ({ ...one, key: one.cursor }));
  const newest = [...told.reverse(), ...published].filter(KINDS[filter][1]).sort((one, other) => Date.parse(other.at) - Date.parse(one.at)).slice(0, SHOWN);
  // The same events are the same list.
  const last = useRef([]);
  if (newest.length !== last.current.length || newest.some((one, at) => one.key !== last.current[at].key)) last.current = newest;
  const row = useKept(line, useCell(zone));
  const shown = useSlices(last.current, filter, (one) => one.key);
  return html`<div class="head"><h2>Lately</h2><select aria-label="Kind" onChange=${(event) => setFilter(event.currentTarget.value)}>
      ${Object.entries(KINDS).map(([name, [text]]) => html`<option key=${name} value=${name}>${text}</option>`)}</select></div>
    ${shown.length === 0 ? html`<p class="quiet">${filter === "" ? "Nothing has come since the page was opened." : "There is none."}</p>`
      : html`<${Table} kind="news" caption="What came lately" columns=${[["When"], ["What"], ["Event or run"], ["To whom, and why", "grow"]]}>${shown.map((one) => row(one, one.key))}<//>`}
    ${recent?.unheard > 0 && html`<p class="quiet">Events that nobody took since the world began: ${number(recent.unheard)}.</p>`}`;
}

/** The newest published events; a program that embeds a world may run no flows. */
function useRecent() {
  return useResource("recent events", (signal) => ask("recentEvents", { query: { limit: SHOWN }, signal }).catch((error) => {
    if (error.status === 404) return { events: [], unheard: 0 };
    throw error;
  }), { live: "everything", every: RECENT_MS });
}

export function Events() {
  useTitle("Events");
  const [most, setMost] = useState(LETTERS);
  const recent = useRecent();
  const found = useAsk("deadLetters", { query: { limit: 1000 } }, { live: "all" });
  const reload = () => { found.reload(); recent.reload(); };
  return html`<${Head} title="Events"><button data-change class="main" onClick=${() => publish(reload)}>Publish an event…</button><//>
    <div class="columns broad"><section><${Stream} recent=${recent.data} />${recent.error && html`<p class="error">${reason(recent.error)}</p>`}</section>
    <section><h2>Dead letters</h2><${Loaded} of=${found}>${(all) => {
      const letters = [...all.letters].reverse();
      return html`<p class="quiet">Events for a step that had not taken them when it was over: ${number(all.total)} in all. The store keeps the newest of them.</p>
        ${letters.length === 0 ? html`<${Notice} title="None" text="No step was over with an event that it had not taken. An event that no step waited for is on the list of what came lately." />` : html`<ul class="rows">${letters.slice(0, most).map((letter) => html`<li key=${letter.number}>
          <div class="head"><span>${letter.number}. <${RunLink} id=${letter.plan} /> step ${letter.step} <${Ago} at=${letter.at} />${letter.id && html`<span class="quiet"> id ${letter.id}</span>`}</span>
            <button data-change data-item onClick=${() => again(letter, found.reload)}>Send again…</button></div>
          <div class="error">${letter.reason}</div><details><summary>What it says</summary><${Json} of=${letter.event} max=${10000} /></details></li>`)}</ul>`}
        ${letters.length > most && html`<button onClick=${() => setMost(most + LETTERS)}>More</button>`}`;
    }}<//></section></div>`;
}
