// The graph of a flow before it is run, drawn from its definition: tasks below each other, what they
// hold inside them, branches beside each other.

import { h, put, s } from "./dom.js";

const BOX = { width: 190, height: 42, gap: 24, side: 18, pad: 12, head: 24, lane: 12 };
/** Tasks inside each other deeper than this are told as a number. */
const DEEP = 12;

const KINDS = ["call", "do", "emit", "for", "fork", "listen", "raise", "run", "set", "switch", "try", "wait"];
const END = new Set(["end", "exit"]);

function kindOf(task) {
  // A loop and a try have a «do» of their own.
  return KINDS.find((kind) => kind !== "do" && kind in task) ?? ("do" in task ? "do" : "task");
}

function cut(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** What a task is about, in a few words. */
function about(kind, task) {
  const short = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const first = (value) => (value && typeof value === "object" ? Object.keys(value).join(", ") : short(value));
  const words = {
    call: () => (task.call === "http" ? `${task.with?.method ?? "get"} ${short(task.with?.endpoint?.uri ?? task.with?.endpoint ?? "")}` : short(task.call)),
    emit: () => short(task.emit?.event?.with?.type ?? ""),
    for: () => `${task.for?.each ?? "item"} in ${short(task.for?.in ?? "")}`,
    fork: () => (task.fork?.compete ? "the first one wins" : "all of them"),
    listen: () => `${first(task.listen?.to)}: ${(task.listen?.to?.any ?? task.listen?.to?.all ?? [task.listen?.to?.one]).map((one) => one?.with?.type ?? "any event").join(", ")}`,
    raise: () => short(task.raise?.error?.type ?? task.raise?.error ?? ""),
    run: () => `${first(task.run)}${task.run?.shell ? `: ${short(task.run.shell.command)}` : ""}`,
    set: () => first(task.set),
    wait: () => (typeof task.wait === "object" ? Object.entries(task.wait).map(([unit, count]) => `${count} ${unit}`).join(" ") : short(task.wait)),
  }[kind];
  return words ? words() : "";
}

/** The blocks inside a task: each with what stands above it. */
function insideOf(kind, task) {
  const list = (value) => (Array.isArray(value) ? value : []);
  if (kind === "do") return [["", list(task.do)]];
  if (kind === "for") return [["", list(task.do)]];
  if (kind === "try") return [["", list(task.try)], ...(task.catch?.do ? [["catch", list(task.catch.do)]] : [])];
  if (kind === "fork") return list(task.fork?.branches).map((branch) => [Object.keys(branch)[0] ?? "", [branch]]);
  if (kind === "listen" && task.foreach?.do) return [["each event", list(task.foreach.do)]];
  return [];
}

function count(block) {
  return block.reduce((sum, entry) => sum + 1 + insideOf(kindOf(Object.values(entry)[0] ?? {}), Object.values(entry)[0] ?? {}).reduce((all, [, inner]) => all + count(inner), 0), 0);
}

/** How large a task is, and how it is drawn at a place. */
function taskOf(name, task, depth) {
  const kind = kindOf(task);
  const inner = insideOf(kind, task).filter(([, block]) => block.length > 0);
  const condition = task.if ? `if ${task.if}` : "";
  const title = `${name}: ${kind} ${about(kind, task)} ${condition}`.trim();
  if (inner.length === 0 || depth >= DEEP) {
    const more = inner.length ? `${inner.reduce((sum, [, block]) => sum + count(block), 0)} tasks inside` : about(kind, task);
    const cases = kind === "switch" ? (task.switch ?? []).map((one) => Object.entries(one)[0] ?? ["", {}]) : [];
    const height = BOX.height + cases.length * 16;
    const draw = (x, y) => [s("g", { class: `task k-${kind}` }, s("title", {}, title),
      s("rect", { x, y, width: BOX.width, height, rx: kind === "switch" ? 16 : 6 }),
      s("text", { class: "name", x: x + 10, y: y + 18 }, cut(name, 24)),
      s("text", { class: "axis", x: x + 10, y: y + 34 }, cut(`${kind} ${condition || more}`, 29)),
      cases.map(([label, one], at) => s("text", { class: "axis", x: x + 10, y: y + 50 + at * 16 }, cut(`${one?.when ? `${label}: ${one.when}` : `${label}: else`}`, 29))))];
    return { name, task, kind, width: BOX.width, height, draw };
  }
  const blocks = inner.map(([label, block]) => ({ label, ...blockOf(block, depth + 1) }));
  const width = Math.max(BOX.width, blocks.reduce((sum, block) => sum + block.width + BOX.side, -BOX.side) + 2 * BOX.pad);
  const labels = blocks.some((block) => block.label && kind !== "fork") ? 16 : 0;
  const height = BOX.head + 18 + labels + Math.max(...blocks.map((block) => block.height)) + BOX.pad;
  const draw = (x, y) => {
    const all = blocks.reduce((sum, block) => sum + block.width + BOX.side, -BOX.side);
    let left = x + (width - all) / 2;
    const parts = blocks.map((block) => {
      const at = left;
      left += block.width + BOX.side;
      return [labels > 0 && s("text", { class: "axis", x: at, y: y + BOX.head + 24 }, block.label), block.draw(at, y + BOX.head + 14 + labels)];
    });
    return [s("g", { class: `task holds k-${kind}` }, s("title", {}, title), s("rect", { x, y, width, height, rx: 8 }),
      s("text", { class: "name", x: x + 10, y: y + 17 }, cut(name, Math.floor(width / 8))),
      s("text", { class: "axis", x: x + 10, y: y + 32 }, cut(`${kind} ${condition || about(kind, task)}`, Math.floor(width / 6.6)))), parts];
  };
  return { name, task, kind, width, height, draw };
}

/** Where a task goes on, besides the next one: names of tasks, or the end. */
function onward(one) {
  if (one.kind === "switch") return (one.task.switch ?? []).map((entry) => Object.entries(entry)[0] ?? ["", {}]).map(([label, of]) => [of?.then ?? "continue", label]);
  return [[one.task.then ?? "continue", ""]];
}

/** The head of an arrow that ends here, on its way in this direction. */
function tip(x, y, dx, dy) {
  const [backX, backY] = [x - 7 * dx, y - 7 * dy];
  return s("path", { class: "tip", d: `M${x} ${y}L${backX + 4 * dy} ${backY + 4 * dx}L${backX - 4 * dy} ${backY - 4 * dx}z` });
}

/** Tasks one after the other. */
function blockOf(block, depth) {
  const tasks = block.map((entry) => Object.entries(entry)[0]).filter(Boolean).map(([name, task]) => taskOf(name, task ?? {}, depth));
  const at = new Map(tasks.map((one, index) => [one.name, index]));
  const jumps = tasks.flatMap((one, from) => onward(one).map(([to, label]) => ({ from, to: at.get(to), label })).filter(({ to }) => to !== undefined && to !== from + 1));
  const lanes = jumps.length ? BOX.lane * Math.min(jumps.length, 8) + 10 : 0;
  const most = Math.max(BOX.width, ...tasks.map((one) => one.width));
  const height = tasks.reduce((sum, one) => sum + one.height + BOX.gap, -BOX.gap);
  const draw = (x, y) => {
    let top = y;
    const tops = tasks.map((one) => { const mine = top; top += one.height + BOX.gap; return mine; });
    const middle = x + most / 2;
    const lines = tasks.flatMap((one, index) => {
      const goes = onward(one);
      const end = tops[index] + one.height;
      const isLast = index === tasks.length - 1;
      const next = !isLast && (goes.some(([to]) => to === "continue" || at.get(to) === index + 1) || (one.kind === "switch" && !(one.task.switch ?? []).some((entry) => !Object.values(entry)[0]?.when)));
      const stops = goes.some(([to]) => END.has(to));
      return [next && [s("path", { class: "edge", d: `M${middle} ${end}V${tops[index + 1] - 4}` }), tip(middle, tops[index + 1], 0, 1)],
        stops && s("g", {}, s("title", {}, "It ends here"), s("circle", { class: "stop", cx: middle + one.width / 2 - 12, cy: end + 9, r: 5 }))];
    });
    const around = jumps.map(({ from, to, label }, lane) => {
      const [one, other] = [tasks[from], tasks[to]];
      const right = x + most + 8 + (lane % 8) * BOX.lane;
      const [fromX, toX] = [middle + one.width / 2, middle + other.width / 2];
      const [y1, y2] = [tops[from] + one.height / 2 + 6, tops[to] + Math.min(other.height, BOX.height) / 2];
      return [s("path", { class: "edge jump", d: `M${fromX} ${y1}H${right}V${y2}H${toX + 4}` }, label && s("title", {}, label)), tip(toX, y2, -1, 0)];
    });
    return [lines, around, tasks.map((one, index) => one.draw(middle - one.width / 2, tops[index]))];
  };
  return { width: most + lanes, height: Math.max(height, 0), draw };
}

/** Draws the tasks of a definition. */
export function flowPicture(root, source) {
  const block = Array.isArray(source?.do) ? source.do : [];
  if (block.length === 0) return put(root, h("p", { class: "quiet" }, "It has no tasks."));
  const all = blockOf(block, 0);
  const [width, height] = [all.width + 24, all.height + 24];
  put(root, h("div", { class: "wide picture", tabindex: 0, role: "region", "aria-label": "Graph of the flow; its tasks are listed below" },
    s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Graph of ${count(block)} tasks` }, all.draw(12, 12))));
}
