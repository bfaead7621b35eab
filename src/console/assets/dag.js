// A drawing of boxes and arrows, laid out by dagre; circles are allowed.

import { graphlib, layout } from "./dagre.js";
import { html } from "./preact-htm.js";
import { cut } from "./format.js";

const BOX = { width: 168, height: 42 };

/** Places for boxes `{ id }` and lines `{ from, to }`. */
export function place(nodes, edges, direction = "TB") {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: direction, nodesep: 22, ranksep: 40, marginx: 10, marginy: 10 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, { width: node.width ?? BOX.width, height: node.height ?? BOX.height });
  edges.forEach((edge, at) => {
    const label = edge.label ? { width: Math.min(edge.label.length, 26) * 6.2, height: 16, labelpos: "c" } : {};
    if (graph.hasNode(edge.from) && graph.hasNode(edge.to)) graph.setEdge(edge.from, edge.to, label, String(at));
  });
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  const boxes = nodes.map((node) => {
    const { x, y, width: wide, height: tall } = graph.node(node.id);
    return { ...node, x: x - wide / 2, y: y - tall / 2, width: wide, height: tall };
  });
  const lines = edges.map((edge, at) => {
    const found = graph.hasNode(edge.from) && graph.hasNode(edge.to) ? graph.edge({ v: edge.from, w: edge.to, name: String(at) }) : null;
    return found && { ...edge, points: found.points, labelAt: found.x === undefined ? null : [found.x, found.y] };
  }).filter(Boolean);
  return { width: Math.ceil(width), height: Math.ceil(height), boxes, lines };
}

function Line({ of }) {
  const { points, label, labelAt, kind } = of;
  const [last, before] = [points.at(-1), points.at(-2)];
  const turn = Math.atan2(last.y - before.y, last.x - before.x);
  const corner = (by) => `${(last.x - 8 * Math.cos(turn + by)).toFixed(1)} ${(last.y - 8 * Math.sin(turn + by)).toFixed(1)}`;
  // Through the middles of the bends, so that corners are round.
  const middle = (one, other) => `${((one.x + other.x) / 2).toFixed(1)} ${((one.y + other.y) / 2).toFixed(1)}`;
  const bends = points.slice(1, -1).map((point, at) => `Q${point.x.toFixed(1)} ${point.y.toFixed(1)} ${middle(point, points[at + 2])}`).join("");
  return html`<path class=${`edge ${kind ?? ""}`} d=${`M${points[0].x.toFixed(1)} ${points[0].y.toFixed(1)}${bends}L${last.x.toFixed(1)} ${last.y.toFixed(1)}`} />
    <path class="tip" d=${`M${last.x.toFixed(1)} ${last.y.toFixed(1)}L${corner(0.4)}L${corner(-0.4)}z`} />
    ${label && labelAt && html`<text x=${labelAt[0]} y=${labelAt[1] + 4} text-anchor="middle" class="axis over"><title>${label}</title>${cut(label, 26)}</text>`}`;
}

function Box({ of }) {
  const { x, y, width, height, title, note, state, open, isChosen, mark } = of;
  const press = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } };
  const label = [title, note, mark].filter(Boolean).join(", ");
  return html`<g class=${`box ${state ? `s-${state}` : ""} ${open ? "open" : ""}`} role=${open ? "button" : null} tabindex=${open ? 0 : null} aria-label=${label} aria-current=${isChosen ? "true" : null}
      data-item=${open ? true : null} data-task=${of.id} onClick=${open} onKeyDown=${open && press}><title>${label}</title>
    <rect x=${x} y=${y} width=${width} height=${height} rx="6" /><text class="name" x=${x + 8} y=${y + 17}>${cut(title, mark ? 16 : 22)}</text>
    ${mark && html`<text class="mark" x=${x + width - 7} y=${y + 17} text-anchor="end">${mark}</text>`}
    ${note && html`<text class="axis" x=${x + 8} y=${y + 34}>${cut(note, 26)}</text>`}</g>`;
}

/** Boxes `{ id, title, note, mark, state, open, isChosen }` and lines `{ from, to, label, kind }`. */
export function Dag({ nodes, edges, label, direction }) {
  const drawn = place(nodes, edges, direction);
  return html`<div class="picture"><svg width=${drawn.width} height=${drawn.height} viewBox=${`0 0 ${drawn.width} ${drawn.height}`} role="group" aria-label=${label}>
    ${drawn.lines.map((line, at) => html`<${Line} key=${at} of=${line} />`)}${drawn.boxes.map((box) => html`<${Box} key=${box.id} of=${box} />`)}</svg></div>`;
}
