// The list of runs: one line a run, filters that are kept in the address, orders for many.

import { useLayoutEffect, useRef, useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { bulk } from "./bulk.js";
import { order, say } from "./dialogs.js";
import { between, count, number, plain, words } from "./format.js";
import { useFigures, useResource } from "./resource.js";
import { columns as chosen, useCell, zone } from "./settings.js";
import { Ago, Badge, Clock, Head, html, Loaded, nameOf, Notice, reason, RunLink, runAddress, Search, stateOf, tellTyped, useKept, useSlices, useTitle } from "./ui.js";

const STATES = ["pending", "scheduled", "planning", "planned", "running", "paused", "stopped"];
const RESULTS = ["success", "warning", "error", "cancelled", "reverted"];
const WAITS = ["decision", "permission", "plan", "time", "lock", "sub-plans", "event", "timer", "retry", "place", "store"];
const ACTIVE = STATES.filter((state) => state !== "stopped");
/** What is in the query of an address, and asked of the server as it is. */
const ASKED = ["state", "result", "waits", "name", "text", "label", "labels", "action", "key", "by", "caller", "created_from",
  "created_before", "ended_from", "ended_before", "node", "order", "cursor"];
const PLAN_ID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;
const PAGE = 100;
/** Ready choices of states; «failed» is asked for in two parts, those that are held first. */
const SHOWS = { all: {}, active: { state: ACTIVE.join(",") }, failed: { result: "error" }, paused: { state: "paused" }, succeeded: { result: "success" }, cancelled: { result: "cancelled" } };
const SINCE = { "": "any time", 1: "last hour", 24: "last day", 168: "last week", 720: "last month" };

/** Columns that can be shown: heading, class, cell. */
const COLUMNS = {
  flow: ["Name", "name", (run) => html`<a href=${runAddress(run.id)} title=${`${nameOf(run)} ${run.id}`} data-item>${nameOf(run)}</a>`],
  reason: ["Error or reason to wait", "grow", (run) => html`<span class=${run.error ? "error-line" : "quiet"} title=${run.error ?? run.waits_for}>${plain(run.error ?? run.waits_for)}</span>`],
  created: ["Created", "", (run) => html`<${Ago} at=${run.created_at} />`],
  took: ["Took", "right", (run) => between(run.started_at, run.ended_at)],
  ended: ["Ended", "", (run) => html`<${Clock} at=${run.ended_at} />`],
  by: ["By", "", (run) => run.by],
  labels: ["Labels", "", (run) => Object.entries(run.labels ?? {}).filter(([name]) => !/^(flow\.|planned$)/.test(name)).slice(0, 4).map(([name, value]) =>
    html`<a class="label" key=${name} href=${`#/runs?labels=${encodeURIComponent(`${name}=${value}`)}`} title="Only runs with this label">${value ? `${name}=${value}` : name}</a>`)],
  id: ["Id", "", (run) => html`<${RunLink} id=${run.id} />`],
};
const FIRST = ["flow", "reason", "created", "took", "labels"];

/** The query of the address as the server wants it. */
export function asked(query) {
  const of = Object.fromEntries(ASKED.map((name) => [name, query.get(name) ?? undefined]));
  const show = SHOWS[query.get("show")] ?? {};
  const since = Number(query.get("since"));
  const from = since > 0 ? new Date(Math.floor(Date.now() / 60000) * 60000 - since * 3_600_000).toISOString() : of.created_from;
  return { ...of, ...show, created_from: from };
}

/** The query of the address as it is now: what is drawn may be a moment behind it. */
function queryNow() {
  return new URLSearchParams(location.hash.split("?")[1] ?? "");
}

function useChosen() {
  const text = useCell(chosen);
  const names = text.split(",").filter((name) => name in COLUMNS);
  return names.length > 0 ? names : FIRST;
}

async function choose(names) {
  await order({ title: "Columns", verb: "Show them", fields: Object.entries(COLUMNS).filter(([name]) => name !== "flow").map(([name, [heading]]) =>
    ({ name, label: heading, kind: "tick", value: names.includes(name) })),
  perform: (values) => { chosen.set(["flow", ...Object.keys(COLUMNS).filter((name) => values[name])].join(",")); } });
}

function Filters({ query, go, all }) {
  const search = (text) => {
    if (PLAN_ID.test(text)) location.hash = runAddress(text);
    else if (/^[\w.-]+=/.test(text)) go({ labels: text, text: "" });
    else go({ text, labels: "" });
  };
  const pick = (name, label, options) => html`<select aria-label=${label} class=${query.get(name) ? "on" : ""} onChange=${(event) => go({ [name]: event.currentTarget.value })}>
    ${options.map(([value, text]) => html`<option key=${value} value=${value} selected=${(query.get(name) ?? "") === value}>${text}</option>`)}</select>`;
  const of = (name, known) => [...new Set([...known, query.get(name)].filter(Boolean))];
  const counts = { ...all?.states };
  const results = { ...all?.results };
  const named = (name, many) => `${words(name)}${many[name] ? ` (${number(many[name])})` : ""}`;
  return html`<div class="filters" role="search">
    <${Search} value=${query.get("labels") ?? query.get("text") ?? ""} onText=${search} label="Search runs" placeholder="Name, error, label=value, id" />
    <${Search} value=${query.get("name") ?? ""} onText=${(name) => go({ name })} label="Flow or action" placeholder="Flow" kind="small" />
    ${pick("state", "State", [["", "any state"], ...of("state", STATES).map((name) => [name, named(name, counts)])])}
    ${pick("result", "Result", [["", "any result"], ...of("result", RESULTS).map((name) => [name, named(name, results)])])}
    ${pick("waits", "Waits for", [["", "waits or not"], ...of("waits", WAITS).map((name) => [name, `waits for ${words(name)}`])])}
    ${pick("since", "Created", Object.entries(SINCE))}
    ${pick("order", "Order", [["", "newest first"], ["oldest", "oldest first"]])}
    ${query.get("node") && html`<button class="chip" aria-pressed="true" title="Show the runs of all nodes" onClick=${() => go({ node: "" })}>node ${query.get("node")} ×</button>`}
  </div>`;
}

function Shows({ query }) {
  // Its room is kept: what is below does not move when a filter is set.
  const isFiltered = [...query.keys()].some((name) => name !== "cursor");
  const now = query.get("show") ?? ([...query.keys()].length === 0 ? "all" : "");
  return html`<nav class="chips" aria-label="Ready filters">${Object.keys(SHOWS).map((name) =>
    html`<a key=${name} class="chip" href=${name === "all" ? "#/runs" : `#/runs?show=${name}`} aria-current=${name === now ? "true" : null}>${name}</a>`)}
    <a class=${isFiltered ? "chip" : "chip away"} href="#/runs">Clear</a></nav>`;
}

function Ticks({ runs, ticked, setTicked, reload }) {
  const isAll = runs.length > 0 && runs.every((run) => ticked.has(run.id));
  const shown = [...ticked];
  const give = async (act) => {
    try {
      if (await act()) setTicked(new Set());
    } catch (error) {
      say(reason(error), true);
    }
    reload();
  };
  const many = () => {
    // What was typed a moment ago counts too.
    tellTyped();
    give(() => bulk.choose(bulk.filter(asked(queryNow()))));
  };
  return html`<div class="ticks" role="status"><p class="buttons">
    <label class="tick-all"><input type="checkbox" checked=${isAll} disabled=${runs.length === 0} aria-label="Tick all of this page" onChange=${() => setTicked(new Set(isAll ? [] : runs.map((run) => run.id)))} /> all of this page</label>
    ${shown.length === 0 ? html`<button data-change onClick=${many}>Bulk actions…</button>`
      : html`<b>${number(shown.length)} ticked</b>${bulk.orders.map((name) => html`<button data-change key=${name} class=${bulk.isHard(name) ? "hard" : ""} onClick=${() => give(() => bulk(name, { plans: shown }))}>${words(name)}</button>`)}
        <button class="link" onClick=${() => setTicked(new Set())}>Untick all</button>`}
  </p></div>`;
}

/** The widths of the columns, as a grid has them: what has no text of its own length gives room. */
function widths(names) {
  const last = names.length - 1;
  const hasRoom = names.includes("reason");
  const one = (name, at) => {
    const kind = COLUMNS[name][1];
    if (kind === "grow") return "minmax(9rem, 1fr)";
    if (kind === "name") return hasRoom ? "minmax(9rem, 18rem)" : "minmax(9rem, 1fr)";
    return kind === "right" ? "5.5rem" : at === last ? "10rem" : "8rem";
  };
  return ["2.1rem", "6.2rem", ...names.map(one)].join(" ");
}

/** The lines themselves: drawn apart from the filters, as they change much more often. */
function Rows({ runs, of, names, ticked, tick }) {
  const row = useKept((run) => html`<tr key=${run.id} role="row">
    <td class="tick" role="cell"><label class="tick-box"><input type="checkbox" checked=${ticked.has(run.id)} aria-label=${`Tick ${nameOf(run)} ${run.id}`} onChange=${() => tick(run.id)} /></label></td>
    <td class="state" role="cell"><${Badge} of=${stateOf(run)} /></td>
    ${names.map((name) => html`<td key=${name} class=${COLUMNS[name][1]} role="cell">${COLUMNS[name][2](run)}</td>`)}</tr>`, `${names} ${useCell(zone)} ${[...ticked]}`);
  const drawn = useSlices(runs, of, (run) => run.id);
  const place = useRef(null);
  const columns = widths(names);
  useLayoutEffect(() => { place.current.style.setProperty("--columns", columns); }, [columns]);
  return html`<div class="wide runs" ref=${place}><table role="table">
    <caption class="hidden">Runs</caption>
    <thead role="rowgroup"><tr role="row"><th class="tick" role="columnheader"></th><th scope="col" role="columnheader">State</th>${names.map((name) => html`<th key=${name} scope="col" role="columnheader" class=${COLUMNS[name][1]}>${COLUMNS[name][0]}</th>`)}</tr></thead>
    <tbody role="rowgroup">${drawn.map((run) => (run.ended_at ? row(run, run.id) : row({ ...run, at: Date.now() }, run.id)))}</tbody></table></div>`;
}

export function Runs({ query }) {
  useTitle("Runs");
  const [ticked, setTicked] = useState(new Set());
  const back = useRef([]);
  const names = useChosen();
  const of = asked(query);
  const key = JSON.stringify(of);
  const page = useResource(key, (signal) => ask("plans", { query: { ...of, limit: PAGE }, signal }), { live: "all" });
  const all = useFigures();
  // What was found stays while other words are looked for.
  const last = useRef(null);
  if (page.data) last.current = page.data;
  const shown = page.data || page.error ? page : { ...page, data: last.current };
  const go = (changes) => {
    const next = queryNow();
    if (Object.keys(changes).some((name) => ["state", "result"].includes(name))) next.delete("show");
    for (const [name, value] of Object.entries(changes)) {
      if (value) next.set(name, value);
      else next.delete(name);
    }
    if (!("cursor" in changes)) {
      next.delete("cursor");
      back.current = [];
    }
    const text = next.toString().replaceAll("%2C", ",");
    location.hash = text ? `#/runs?${text}` : "#/runs";
  };
  const tick = (id) => {
    const next = new Set(ticked);
    if (!next.delete(id)) next.add(id);
    setTicked(next);
  };
  return html`<${Head} title="Runs"><button onClick=${() => choose(names)}>Columns…</button><//>
    <${Shows} query=${query} /><${Filters} query=${query} go=${go} all=${all.data} />
    <${Loaded} of=${shown}>${({ plans, next, is_partial: isPartial }) => html`
      <${Ticks} runs=${plans} ticked=${ticked} setTicked=${setTicked} reload=${page.reload} />
      ${plans.length === 0 ? html`<${Nothing} all=${all.data} isPartial=${isPartial} />` : html`<${Rows} runs=${plans} of=${key} names=${names} ticked=${ticked} tick=${tick} />`}
      <p class="buttons"><span class="quiet">${count(plans.length, "run")} on this page.${isPartial && " The search has stopped for now: older runs are not looked at yet."}</span>
        ${query.get("cursor") && html`<button onClick=${() => go({ text: query.get("text") })}>First page</button>`}
        ${back.current.length > 0 && html`<button onClick=${() => go({ cursor: back.current.pop() })}>Previous</button>`}
        ${next && html`<button onClick=${() => { back.current.push(query.get("cursor") ?? ""); go({ cursor: next }); }}>${isPartial ? "Search further" : "Next"}</button>`}</p>`}<//>`;
}

function Nothing({ all, isPartial }) {
  if (all?.total === 0) {
    return html`<${Notice} title="There is no run yet" text="Start a flow, or an action of the program that serves.">
      <p><a href="#/flows">Flows</a> · <a href="#/system/actions">Actions</a></p><//>`;
  }
  if (isPartial) return html`<${Notice} title="No run fits so far" text="Many runs were looked at, and others are left: search further below." />`;
  return html`<${Notice} title="No run fits" text="Take a condition away, or look at all of them."><p><a href="#/runs">All runs</a></p><//>`;
}
