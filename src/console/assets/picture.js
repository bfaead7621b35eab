// A plan as a graph and as a timeline, drawn from the nodes, edges and bars that the API says, a page at a time.

import { h, put, s } from "./dom.js";
import { now, number, span, taskName } from "./format.js";

const BOX = { width: 172, height: 30, gap: 26, side: 14, edge: 10 };
const WORST = ["error", "revert_failed", "running", "retrying", "suspended", "skipping", "reverting", "scheduling", "pending"];

function rank(state) {
  const at = WORST.indexOf(state);
  return at < 0 ? WORST.length : at;
}

function cut(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** What stands in each row of a page: steps, a sum of those that have no room, points that join. */
function rowsOf(graph) {
  const rows = [];
  const put = (row, box) => (rows[row - first] ??= []).push(box);
  const all = [...graph.nodes, ...graph.rests, ...graph.joints];
  const first = all.reduce((least, one) => Math.min(least, one.row), Infinity);
  for (const node of graph.nodes) put(node.row, { node, id: node.id });
  for (const rest of graph.rests) {
    const states = Object.entries(rest.states).sort(([one], [other]) => rank(one) - rank(other));
    put(rest.row, { sum: states, count: rest.steps, id: rest.id });
  }
  for (const joint of graph.joints) put(joint.row, { point: true, id: joint.id });
  return { rows, first };
}

function drawBox(box, open) {
  const { x, y } = box;
  if (box.point) return s("circle", { class: "point", cx: x + box.width / 2, cy: y + BOX.height / 2, r: 3 });
  if (box.sum) {
    const all = box.sum.map(([state, count]) => `${number(count)} ${state}`).join(", ");
    return s("g", { class: `node sum s-${box.sum[0][0]}` }, s("title", {}, all),
      s("rect", { x, y, width: box.width, height: BOX.height, rx: 5 }),
      s("text", { x: x + 8, y: y + 19 }, cut(`${number(box.count)} more: ${all}`, 27)));
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

/** The graph: which step waits for which. Only the rows of one page are there. */
export function graphPicture(root, graph, pages, open) {
  if (graph.steps === 0) return put(root, h("p", { class: "quiet" }, "Nothing runs in this plan, or it is not planned yet."));
  const { rows, first } = rowsOf(graph);
  if (rows.length === 0) return put(root, pages.bar("Only lines to what is on the page before.", 0, graph.next));
  const before = new Map();
  for (const { from, to } of graph.edges) before.has(to) ? before.get(to).push(from) : before.set(to, [from]);
  const boxOf = new Map();
  const middle = (id) => {
    const places = (before.get(id) ?? []).map((one) => boxOf.get(one)).filter(Boolean).map((box) => box.at);
    return places.length ? places.reduce((sum, at) => sum + at, 0) / places.length : 0;
  };
  const drawn = rows.map((some) => {
    // Below what it waits for, so that lines cross little.
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
  const place = [old?.scrollLeft ?? (rows.length === 1 ? 0 : (size.width - (root.clientWidth || 900)) / 2), old?.scrollTop ?? 0];
  const picture = s("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": "Graph of the steps" },
    [...lines].map(([line, kind]) => s("path", { class: kind === "output" ? "edge output" : "edge", d: line })),
    drawn.flatMap(({ boxes }) => boxes.map((box) => drawBox(box, open))));
  const wide = h("div", { class: "wide picture" }, picture);
  const rest = graph.rests.reduce((sum, one) => sum + one.steps, 0);
  const count = graph.nodes.length + rest;
  const isPart = graph.next || pages.before > 0;
  const which = isPart ? `Steps ${pages.range(count, graph.steps, "in all")}; rows ${number(first + 1)} to ${number(first + rows.length)} of ${number(graph.rows)}. ` : "";
  const sum = rest > 0 ? `${number(rest)} of these are summed up in dashed boxes. ` : "";
  const text = `${which}${isPart ? sum : sum.replace("of these", "steps")}A step waits for those above it that a line leads to; a thick line brings an output. Enter or a click opens a step.`;
  put(root, pages.bar(text, count, graph.next), wide);
  wide.scrollTo(...place);
}

/** The timeline: when each step did what. Only the steps of one page are there. */
export function timelinePicture(root, timeline, pages, open) {
  const { bars } = timeline;
  if (bars.length === 0) return put(root, h("p", { class: "quiet" }, "No step has begun yet."));
  const end = timeline.state === "stopped" || timeline.state === "paused" ? Date.parse(timeline.until) : Math.max(now(), Date.parse(timeline.until));
  const part = bars.map((bar) => {
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
  const text = `${pages.range(bars.length, timeline.total, "steps that have begun")}. Full bars: its code ran; pale ones: it waited.`;
  put(root, pages.bar(text, bars.length, timeline.next),
    h("div", { class: "wide picture" }, s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Timeline of the steps" }, grid, drawn)));
}
