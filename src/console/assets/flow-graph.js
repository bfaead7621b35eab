// A flow drawn from its definition: tasks below each other, what they hold inside them, branches beside
// each other. A run lays its states over it.

import { html } from "./preact-htm.js";
import { cut } from "./format.js";

const BOX = { width: 196, height: 42, gap: 22, side: 18, pad: 12, head: 24, lane: 12 };
/** Tasks inside each other deeper than this are told as a number. */
const DEEP = 12;

const KINDS = ["call", "do", "emit", "for", "fork", "listen", "raise", "run", "set", "switch", "try", "wait"];
const END = new Set(["end", "exit"]);

function kindOf(task) {
  // A loop and a try have a «do» of their own.
  return KINDS.find((kind) => kind !== "do" && kind in task) ?? ("do" in task ? "do" : "task");
}

/** What a task is about, in a few words. */
function about(kind, task) {
  const short = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const first = (value) => (value && typeof value === "object" ? Object.keys(value).join(", ") : short(value));
  const events = (to) => (to?.any ?? to?.all ?? [to?.one]).map((one) => one?.with?.type ?? "any event").join(", ");
  const words = {
    call: () => (task.call === "http" ? `${task.with?.method ?? "get"} ${short(task.with?.endpoint?.uri ?? task.with?.endpoint ?? "")}` : short(task.call)),
    emit: () => short(task.emit?.event?.with?.type ?? ""),
    for: () => `${task.for?.each ?? "item"} in ${short(task.for?.in ?? "")}`,
    fork: () => (task.fork?.compete ? "the first one wins" : "all of them"),
    listen: () => `${first(task.listen?.to)}: ${events(task.listen?.to)}`,
    raise: () => short(task.raise?.error?.title ?? task.raise?.error?.type ?? task.raise?.error ?? ""),
    run: () => `${first(task.run)}${task.run?.shell ? `: ${short(task.run.shell.command)}` : ""}`,
    set: () => first(task.set),
    wait: () => (typeof task.wait === "object" ? Object.entries(task.wait).map(([unit, count]) => `${count} ${unit}`).join(" ") : short(task.wait)),
  }[kind];
  return words ? words() : "";
}

/** Tasks of a block, each with its path: that is the name of its steps. */
function entries(list, path) {
  if (!Array.isArray(list)) return [];
  return list.map((entry, at) => {
    const [name, task] = Object.entries(entry ?? {})[0] ?? ["", {}];
    return { name, task: task ?? {}, path: `${path}/${at}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}` };
  });
}

/** The blocks inside a task: each with what stands above it. */
function insideOf(kind, task, path) {
  if (kind === "do" || kind === "for") return [["", entries(task.do, `${path}/do`)]];
  if (kind === "try") return [["", entries(task.try, `${path}/try`)], ["catch", entries(task.catch?.do, `${path}/catch/do`)]];
  if (kind === "fork") return entries(task.fork?.branches, `${path}/fork/branches`).map((branch) => [branch.name, [branch]]);
  if (kind === "listen") return [["each event", entries(task.foreach?.do, `${path}/foreach/do`)]];
  return [];
}

function inner({ kind, task, path }) {
  return insideOf(kind, task, path).filter(([, block]) => block.length > 0);
}

function withKind(entry) {
  return { ...entry, kind: kindOf(entry.task) };
}

function size(block) {
  return block.map(withKind).reduce((sum, one) => sum + 1 + inner(one).reduce((all, [, of]) => all + size(of), 0), 0);
}

/** The frame of a task with the state that a run lays over it. */
function Box({ at, over, holds, rx = 6, children }) {
  const { x, y, width, height, kind, name, title } = at;
  const state = over?.state;
  const open = over?.open;
  const label = `${title}${state ? `. ${state.replaceAll("_", " ")}${over.note ? `, ${over.note}` : ""}` : ""}`;
  const press = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } };
  return html`<g class=${`box task k-${kind} ${holds ? "holds" : ""} ${state ? `s-${state}` : ""} ${open ? "open" : ""}`}
      role=${open ? "button" : null} tabindex=${open ? 0 : null} aria-label=${label} aria-current=${over?.isChosen ? "true" : null} data-item=${open ? true : null}
      data-task=${name} onClick=${open} onKeyDown=${open && press}>
    <title>${label}</title><rect x=${x} y=${y} width=${width} height=${height} rx=${rx} />${children}</g>`;
}

