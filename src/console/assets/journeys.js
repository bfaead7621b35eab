// Journeys: one row each; a user is found by platform and name.

import { useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { order, say } from "./dialogs.js";
import { useResource } from "./resource.js";
import { Ago, Head, html, Loaded, Notice, reason, Search, Table, useTitle } from "./ui.js";

export const journeyAddress = (name, user) => `#/journey/${encodeURIComponent(name)}${user ? `?user=${encodeURIComponent(user)}` : ""}`;

/** A time as text; journeys tell microseconds too. */
export const timeOf = (at) => (typeof at === "number" ? new Date(at / 1000).toISOString() : at);

const EXAMPLE = `journey: welcome
platform: shop
elements:
  hello: { start: { on: customer.created }, then: answer }
  answer: { wait: { on: order.paid, for: P3D }, then: end, otherwise: end }
`;

/** Stores a journey, or a new version of it. */
export async function putJourney(text, reload) {
  const done = await order({ title: text ? "Change a journey" : "A new journey", text: "A journey with the same name gets a new version.", verb: "Save",
    fields: [{ name: "text", label: "Definition", kind: "area", rows: 18, value: text ?? EXAMPLE, required: true }],
    perform: ({ text: given }) => ask("putJourney", { text: given }) });
  if (!done) return;
  say(`«${done.name}», version ${done.version}, is saved.`);
  location.hash = journeyAddress(done.name);
  reload?.();
}

export function Journeys() {
  useTitle("Journeys");
  const [text, setText] = useState("");
  const found = useResource("journeys", (signal) => ask("journeys", { signal }), { every: 5000 });
  if (found.error?.status === 404) return html`<${Notice} title="This server has no journeys" text=${reason(found.error)} />`;
  return html`<${Head} title="Journeys"><button data-change class="main" onClick=${() => putJourney(null, found.reload)}>Add a journey…</button><//><${Loaded} of=${found}>${({ journeys }) => {
    if (journeys.length === 0) return html`<${Notice} title="There is no journey" text="Add one here, or from a shell: turnwheel journey add FILE." />`;
    const fit = journeys.filter((one) => `${one.platform}/${one.name}`.toLowerCase().includes(text.toLowerCase()));
    return html`<div class="filters"><${Search} value=${text} onText=${setText} label="Search journeys" placeholder="Name or platform" pause=${50} /></div>
      <${Table} caption="Journeys" columns=${[["Journey"], ["Platform"], ["Version", "right"], ["Added"], ["By", "grow"]]}>${fit.map((one) => html`<tr key=${one.name}><td class="name"><a href=${journeyAddress(one.name)} data-item>${one.name}</a></td>
        <td>${one.platform}</td><td class="right">${one.version}</td><td><${Ago} at=${timeOf(one.at)} /></td><td class="grow">${one.by}</td></tr>`)}<//>`;
  }}<//>`;
}
