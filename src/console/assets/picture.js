// A plan as a graph and as a timeline, drawn from the nodes, edges and bars that the API says.

import { h, put, s } from "./dom.js";
import { now, number, span, taskName } from "./format.js";

const BOX = { width: 172, height: 30, gap: 26, side: 14, edge: 10 };
/** Boxes beside each other; of more the first, what needs a look, and a sum. */
const BESIDE_MAX = 20;
/** Rows of the graph on one page. */
const ROWS = 120;
/** Bars on one page of the timeline. */
const BARS = 200;

const WORST = ["error", "revert_failed", "running", "retrying", "suspended", "skipping", "reverting", "scheduling", "pending"];

function rank(state) {
  const at = WORST.indexOf(state);
  return at < 0 ? WORST.length : at;
}

function cut(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** The row of each node: below all that it waits for. Nodes on a circle, which no plan has, are left out. */
function rowsOf(ids, edges) {
  const after = new Map(ids.map((id) => [id, []]));
  const open = new Map(ids.map((id) => [id, 0]));
  for (const { from, to } of edges) {
    if (!after.has(from) || !after.has(to)) continue;
    after.get(from).push(to);
    open.set(to, open.get(to) + 1);
  }
  const row = new Map();
  const ready = ids.filter((id) => open.get(id) === 0);
  for (const id of ready) row.set(id, 0);
  for (let at = 0; at < ready.length; at += 1) {
    const id = ready[at];
    for (const next of after.get(id)) {
      row.set(next, Math.max(row.get(next) ?? 0, row.get(id) + 1));
      open.set(next, open.get(next) - 1);
      if (open.get(next) === 0) ready.push(next);
    }
  }
  return row;
}

/** What stands in one row: steps, a sum of those that have no room, points that join. */
function boxesOf(ids, nodes) {
  const steps = ids.filter((id) => nodes.has(id));
  const points = ids.filter((id) => !nodes.has(id)).map((id) => ({ point: true, ids: [id] }));
  if (steps.length <= BESIDE_MAX) return [...steps.map((id) => ({ node: nodes.get(id), ids: [id] })), ...points];
  const worst = [...steps.slice(4)].sort((one, other) => rank(nodes.get(one).state) - rank(nodes.get(other).state));
  const kept = new Set([...steps.slice(0, 4), ...worst.slice(0, BESIDE_MAX - 5)]);
  const rest = steps.filter((id) => !kept.has(id));
  const counts = new Map();
  for (const id of rest) counts.set(nodes.get(id).state, (counts.get(nodes.get(id).state) ?? 0) + 1);
  const states = [...counts].sort(([one], [other]) => rank(one) - rank(other));
  return [...steps.filter((id) => kept.has(id)).map((id) => ({ node: nodes.get(id), ids: [id] })), { sum: states, ids: rest }, ...points];
}

function drawBox(box, open) {
  const { x, y } = box;
  if (box.point) return s("circle", { class: "point", cx: x + box.width / 2, cy: y + BOX.height / 2, r: 3 });
  if (box.sum) {
    const all = box.sum.map(([state, count]) => `${number(count)} ${state}`).join(", ");
    return s("g", { class: `node sum s-${box.sum[0][0]}` }, s("title", {}, all),
      s("rect", { x, y, width: box.width, height: BOX.height, rx: 5 }),
      s("text", { x: x + 8, y: y + 19 }, cut(`${number(box.ids.length)} more: ${all}`, 27)));
  }
  const { node } = box;
  const go = () => open(node.id);
  return s("g", {
    class: `node s-${node.state}`, tabindex: 0, role: "link", "data-item": true, "data-key": `node-${node.id}`, "aria-label": `Step ${node.id}, ${taskName(node.name)}, ${node.state}`,
    on: { click: go, keydown: (event) => { if (event.key === "Enter") go(); } },
  }, s("title", {}, `${node.id}. ${taskName(node.name)}: ${node.state}${node.waits_for ? `, ${node.waits_for}` : ""}`),
  s("rect", { x, y, width: box.width, height: BOX.height, rx: 5 }),
  s("text", { x: x + 8, y: y + 19 }, cut(`${node.id}. ${taskName(node.name)}`, 23)),
  node.progress > 0 && node.progress < 1 && s("rect", { class: "done", x, y: y + BOX.height - 3, width: box.width * node.progress, height: 3 }));
}

/** Turns pages; which one is shown is kept on the element. */
function pager(root, page, pages, text, again) {
  const turn = (to) => () => { root.dataset.page = String(to); again(); };
  return h("p", { class: "buttons" }, h("span", { class: "quiet" }, text),
    page > 0 && h("button", { "data-key": "earlier", on: { click: turn(page - 1) } }, "Earlier"),
    page < pages - 1 && h("button", { "data-key": "later", on: { click: turn(page + 1) } }, "Later"));
}

/** The graph: which step waits for which. */
export function graphPicture(root, graph, open) {
  const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
  if (nodes.size === 0) return put(root, h("p", { class: "quiet" }, "Nothing runs in this plan, or it is not planned yet."));
  const row = rowsOf([...nodes.keys(), ...graph.joints], graph.edges);
  const rows = [];
  for (const [id, at] of row) (rows[at] ??= []).push(id);
  const pages = Math.ceil(rows.length / ROWS);
  const page = Math.min(pages - 1, Number(root.dataset.page ?? 0));
  const shown = rows.slice(page * ROWS, (page + 1) * ROWS);
  const before = new Map();
  for (const { from, to } of graph.edges) before.has(to) ? before.get(to).push(from) : before.set(to, [from]);
  const boxOf = new Map();
  const middle = (id) => {
    const places = (before.get(id) ?? []).map((one) => boxOf.get(one)).filter(Boolean).map((box) => box.at);
    return places.length ? places.reduce((sum, at) => sum + at, 0) / places.length : 0;
  };
  const drawn = shown.map((ids) => {
    ids.sort((one, other) => one - other);
    // Below what it waits for, so that lines cross little.
    const boxes = boxesOf(ids, nodes).map((box) => ({ ...box, sort: middle(box.ids[0]), width: box.point ? 10 : box.sum ? BOX.width + 30 : BOX.width }));
    boxes.sort((one, other) => one.sort - other.sort || one.ids[0] - other.ids[0]);
    const width = boxes.reduce((sum, box) => sum + box.width + BOX.side, -BOX.side);
    let left = -width / 2;
    for (const box of boxes) {
      box.left = left;
      box.at = left + box.width / 2;
      left += box.width + BOX.side;
      for (const id of box.ids) boxOf.set(id, box);
    }
    return { boxes, width };
  });
  const most = Math.max(...drawn.map((one) => one.width));
  const size = { width: most + 2 * BOX.edge, height: drawn.length * (BOX.height + BOX.gap) - BOX.gap + 2 * BOX.edge };
  drawn.forEach(({ boxes }, at) => boxes.forEach((box) => {
    box.x = box.left + most / 2 + BOX.edge;
    box.y = BOX.edge + at * (BOX.height + BOX.gap);
  }));
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
  const old = root.querySelector(".wide");
  const place = [old?.scrollLeft ?? (size.width - (root.clientWidth || 900)) / 2, old?.scrollTop ?? 0];
  const picture = s("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": "Graph of the steps" },
    [...lines].map(([line, kind]) => s("path", { class: kind === "output" ? "edge output" : "edge", d: line })),
    drawn.flatMap(({ boxes }) => boxes.map((box) => drawBox(box, open))));
  const wide = h("div", { class: "wide picture" }, picture);
  const text = pages > 1 ? `Rows ${number(page * ROWS + 1)} to ${number(page * ROWS + shown.length)} of ${number(rows.length)}. ` : "";
  put(root, pager(root, page, pages, `${text}A step waits for those above it that a line leads to; a thick line brings an output. Enter or a click opens a step.`, () => graphPicture(root, graph, open)), wide);
  wide.scrollTo(...place);
}

