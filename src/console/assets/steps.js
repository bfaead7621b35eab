// The steps of a run as a tree, of which only what can be seen is drawn.

import { useEffect, useMemo, useRef, useState } from "./preact-htm.js";
import { between, number, plainIn, taskName } from "./format.js";
import { ACTIVE, BAD, isFlow, isOfFlow } from "./run-state.js";
import { useAsk } from "./resource.js";
import { Task } from "./task.js";
import { Badge, Dot, html, Loaded, Pager, Search, usePages } from "./ui.js";

/** The height of a row; the style sheet has the same. */
const ROW = 28;
/** Rows beyond the edge that are drawn too. */
const BEYOND = 12;
/** How many actions are asked for at once. */
const PAGE = 1000;
/** Which steps are shown, and the states that the server is asked for. */
const FILTERS = { "all steps": "", failed: [...BAD].join(","), "under way": [...ACTIVE].join(","), "not begun": "pending" };

/** The steps of all actions as a flat list with depths, as a tree is drawn. Planning that went well is left out where there is more. */
export function flatten(tree, isSifted, isOfTasks = false) {
  const rows = [];
  for (const action of tree.nodes) {
    // A flow is shown as its tasks.
    if (isOfTasks && isOfFlow(action)) continue;
    const some = action.steps.filter((node) => node.phase !== "plan" || node.state !== "success");
    const steps = some.length ? some : action.steps;
    if (steps.length !== 1 && !isSifted) rows.push({ key: `a${action.action}`, depth: action.depth, text: taskName(action.name), state: action.state });
    const own = isOfTasks ? action.depth - 1 : action.depth;
    const depth = isSifted ? 0 : steps.length === 1 ? own : own + 1;
    for (const node of steps) rows.push({ key: node.id, depth, node });
  }
  return rows;
}

function Row({ row, at, isAt, isChosen, choose, size }) {
  const { node } = row;
  const pad = html`<span class=${`pad pad-${Math.min(row.depth, 6)}`}></span>`;
  return html`<div id=${`step-row-${at}`} role="option" aria-selected=${String(isChosen)} aria-setsize=${size} aria-posinset=${at + 1} class=${`step-row${isAt ? " at" : ""}`} onClick=${choose}>
    ${pad}${!node ? html`<span class="grow cut">${row.text}</span><${Badge} of=${row.state} />` : html`<${Dot} of=${node.state} /><span class="quiet num">${node.id}</span>
      <span class="grow cut" title=${node.error?.message ?? node.name}>${taskName(node.name)}${node.phase !== "run" && html`<span class="quiet"> ${node.phase}</span>`}${node.attempts > 1 && html`<span class="quiet"> ${node.attempts} tries</span>`}
        ${node.error && html`<span class="error-line"> ${plainIn(node.error.message, taskName(node.name))}</span>`}</span>
      ${node.progress > 0 && node.progress < 1 && html`<span class="quiet">${Math.round(node.progress * 100)} %</span>`}
      <span class="quiet">${node.started_at && between(node.started_at, node.ended_at ?? (ACTIVE.has(node.state) ? null : node.started_at))}</span><${Badge} of=${node.state} />`}</div>`;
}

