// One journey, drawn; a user's path over it: where, why, since when, what comes next.

import { ask } from "./api.js";
import { confirm, say } from "./dialogs.js";
import { number } from "./format.js";
import { pathOf, Picture } from "./journey-graph.js";
import { journeyAddress, putJourney, timeOf } from "./journeys.js";
import { useAsk, useResource } from "./resource.js";
import { Walk } from "./walk.js";
import { Ago, Badge, Clock, Facts, Head, html, Json, Loaded, Notice, reason, Search, useTitle } from "./ui.js";
import { Yaml } from "./yaml.js";

const CAUSES = { event: "an event", timer: "the end of a wait", unmatched: "an event that changes nothing", moved: "a newer version" };

/** Sends messages again that were given up: one, or all. */
async function resend({ platform, user, lost }, one, reload) {
  const what = one ? `The message of ${one.element} leaves again` : `${number(lost.length)} messages leave again`;
  const done = await confirm("Send again?", `${what}, with the same key: a receiver that has it already can tell. Who has opted out gets only those of essential journeys.`, "Send again",
    () => ask("resend", { at: { platform, user }, body: { key: one?.key ?? null } }));
  if (!done) return;
  say(done.lost.length === 0 ? "They are on their way." : `${number(done.lost.length)} are still given up.`);
  reload();
}

/** Where a user is, why, since when, and what comes next. */
export function User({ user, path, name, reload }) {
  const others = [...user.passes].filter((pass) => pass.journey !== name);
  return html`<aside class="panel" aria-label="The user"><div class="head"><h2>${user.platform}/${user.user}</h2>${user.has_opted_out && html`<${Badge} of="opted out" />`}</div>
    ${!path ? html`<p class="quiet">This user has not begun this journey.</p>` : html`
      ${path.pass.waits.map((wait) => html`<p class="why" key=${wait.wait}><b>Waits at ${wait.element}</b> for ${wait.on ?? "any event"} since <${Ago} at=${timeOf(wait.since)} />${
        wait.due ? html`; next, <${Ago} at=${timeOf(wait.due)} />${wait.otherwise && `: ${wait.otherwise}`}` : "; without a time limit"}</p>`)}
      ${path.pass.ended && html`<p class="why">Ended <${Ago} at=${timeOf(path.pass.ended)} />: ${path.pass.why}</p>`}
      <h3>Path of pass ${path.pass.pass}</h3><ol>${path.pass.moves.map((move, at) => html`<li key=${at}><${Clock} at=${timeOf(move.at)} /> by ${CAUSES[move.cause] ?? move.cause}: ${move.path.filter((id) => !/\.(\d+|otherwise)$/.test(id)).join(" → ")}
        ${move.problem && html`<div class="error">${move.problem}</div>`}</li>`)}</ol>
      <h3>Data of the pass</h3><${Json} of=${path.pass.data} />`}
    <h3>Attributes</h3><${Json} of=${user.attributes} />
    ${user.outbox.length > 0 && html`<h3>Messages that wait</h3><ul>${user.outbox.map((one) => html`<li key=${one.key}>${one.element} by ${one.channel}, ${one.attempts} failed, next <${Ago} at=${timeOf(one.at)} /></li>`)}</ul>`}
    ${user.lost.length > 0 && html`<h3>Messages that were given up</h3><ul>${user.lost.map((one) => html`<li key=${one.key}>${one.element} by ${one.channel}: <span class="error">${one.reason}</span>${reload && html` <button data-change onClick=${() => resend(user, one, reload)}>Send again…</button>`}</li>`)}</ul>
      ${reload && user.lost.length > 1 && html`<button data-change onClick=${() => resend(user, null, reload)}>Send all again…</button>`}`}
    ${others.length > 0 && html`<h3>Other journeys</h3><ul>${others.map((pass) => html`<li key=${pass.pass}><a href=${journeyAddress(pass.journey, user.user)}>${pass.journey}</a> ${pass.waits.map((wait) => wait.element).join(", ")}</li>`)}</ul>`}</aside>`;
}

export function Journey({ rest, query }) {
  const [name] = rest;
  const user = query.get("user");
  useTitle(`Journey ${name}`);
  const found = useResource(`journey ${name}`, async (signal) => {
    const [journey, elements] = await Promise.all([ask("journey", { at: { name }, signal }), ask("elements", { at: { name }, signal })]);
    // A list that was imported may have null, or nothing, in place of an empty one.
    const whole = (one) => ({ ...one, incomings: one.incomings ?? [], outgoings: one.outgoings ?? [], properties: one.properties ?? [], extensions: one.extensions ?? {} });
    return { journey, elements: elements.map(whole) };
  }, { every: 10000 });
  const platform = found.data?.journey.platform;
  const counts = useAsk("journeyCounts", { at: { name } }, { every: 10000 });
  const isWalk = query.has("walk");
  const person = useAsk("user", { at: { platform, user }, isOff: !user || !platform }, { every: 3000 });
  return html`<p class="crumbs"><a href="#/journeys">Journeys</a></p><${Loaded} of=${found}>${({ journey, elements }) => {
    const path = pathOf(person.data, name);
    const look = (text) => { location.hash = journeyAddress(name, text); };
    return html`<${Head} title=${journey.name}><a class="button" href=${isWalk ? journeyAddress(name) : `${journeyAddress(name)}?walk=`}>${isWalk ? "Users" : "Walk by hand"}</a><button data-change onClick=${() => putJourney(journey.text, found.reload)}>Change it…</button><//>
      <${Facts} of=${[["Platform", journey.platform], ["Version", journey.version], ["Added", html`<${Ago} at=${timeOf(journey.at)} /> by ${journey.by}`], ["Elements", number(elements.filter((one) => one.type !== "Line").length)],
        ["Users looked at", counts.data && `${number(counts.data.users)}${counts.data.is_complete ? "" : " of more"}`], ["Under way", counts.data && number(counts.data.under_way)], ["Ended", counts.data && number(counts.data.ended)]]} />
      ${isWalk ? html`<${Walk} journey=${journey} elements=${elements} />` : html`
      <div class="filters"><${Search} value=${user ?? ""} onText=${look} label="Find a user" placeholder=${`A user of ${journey.platform}: where, why, what comes next`} pause=${400} /></div>
      <div class=${user ? "split" : ""}><${Picture} elements=${elements} path=${path} counts=${counts.data} />
        ${user && (person.error ? html`<${Notice} title="No such user" text=${reason(person.error)} />` : person.data && html`<${User} user=${person.data} path=${path} name=${name} reload=${person.reload} />`)}</div>
      <p class="quiet">At an element: users who wait there, and all visits; at a line: its part of the visits before it.</p>`}
      <h2>Definition</h2><${Yaml} text=${journey.text} />`;
  }}<//>`;
}
