// One user walked through a journey by hand: events and time, in a dry run that stores and sends nothing.

import { useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { local } from "./format.js";
import { User } from "./journey.js";
import { pathOf, Picture } from "./journey-graph.js";
import { timeOf } from "./journeys.js";
import { useResource } from "./resource.js";
import { Clock, html, Json, reason } from "./ui.js";

const HOUR_MS = 3_600_000;
const WALKER = "walker";
const PASSES = { "1 h": HOUR_MS, "1 d": 24 * HOUR_MS, "7 d": 168 * HOUR_MS };

/** The kinds of events that a journey takes. */
function kindsOf(elements) {
  return [...new Set(elements.flatMap((one) => one.properties.map((rule) => rule.event)).filter(Boolean))];
}

export function Walk({ journey, elements }) {
  const kinds = kindsOf(elements);
  const [walk, setWalk] = useState(() => ({ events: [], at: Date.now(), attributes: {} }));
  const [problem, setProblem] = useState(null);
  const until = new Date(walk.at).toISOString();
  const found = useResource(`walk ${JSON.stringify(walk)}`, (signal) => ask("dryRun", { signal,
    body: { journey: journey.name, events: walk.events, users: { [WALKER]: walk.attributes }, until } }), { every: 600000 });
  const send = (event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    try {
      const data = JSON.parse(given.get("data") || "{}");
      const next = { specversion: "1.0", id: String(walk.events.length + 1), source: "/console", type: given.get("type"), subject: WALKER, time: until, data };
      setWalk({ ...walk, events: [...walk.events, next], at: walk.at + 1000 });
      setProblem(null);
    } catch (error) {
      setProblem(error);
    }
  };
  const user = found.data?.users?.find((one) => one.user === WALKER);
  const path = pathOf(user, journey.name);
  return html`<form class="filters" onSubmit=${send}><b>${local(until)}</b>
      <select name="type" aria-label="Event">${kinds.map((kind) => html`<option key=${kind} value=${kind}>${kind}</option>`)}</select>
      <input type="search" name="data" aria-label="Data of the event, as JSON" placeholder="Data of the event, as JSON" spellcheck="false" /><button type="submit" class="main">Send the event</button>
      ${Object.entries(PASSES).map(([name, ms]) => html`<button key=${name} type="button" onClick=${() => setWalk({ ...walk, at: walk.at + ms })}>Let ${name} pass</button>`)}
      <button type="button" onClick=${() => setWalk({ events: [], at: Date.now(), attributes: {} })}>Begin anew</button></form>
    ${(problem ?? found.error) && html`<p class="why error" role="alert">${reason(problem ?? found.error)}</p>`}
    <div class="split"><${Picture} elements=${elements} path=${path ?? { passed: new Set(), waits: new Map() }} />
      ${user ? html`<${User} user=${user} path=${path} name=${journey.name} />` : html`<aside class="panel"><p class="quiet">Send an event that begins the journey: nothing is stored and nothing is sent.</p></aside>`}</div>
    ${found.data?.problems?.length > 0 && html`<h2>Conditions that failed</h2><ul>${found.data.problems.map((one, at) => html`<li key=${at}><${Clock} at=${timeOf(one.at)} /> <span class="error">${one.problem}</span></li>`)}</ul>`}
    ${found.data?.messages?.length > 0 && html`<h2>Messages that would have left</h2><${Json} of=${found.data.messages} label="Messages" />`}`;
}