/** The timeline: when each step did what. */
export function timelinePicture(root, timeline, open) {
  // Planning is over in no time: it is shown only if it was not.
  const bars = timeline.bars.filter((bar) => bar.phase !== "plan" || bar.state !== "success");
  if (bars.length === 0) return put(root, h("p", { class: "quiet" }, "No step has begun yet."));
  const end = timeline.state === "stopped" || timeline.state === "paused" ? Date.parse(timeline.until) : Math.max(now(), Date.parse(timeline.until));
  const pages = Math.ceil(bars.length / BARS);
  const page = Math.min(pages - 1, Number(root.dataset.page ?? 0));
  const part = bars.slice(page * BARS, (page + 1) * BARS).map((bar) => {
    const spans = bar.spans.map((one) => ({ ...one, from: Date.parse(one.from), to: one.to ? Date.parse(one.to) : end }));
    return { bar, spans, from: Math.min(...spans.map((one) => one.from)), to: Math.max(...spans.map((one) => one.to)) };
  }).filter(({ spans }) => spans.length > 0);
  const least = part.reduce((all, one) => Math.min(all, one.from), Infinity);
  const most = Math.max(part.reduce((all, one) => Math.max(all, one.to), 0), least + 1);
  const width = Math.max(320, (root.clientWidth || 900) - 20);
  const names = Math.min(170, width * 0.38);
  const room = width - names - 66;
  const scale = room / (most - least);
  const row = 22;
  const height = part.length * row + 28;
  const grid = [0, 1, 2, 3, 4].map((at) => {
    const x = names + (room * at) / 4;
    return [s("line", { class: "grid", x1: x, x2: x, y1: 18, y2: height }), s("text", { class: "axis", x, y: 12 }, span(((most - least) * at) / 4))];
  });
  const drawn = part.map(({ bar, spans, from, to }, at) => {
    const y = 24 + at * row;
    const go = () => open(bar.step);
    const text = `Step ${bar.step}, ${taskName(bar.name)} ${bar.phase}, ${bar.state}, ${span(to - from)}`;
    return s("g", {
      class: `bar s-${bar.state}`, tabindex: 0, role: "link", "data-item": true, "data-key": `bar-${bar.step}`, "aria-label": text,
      on: { click: go, keydown: (event) => { if (event.key === "Enter") go(); } },
    }, s("title", {}, text), s("rect", { class: "hit", x: 0, y, width, height: row - 2 }),
    s("text", { x: 4, y: y + 14 }, cut(`${bar.step}. ${taskName(bar.name)}`, Math.floor(names / 7.5))),
    spans.map((one) => s("rect", { class: `time k-${one.kind}`, x: names + (one.from - least) * scale, y: y + 3, width: Math.max(2, (one.to - one.from) * scale), height: row - 8, rx: 2 },
      s("title", {}, `${one.kind.replaceAll("_", " ")}, attempt ${one.attempt}, ${span(one.to - one.from)}`))),
    s("text", { class: "axis", x: names + Math.max(2, (to - least) * scale) + 4, y: y + 14 }, span(to - from)));
  });
  const text = `${number(page * BARS + 1)} to ${number(page * BARS + part.length)} of ${number(bars.length)} steps that have begun. Full bars: its code ran; pale ones: it waited.`;
  put(root, pager(root, page, pages, text, () => timelinePicture(root, timeline, open)),
    h("div", { class: "wide picture" }, s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Timeline of the steps" }, grid, drawn)));
}
