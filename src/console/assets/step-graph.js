// A run without a definition as the graph of its steps: which step waits for which, a page at a time.

import { cut, number, taskName } from "./format.js";
import { rank } from "./run-state.js";
import { useAsk } from "./resource.js";
import { Task } from "./task.js";
import { html, Loaded, Pager, usePages } from "./ui.js";

const BOX = { width: 180, height: 30, gap: 26, side: 14, edge: 10 };
/** What is asked for: rows are summed up beyond so many boxes. */
const PAGE = 500;
const BESIDE = 19;

/** What stands in each row of a page: steps, a sum of those that have no room, points that join. */
function rowsOf(graph) {
  const rows = [];
  const all = [...graph.nodes, ...graph.rests, ...graph.joints];
  const first = all.reduce((least, one) => Math.min(least, one.row), Infinity);
  const put = (row, box) => (rows[row - first] ??= []).push(box);
  for (const node of graph.nodes) put(node.row, { node, id: node.id });
  for (const rest of graph.rests) {
    const states = Object.entries(rest.states).sort(([one], [other]) => rank(one) - rank(other));
    put(rest.row, { sum: states, count: rest.steps, id: rest.id });
  }
  for (const joint of graph.joints) put(joint.row, { point: true, id: joint.id });
  return { rows: rows.filter(Boolean), first };
}

/** Places for all boxes, below what they wait for, so that lines cross little. */
function layout(graph) {
  const { rows } = rowsOf(graph);
  const before = new Map();
  for (const { from, to } of graph.edges) before.has(to) ? before.get(to).push(from) : before.set(to, [from]);
  const boxOf = new Map();
  const middle = (id) => {
    const places = (before.get(id) ?? []).map((one) => boxOf.get(one)).filter(Boolean).map((box) => box.at);
    return places.length ? places.reduce((sum, at) => sum + at, 0) / places.length : 0;
  };
  const drawn = rows.map((some) => {
    const boxes = some.map((box) => ({ ...box, sort: middle(box.id), width: box.point ? 10 : box.sum ? BOX.width + 30 : BOX.width }));
    boxes.sort((one, other) => one.sort - other.sort || one.id - other.id);
    const width = boxes.reduce((sum, box) => sum + box.width + BOX.side, -BOX.side);
    let left = -width / 2;
    for (const box of boxes) {
      box.left = left;
      box.at = left + box.width / 2;
      left += box.width + BOX.side;
      boxOf.set(box.id, box);
    }
    return { boxes, width };
  });
  const most = Math.max(...drawn.map((one) => one.width));
  drawn.forEach(({ boxes }, at) => boxes.forEach((box) => {
    box.x = box.left + most / 2 + BOX.edge;
    box.y = BOX.edge + at * (BOX.height + BOX.gap);
  }));
  return { boxOf, width: most + 2 * BOX.edge, height: drawn.length * (BOX.height + BOX.gap) - BOX.gap + 2 * BOX.edge };
}

function linesOf(graph, boxOf) {
  const lines = new Map();
  for (const { from, to, kind } of graph.edges) {
    const [one, other] = [boxOf.get(from), boxOf.get(to)];
    if (!one || !other || one === other) continue;
    const [x1, y1] = [one.x + one.width / 2, one.point ? one.y + BOX.height / 2 : one.y + BOX.height];
    const [x2, y2] = [other.x + other.width / 2, other.point ? other.y + BOX.height / 2 : other.y];
    const bend = (y2 - y1) / 2;
    const line = `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
    if (!lines.has(line) || kind === "output") lines.set(line, kind);
  }
  return [...lines];
}

function Box({ box, chosen, choose }) {
  const { x, y } = box;
  if (box.point) return html`<circle class="point" cx=${x + box.width / 2} cy=${y + BOX.height / 2} r="3" />`;
  if (box.sum) {
    const all = box.sum.map(([state, count]) => `${number(count)} ${state}`).join(", ");
    return html`<g class=${`box sum s-${box.sum[0][0]}`}><title>${all}</title><rect x=${x} y=${y} width=${box.width} height=${BOX.height} rx="5" />
      <text x=${x + 8} y=${y + 19}>${cut(`${number(box.count)} more: ${all}`, 29)}</text></g>`;
  }
  const { node } = box;
  const text = `${node.id}. ${taskName(node.name)}`;
  return html`<g class=${`box node open s-${node.state}`} tabindex="0" role="button" data-item aria-label=${`Step ${text}, ${node.state}`} aria-current=${node.id === chosen ? "true" : null}
      onClick=${() => choose(node.id)} onKeyDown=${(event) => { if (event.key === "Enter") choose(node.id); }}>
    <title>${`${text}: ${node.state}${node.waits_for ? `, ${node.waits_for}` : ""}`}</title><rect x=${x} y=${y} width=${box.width} height=${BOX.height} rx="5" />
    <text x=${x + 8} y=${y + 19}>${cut(text, 24)}</text>
    ${node.progress > 0 && node.progress < 1 && html`<rect class="done" x=${x} y=${y + BOX.height - 3} width=${box.width * node.progress} height="3" />`}</g>`;
}

/** The graph beside the chosen step; only the rows of one page are there. */
export function StepGraph({ run, chosen, choose }) {
  const pages = usePages("graph");
  const isOver = run.state === "stopped";
  const found = useAsk("graph", { at: { plan: run.id }, query: { limit: PAGE, beside: BESIDE, cursor: pages.cursor } }, { live: isOver ? null : run.id, isIdle: isOver });
  return html`<div class=${chosen === null ? "" : "split"}><div><${Loaded} of=${found}>${(graph) => {
    if (graph.steps === 0) return html`<p class="quiet">Nothing runs here, or it is not planned yet.</p>`;
    const rest = graph.rests.reduce((sum, one) => sum + one.steps, 0);
    const count = graph.nodes.length + rest;
    if (count === 0) return html`<${Pager} pages=${pages} count=${0} total=${graph.steps} next=${graph.next} what="steps" />`;
    const { boxOf, width, height } = layout(graph);
    return html`${(graph.next || pages.back.length > 0) && html`<${Pager} pages=${pages} count=${count} total=${graph.steps} next=${graph.next} what="steps" />`}
      <div class="picture"><svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label="Graph of the steps">
        ${linesOf(graph, boxOf).map(([line, kind]) => html`<path key=${line} class=${kind === "output" ? "edge output" : "edge"} d=${line} />`)}
        ${[...boxOf.values()].map((box) => html`<${Box} key=${box.id} box=${box} chosen=${chosen} choose=${choose} />`)}</svg></div>
      <p class="quiet">A step waits for those above it that a line leads to; a thick line brings an output.${rest > 0 && ` ${number(rest)} steps are summed up in dashed boxes.`}</p>`;
  }}<//></div>${chosen !== null && html`<${Task} key=${chosen} run=${run} id=${chosen} choose=${choose} />`}</div>`;
}