/** How large a task is, and how it is drawn at a place. */
function taskOf(entry, depth, overlay) {
  const one = withKind(entry);
  const { name, task, path, kind } = one;
  const blocks = inner(one);
  const condition = task.if ? `if ${task.if}` : "";
  const title = `${name}: ${kind} ${about(kind, task)} ${condition}`.trim();
  const over = overlay?.(path);
  if (blocks.length === 0 || depth >= DEEP) {
    const more = blocks.length ? `${blocks.reduce((sum, [, of]) => sum + size(of), 0)} tasks inside` : about(kind, task);
    const cases = kind === "switch" ? (task.switch ?? []).map((of) => Object.entries(of)[0] ?? ["", {}]) : [];
    const height = BOX.height + cases.length * 16;
    const draw = (x, y) => html`<${Box} key=${path} at=${{ x, y, width: BOX.width, height, kind, name, title }} over=${over} rx=${kind === "switch" ? 16 : 6}>
      <text class="name" x=${x + 10} y=${y + 17}>${cut(name, over?.note ? 15 : 25)}</text>
      ${over?.note && html`<text class="mark" x=${x + BOX.width - 8} y=${y + 17} text-anchor="end">${over.note}</text>`}
      <text class="axis" x=${x + 10} y=${y + 34}>${cut(`${kind} ${condition || more}`, 30)}</text>
      ${cases.map(([label, of], at) => html`<text class="axis" x=${x + 10} y=${y + 50 + at * 16}>${cut(of?.when ? `${label}: ${of.when}` : `${label}: else`, 30)}</text>`)}
    <//>`;
    return { name, task, kind, width: BOX.width, height, draw };
  }
  const parts = blocks.map(([label, block]) => ({ label, ...blockOf(block, depth + 1, overlay) }));
  const across = parts.reduce((sum, part) => sum + part.width + BOX.side, -BOX.side);
  const width = Math.max(BOX.width, across + 2 * BOX.pad);
  const labels = parts.some((part) => part.label && kind !== "fork") ? 16 : 0;
  const height = BOX.head + 18 + labels + Math.max(...parts.map((part) => part.height)) + BOX.pad;
  const draw = (x, y) => {
    let left = x + (width - across) / 2;
    const drawn = parts.map((part) => {
      const at = left;
      left += part.width + BOX.side;
      return html`${labels > 0 && html`<text class="axis" x=${at} y=${y + BOX.head + 24}>${part.label}</text>`}${part.draw(at, y + BOX.head + 14 + labels)}`;
    });
    return html`<${Box} key=${path} at=${{ x, y, width, height, kind, name, title }} over=${over} holds rx="8">
        <text class="name" x=${x + 10} y=${y + 17}>${cut(name, Math.floor(width / 8) - (over?.note ? 10 : 0))}</text>
        ${over?.note && html`<text class="mark" x=${x + width - 8} y=${y + 17} text-anchor="end">${over.note}</text>`}
        <text class="axis" x=${x + 10} y=${y + 32}>${cut(`${kind} ${condition || about(kind, task)}`, Math.floor(width / 6.6))}</text>
      <//>${drawn}`;
  };
  return { name, task, kind, width, height, draw };
}

/** Where a task goes on: names of tasks, «continue», or the end; each with its label. */
function nextOf(one) {
  if (one.kind !== "switch") return [[one.task.then ?? "continue", ""]];
  return (one.task.switch ?? []).map((entry) => Object.entries(entry)[0] ?? ["", {}]).map(([label, of]) => [of?.then ?? "continue", label]);
}

function hasElse(one) {
  return (one.task.switch ?? []).some((entry) => !Object.values(entry)[0]?.when);
}

/** The head of an arrow that ends here, on its way in this direction. */
function tip(x, y, dx, dy) {
  const [backX, backY] = [x - 7 * dx, y - 7 * dy];
  return html`<path class="tip" d=${`M${x} ${y}L${backX + 4 * dy} ${backY + 4 * dx}L${backX - 4 * dy} ${backY - 4 * dx}z`} />`;
}

/** Tasks one after the other. */
function blockOf(block, depth, overlay) {
  const tasks = block.map((entry) => taskOf(entry, depth, overlay));
  const at = new Map(tasks.map((one, index) => [one.name, index]));
  const jumps = tasks.flatMap((one, from) => nextOf(one).map(([to, label]) => ({ from, to: at.get(to), label })).filter(({ to }) => to !== undefined && to !== from + 1));
  const lanes = jumps.length ? BOX.lane * Math.min(jumps.length, 8) + 10 : 0;
  const most = Math.max(BOX.width, ...tasks.map((one) => one.width));
  const height = tasks.reduce((sum, one) => sum + one.height + BOX.gap, -BOX.gap);
  const draw = (x, y) => {
    let top = y;
    const tops = tasks.map((one) => { const mine = top; top += one.height + BOX.gap; return mine; });
    const middle = x + most / 2;
    const lines = tasks.map((one, index) => {
      const goes = nextOf(one);
      const end = tops[index] + one.height;
      const isLast = index === tasks.length - 1;
      const goesOn = goes.some(([to]) => to === "continue" || at.get(to) === index + 1) || (one.kind === "switch" && !hasElse(one));
      return html`${!isLast && goesOn && html`<path class="edge" d=${`M${middle} ${end}V${tops[index + 1] - 4}`} />${tip(middle, tops[index + 1], 0, 1)}`}
        ${goes.some(([to]) => END.has(to)) && html`<g><title>It ends here</title><circle class="stop" cx=${middle + one.width / 2 - 12} cy=${end + 9} r="5" /></g>`}`;
    });
    const around = jumps.map(({ from, to, label }, lane) => {
      const [one, other] = [tasks[from], tasks[to]];
      const right = x + most + 8 + (lane % 8) * BOX.lane;
      const [fromX, toX] = [middle + one.width / 2, middle + other.width / 2];
      const [y1, y2] = [tops[from] + one.height / 2 + 6, tops[to] + Math.min(other.height, BOX.height) / 2];
      return html`<path class="edge jump" d=${`M${fromX} ${y1}H${right}V${y2}H${toX + 4}`}>${label && html`<title>${label}</title>`}</path>${tip(toX, y2, -1, 0)}`;
    });
    return html`${lines}${around}${tasks.map((one, index) => one.draw(middle - one.width / 2, tops[index]))}`;
  };
  return { width: most + lanes, height: Math.max(height, 0), draw };
}

/**
 * The tasks of a definition. `overlay(path)` says of a task `{ state, note, open, isChosen }`, or nothing.
 */
export function FlowGraph({ source, overlay, label = "Graph of the flow" }) {
  const block = entries(source?.do, "do");
  if (block.length === 0) return html`<p class="quiet">It has no tasks.</p>`;
  const all = blockOf(block, 0, overlay);
  const [width, height] = [all.width + 24, all.height + 24];
  return html`<svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label=${`${label}, ${size(block)} tasks`}>${all.draw(12, 12)}</svg>`;
}
