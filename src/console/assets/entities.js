// Entities: which types are used, how many are active, and how one of them is.

import { ask } from "./api.js";
import { bytes, number, span } from "./format.js";
import { useAsk, useResource } from "./resource.js";
import { Badge, Facts, html, Json, Loaded, Notice, reason, Table, useTyped } from "./ui.js";

/** What a message for an entity meets. */
const STATES = {
  none: "It is not active: a message activates it.",
  active: "It is active: a message goes to its mailbox.",
  leaving: "Its activation ends: a message waits for the next one.",
  waiting: "It waits for room: too many others are active.",
  held: "Its last activation failed: messages are refused for a while.",
};

/** The name of a Rust type without where it is from; others as they are. */
const short = (name) => (/^\w+::/.test(name) && !name.includes("<") ? name.split("::").at(-1) : name);

const bad = (count) => (count ? html`<b class="error">${number(count)}</b>` : "0");

function Types({ types }) {
  if (types.length === 0) return html`<${Notice} title="No entity was used yet" text="A type is here from its first message on. A program that embeds Turnwheel names its entities in the options of its router." />`;
  return html`<${Table} caption="Types of entities" columns=${[["Type", "grow"], ["Active", "right"], ["Activations", "right"], ["Oldest idle", "right"], ["Leaves memory after", "right"], ["Waiting for room", "right"], ["Bytes", "right"], ["Made room", "right"], ["Refused", "right"], ["Replaced", "right"]]}>
    ${types.map((type) => html`<tr key=${type.name}><td class="grow" title=${type.name}>${short(type.name)}${type.is_plan && html` <a href="#/runs">the runs</a>`}</td>
      <td class="right">${number(type.active)}</td><td class="right">${number(type.activations)}</td><td class="right">${type.oldest_idle_ms === null ? "" : span(type.oldest_idle_ms)}</td>
      <td class="right">${type.idle_limit_ms === null ? "never" : span(type.idle_limit_ms)}</td><td class="right">${number(type.waiting)}</td><td class="right">${type.bytes ? bytes(type.bytes) : ""}</td>
      <td class="right">${number(type.shed)}</td><td class="right">${bad(type.refused)}</td><td class="right">${bad(type.replaced)}</td></tr>`)}<//>`;
}

function One({ of }) {
  const { stored } = of;
  return html`<div class="head"><h3>${short(of.name)} «${of.key}»</h3><${Badge} of=${of.state} /></div><p>${STATES[of.state] ?? ""}</p>${of.failure && html`<p class="why error">${of.failure}</p>`}
    <${Facts} of=${[["Activation", of.activation], ["Phase", of.phase], ["Messages that wait", number(of.queued)], ["Idle for", of.idle_ms === null ? null : span(of.idle_ms)], ["Bytes", of.bytes ? bytes(of.bytes) : null],
      ["Refuses for", of.held_ms === null ? null : span(of.held_ms)], ["Stored version", stored?.version], ["Stored bytes", stored && (stored.bytes === null ? "removed" : number(stored.bytes))]]} />
    ${stored && stored.bytes !== null && html`<h3>Stored state</h3>${stored.value === null && stored.bytes !== 4 ? html`<p class="quiet">It is not JSON, or too large to be shown here.</p>` : html`<${Json} of=${stored.value} />`}`}`;
}

/** The field of the key: the page is drawn again every now and then, and what is typed stays. */
function Key({ value }) {
  const [field] = useTyped(value);
  return html`<input ref=${field} type="search" name="key" data-search placeholder="Key" aria-label="Key" required spellcheck="false" />`;
}

export function Entities({ query }) {
  const [type, key] = [query.get("type"), query.get("key")];
  const all = useAsk("entityTypes", {}, { every: 3000 });
  const found = useResource(type && key ? `entity ${type} ${key}` : null, (signal) => ask("entity", { at: { name: type, key }, signal }), { every: 3000 });
  const go = (event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const of = all.data.types.find((one) => one.name === given.get("type"));
    // A run has a page of its own.
    location.hash = of?.is_plan ? `#/run/${encodeURIComponent(given.get("key").trim())}` : `#/system/entities?${new URLSearchParams(given)}`;
  };
  return html`<p class="quiet">Actors that are found by type and key, activated by their first message and out of memory when they are idle.</p>
    <${Loaded} of=${all}>${({ types }) => html`<${Types} types=${types} /><h2>Look one up</h2><form class="filters" role="search" onSubmit=${go}>
      <select name="type" aria-label="Type" required>${types.map((one) => html`<option key=${one.name} value=${one.name} selected=${one.name === type}>${short(one.name)}${one.is_plan ? " (runs)" : ""}</option>`)}</select>
      <${Key} value=${key ?? ""} /><button type="submit">Look</button></form>`}<//>
    <section aria-live="polite">${found.data ? html`<${One} of=${found.data} />` : found.error && html`<${Notice} title="It cannot be looked up" text=${reason(found.error)} />`}</section>`;
}