/** A list of which only the rows in view are elements. */
function List({ rows, chosen, choose }) {
  const place = useRef(null);
  const space = useRef(null);
  const inside = useRef(null);
  const [view, setView] = useState({ top: 0, height: 500 });
  const [at, setAt] = useState(0);
  const look = () => setView({ top: place.current.scrollTop, height: place.current.clientHeight });
  useEffect(() => {
    const watch = new ResizeObserver(look);
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  const chosenAt = rows.findIndex((row) => row.node?.id === chosen);
  useEffect(() => {
    if (chosenAt < 0) return;
    setAt(chosenAt);
    see(chosenAt);
  }, [chosenAt]);
  const first = Math.max(0, Math.floor(view.top / ROW) - BEYOND);
  const last = Math.min(rows.length, first + Math.ceil(view.height / ROW) + 2 * BEYOND);
  useEffect(() => {
    space.current.style.height = `${Math.max(1, rows.length) * ROW}px`;
    inside.current.style.transform = `translateY(${first * ROW}px)`;
  }, [rows.length, first]);
  const see = (to) => {
    const list = place.current;
    if (to * ROW < list.scrollTop) list.scrollTop = to * ROW;
    if ((to + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (to + 1) * ROW - list.clientHeight;
    look();
  };
  const key = (event) => {
    const page = Math.max(1, Math.floor(view.height / ROW) - 1);
    const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    if (by === undefined) return void (rows[at]?.node && choose(rows[at].node.id));
    const to = Math.min(rows.length - 1, Math.max(0, at + by));
    setAt(to);
    see(to);
  };
  return html`<div ref=${place} class="steps" role="listbox" tabindex="0" aria-label="Steps" aria-activedescendant=${`step-row-${at}`} data-item onScroll=${look} onKeyDown=${key}>
    <div ref=${space} class="space" role="presentation"><div ref=${inside} class="window" role="presentation">
      ${rows.slice(first, last).map((row, place) => html`<${Row} key=${row.key} row=${row} at=${first + place} size=${rows.length} isAt=${first + place === at}
        isChosen=${row.node !== undefined && row.node.id === chosen} choose=${() => { setAt(first + place); if (row.node) choose(row.node.id); }} />`)}
      ${rows.length === 0 && html`<p class="quiet">No step fits.</p>`}</div></div></div>`;
}

/** The steps of a run beside the chosen one. */
export function Steps({ run, chosen, choose }) {
  const isOver = run.state === "stopped";
  const isOfTasks = isFlow(run);
  const what = isOfTasks ? "task" : "step";
  const isLarge = Object.values(run.steps).reduce((sum, some) => sum + some, 0) > PAGE;
  const failed = [...BAD].some((state) => run.steps[state] > 0);
  const [filter, setFilter] = useState(isLarge && failed ? "failed" : "all steps");
  const [text, setText] = useState("");
  const pages = usePages(`${filter} ${text}`);
  const query = { limit: PAGE, cursor: pages.cursor, state: FILTERS[filter], text };
  const found = useAsk("tree", { at: { plan: run.id }, query }, { live: isOver ? null : run.id, isIdle: isOver || isLarge });
  const isSifted = filter !== "all steps" || text !== "";
  const rows = useMemo(() => {
    if (!found.data) return [];
    const all = flatten(found.data, isSifted, isOfTasks);
    const states = FILTERS[filter].split(",");
    // A number is that of one step.
    const isNumber = all.some(({ node }) => String(node?.id) === text);
    return all.filter(({ node }) => (filter === "all steps" || states.includes(node?.state)) && (!isNumber || String(node?.id) === text));
  }, [found.data, isSifted]);
  // What needs somebody is opened by itself.
  const first = rows.find(({ node }) => node && BAD.has(node.state)) ?? rows.find(({ node }) => node && ACTIVE.has(node.state)) ?? (rows.length < 4 ? rows.findLast(({ node }) => node) : null);
  const id = chosen ?? first?.node.id ?? null;
  return html`<div class="filters"><${Search} value=${text} onText=${setText} label=${`Search ${what}s`} placeholder=${isOfTasks ? "Name of a task" : "Name or number of a step"} />
      <select aria-label=${`Which ${what}s`} onChange=${(event) => setFilter(event.currentTarget.value)}>${Object.keys(FILTERS).map((name) => html`<option key=${name} value=${name} selected=${name === filter}>${isOfTasks ? name.replace("steps", "tasks") : name}</option>`)}</select></div>
    <div class="split"><div><${Loaded} of=${found}>${(tree) => html`
      ${(tree.next || pages.back.length > 0) && html`<${Pager} pages=${pages} count=${tree.nodes.length} total=${tree.total} next=${tree.next} what=${isSifted ? "actions that fit" : "actions"} />`}
      ${tree.total === 0 && !isSifted ? html`<p class="quiet">It has no steps yet: they come with planning.</p>` : html`<${List} rows=${rows} chosen=${id} choose=${choose} />`}`}<//></div>
    ${id === null ? html`<aside class="panel"><p class="quiet">Choose a ${what} to see all of it. ${number(rows.length)} are listed.</p></aside>` : html`<${Task} key=${id} run=${run} id=${id} choose=${choose} />`}</div>`;
}
