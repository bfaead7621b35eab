// Orders for many runs: first what they would do, then the order itself.

import { ask } from "./api.js";
import { order, say } from "./dialogs.js";
import { count, number, words } from "./format.js";
import { html, RunLink } from "./ui.js";

const ORDERS = ["pause", "resume", "retry_failed", "skip_failed", "cancel", "cancel_now", "terminate", "delete"];
const HARD = new Set(["cancel", "cancel_now", "terminate", "delete"]);
const STATES = ["pending", "scheduled", "planning", "planned", "running", "paused", "stopped"];
const SHOWN = 20;
/** Conditions of a filter whose names in the API are not the reader's. */
const CONDITIONS = { states: "the state", results: "the result", waits: "a wait for", name: "the flow or action", text: "the text", label: "the name", labels: "the label",
  by: "the caller", caller: "the parent", created_from: "a begin from", created_before: "a begin before", ended_from: "an end from", ended_before: "an end before" };

function Report({ look }) {
  return html`<ul class="report">${look.plans.slice(0, SHOWN).map((one) => html`<li key=${one.plan}><${RunLink} id=${one.plan} text=${one.label || one.plan} /> ${words(one.outcome)}${one.why && `: ${one.why}`}</li>`)}
    ${look.plans.length > SHOWN && html`<li class="quiet">and ${number(look.plans.length - SHOWN)} more</li>`}</ul>`;
}

/** What a filter asks for, as people say it; nothing without a condition. */
function said(filter) {
  const one = ([name, value]) => {
    const all = name === "labels" ? Object.entries(value).map(([label, of]) => (of === null ? label : `${label}=${of}`)) : [value].flat();
    return all.length > 0 && `${CONDITIONS[name] ?? words(name)} ${all.map((part) => `«${words(part)}»`).join(" or ")}`;
  };
  return Object.entries(filter).map(one).filter(Boolean).join(", ");
}

/** Looks what an order would do, asks, and gives it; `of` names runs or has a filter. Answers what was done, or nothing. */
export async function bulk(name, of) {
  const isAll = of.filter !== undefined && said(of.filter) === "";
  // An empty filter is refused: all states are what an unfiltered list shows.
  const body = isAll ? { filter: { ...of.filter, states: STATES }, order: name } : { ...of, order: name };
  const look = await ask("orders", { body: { ...body, dry_run: true } });
  const text = `${number(look.touched)} would be touched, ${number(look.left)} left as they are.${look.has_more ? " More runs fit: give the order again afterwards." : ""}`;
  if (look.touched === 0) {
    const why = look.plans.find((one) => one.why)?.why;
    say(`${text} Nothing was changed${why ? `: ${why}` : ""}.`, true);
    return undefined;
  }
  const fields = isAll ? [{ name: "all", label: "All runs of all flows: no filter is set", kind: "tick", required: true }] : [];
  const done = await order({ title: `${words(name)}?`, text, verb: `${words(name)} ${count(look.touched, "run")}`, fields,
    more: () => html`<${Report} look=${look} />`, perform: () => ask("orders", { body }) });
  if (done) say(`${number(done.touched)} done, ${number(done.left)} left, ${number(done.failed)} failed.`, done.failed > 0);
  return done;
}

/** Asks which order all runs of a filter are to get, and gives it. Answers what was done, or nothing. */
bulk.choose = async (filter) => {
  const about = said(filter);
  const name = await order({ title: "Bulk actions", verb: "Preview",
    text: `${about ? `For all runs with ${about}.` : "No filter is set: this is for all runs of all flows."} First it is only looked which runs would be touched.`,
    fields: [{ name: "order", label: "Action", kind: "select", value: "cancel", options: ORDERS.map((one) => [one, words(one)]) }],
    perform: (values) => values.order });
  return name && bulk(name, { filter });
};

bulk.orders = ORDERS;
bulk.isHard = (name) => HARD.has(name);

/** The query of the list as the body of an order says it; without a condition it asks for nothing. */
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
  return filter;
};
