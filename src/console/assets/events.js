// Events: what came lately and to whom it went; what no step has taken; a form that publishes one.

import { useEffect, useReducer, useRef, useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { order, say } from "./dialogs.js";
import { count, number, taskName } from "./format.js";
import { followNews } from "./live.js";
import { useAsk } from "./resource.js";
import { useCell, zone } from "./settings.js";
import { Ago, Badge, Clock, Head, html, Json, Loaded, Notice, RunLink, Table, useKept, useSlices, useTitle } from "./ui.js";

const LETTERS = 100;
const SHOWN = 100;
/** How often at most the list is drawn when much comes. */
const DRAW_MS = 500;

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
  say(html`It is durable. ${count(done.delivered, "task has", "tasks have")} got it${done.undecided > 0 && `, of which ${number(done.undecided)} still decide whether it is meant`};
    ${" "}${count(done.started.length, "run has", "runs have")} begun.${done.started.slice(0, 10).map((one) => html` <${RunLink} key=${one} id=${one} />`)}`);
  reload();
}

/** What the server tells while the page is open, the newest first. */
function Stream() {
  const [, draw] = useReducer((times) => times + 1, 0);
  const [feed, setFeed] = useState(null);
  const [filter, setFilter] = useState("");
  useEffect(() => {
    let timer = 0;
    const [of, leave] = followNews("everything", () => { timer ||= setTimeout(() => { timer = 0; draw(); }, DRAW_MS); });
    setFeed(of);
    return () => { clearTimeout(timer); leave(); };
  }, []);
  const all = (feed?.newest ?? []).filter((one) => (filter ? one.what === filter : !["step", "note"].includes(one.what)));
  const newest = all.slice(-SHOWN).reverse();
  // The same events are the same list.
  const last = useRef([]);
  if (newest.length !== last.current.length || newest[0] !== last.current[0] || newest.at(-1) !== last.current.at(-1)) last.current = newest;
  const row = useKept((one) => html`<tr key=${one.cursor}>
        <td><${Clock} at=${one.at} /></td><td>${one.what === "plan" && one.to ? html`<${Badge} of=${one.to === "stopped" ? one.result ?? one.to : one.to} />` : one.what}</td>
        <td>${one.plan && html`<${RunLink} id=${one.plan} text=${one.label} />`}</td>
        <td class="grow">${one.step && `to «${one.action && !one.action.startsWith("flow.") ? taskName(one.action) : `step ${one.step}`}» `}${one.what === "event" && html`<span class="quiet">${one.event ? `event ${one.event}` : "an event"} </span>`}${one.by && `by ${one.by} `}<span class="quiet">${one.why}</span></td></tr>`, useCell(zone));
  const shown = useSlices(last.current, filter, (one) => one.cursor);
  return html`<div class="head"><h2>Lately</h2><select aria-label="Kind" onChange=${(event) => setFilter(event.currentTarget.value)}>
      <option value="">events and runs</option><option value="event">events of outside</option><option value="plan">changes of runs</option><option value="step">changes of steps</option><option value="note">notes</option><option value="cancel">requests to end</option></select></div>
    ${shown.length === 0 ? html`<p class="quiet">Nothing has come since the page was opened.</p>`
      : html`<${Table} kind="news" caption="What came lately" columns=${[["When"], ["What"], ["Run"], ["To whom, and why", "grow"]]}>${shown.map((one) => row(one, one.cursor))}<//>`}`;
}

export function Events() {
  useTitle("Events");
  const [most, setMost] = useState(LETTERS);
  const found = useAsk("deadLetters", { query: { limit: 1000 } }, { live: "all" });
  return html`<${Head} title="Events"><button class="main" onClick=${() => publish(found.reload)}>Publish an event…</button><//>
    <div class="columns broad"><section><${Stream} /></section><section><h2>Dead letters</h2><${Loaded} of=${found}>${(all) => {
      const letters = [...all.letters].reverse();
      return html`<p class="quiet">Events that no step has taken: ${number(all.total)} in all. The store keeps the newest of them.</p>
        ${letters.length === 0 ? html`<${Notice} title="None" text="Every event was taken by its step." />` : html`<ul class="rows">${letters.slice(0, most).map((letter) => html`<li key=${letter.number}>
          <div class="head"><span>${letter.number}. <${RunLink} id=${letter.plan} /> step ${letter.step} <${Ago} at=${letter.at} />${letter.id && html`<span class="quiet"> id ${letter.id}</span>`}</span>
            <button data-item onClick=${() => again(letter, found.reload)}>Send again…</button></div>
          <div class="error">${letter.reason}</div><details><summary>What it says</summary><${Json} of=${letter.event} max=${10000} /></details></li>`)}</ul>`}
        ${letters.length > most && html`<button onClick=${() => setMost(most + LETTERS)}>More</button>`}`;
    }}<//></section></div>`;
}
