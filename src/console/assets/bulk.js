// Orders for many runs: first what they would do, then the order itself.

import { ask } from "./api.js";
import { order, say } from "./dialogs.js";
import { count, number, words } from "./format.js";
import { html, RunLink } from "./ui.js";

const ORDERS = ["pause", "resume", "retry_failed", "skip_failed", "cancel", "cancel_now", "terminate", "delete"];
const HARD = new Set(["cancel", "cancel_now", "terminate", "delete"]);
const STATES = ["pending", "scheduled", "planning", "planned", "running", "paused", "stopped"];
const SHOWN = 20;

function Report({ look }) {
  return html`<ul class="report">${look.plans.slice(0, SHOWN).map((one) => html`<li key=${one.plan}><${RunLink} id=${one.plan} text=${one.label || one.plan} /> ${words(one.outcome)}${one.why && `: ${one.why}`}</li>`)}
    ${look.plans.length > SHOWN && html`<li class="quiet">and ${number(look.plans.length - SHOWN)} more</li>`}</ul>`;
}

/** Looks what an order would do, asks, and gives it; `of` names runs or has a filter. Answers what was done, or nothing. */
export async function bulk(name, of) {
  const look = await ask("orders", { body: { ...of, order: name, dry_run: true } });
  const text = `${number(look.touched)} would be touched, ${number(look.left)} left as they are.${look.has_more ? " More runs fit: give the order again afterwards." : ""}`;
  if (look.touched === 0) {
    const why = look.plans.find((one) => one.why)?.why;
    say(`${text} Nothing was changed${why ? `: ${why}` : ""}.`, true);
    return undefined;
  }
  const done = await order({ title: `${words(name)}?`, text, verb: `${words(name)} ${count(look.touched, "run")}`,
    more: () => html`<${Report} look=${look} />`, perform: () => ask("orders", { body: { ...of, order: name } }) });
  if (done) say(`${number(done.touched)} done, ${number(done.left)} left, ${number(done.failed)} failed.`, done.failed > 0);
  return done;
}

bulk.orders = ORDERS;
bulk.isHard = (name) => HARD.has(name);

/** The query of the list as the body of an order says it. */
bulk.filter = (asked) => {
  const list = (text) => (text ?? "").split(",").filter(Boolean);
  const filter = { states: list(asked.state), results: list(asked.result), waits: list(asked.waits) };
  for (const name of ["label", "name", "text", "action", "key", "by", "caller", "created_from", "created_before", "ended_from", "ended_before", "node"]) {
    if (asked[name]) filter[name] = asked[name];
  }
  filter.labels = Object.fromEntries(list(asked.labels).map((one) => {
    const at = one.indexOf("=");
    return at < 0 ? [one, null] : [one.slice(0, at), one.slice(at + 1)];
  }));
  const isEmpty = Object.values(filter).every((value) => Object.keys(value).length === 0);
  // An empty filter is refused: all states are what an unfiltered list shows.
  return isEmpty ? { ...filter, states: STATES } : filter;
};
