// A journey as boxes and arrows, with counts of users or the path of one user over it.

import { Dag } from "./dag.js";
import { number, percent } from "./format.js";
import { html } from "./ui.js";

/** What an element waits for or does, in a few words. */
function about({ type, extensions, properties }) {
  const events = properties.map((rule) => rule.event).filter(Boolean).join(", ");
  const { wait, send, set } = extensions;
  return { Start: `begins on ${events || "any event"}`, Trigger: `waits for ${events || "any event"}${wait ? `, ${wait}` : ""}`, Action: send ? `sends by ${send.channel}` : set ? "sets data" : "", End: "ends",
    Rule: "chooses" }[type] ?? type;
}

/** The condition of a line, as it was written. */
function condition({ properties, extensions }) {
  if (extensions.default) return extensions.wait ? `after ${extensions.wait}` : "otherwise";
  return properties.map((rule) => rule.if ?? rule.equals ?? rule.contains ?? rule.event ?? "").filter((text) => text && text !== "true").join(" and ");
}

/** Elements as boxes; those with one way in and out that only connect are lines. */
export function drawing(elements) {
  const lines = new Map(elements.filter((one) => one.type === "Line").map((one) => [one.id, one]));
  const boxes = elements.filter((one) => !lines.has(one.id));
  const known = new Map(boxes.map((one) => [one.id, one]));
  const edges = boxes.flatMap((box) => box.outgoings.flatMap((out) => {
    const line = lines.get(out);
    if (!line) return [{ id: `${box.id} ${out}`, from: box.id, to: out, label: "" }];
    const label = line.extensions.default && box.extensions.wait ? `after ${box.extensions.wait}` : condition(line);
    return line.outgoings.map((to) => ({ id: out, from: box.id, to, label }));
  })).filter((edge) => known.has(edge.to));
  return { boxes, edges };
}

/** The elements that a user has passed in one journey, and where the user waits. */
export function pathOf(user, name) {
  const passes = [...(user?.ended ?? []), ...(user?.passes ?? [])].filter((pass) => pass.journey === name);
  const pass = passes.sort((one, other) => one.pass - other.pass).at(-1);
  if (!pass) return null;
  return { pass, passed: new Set(pass.moves.flatMap((move) => move.path)), waits: new Map(pass.waits.map((wait) => [wait.element, wait])) };
}

/** Users who wait at an element, and all visits. */
function countOf({ here, visits }) {
  return here > 0 ? `${number(here)} here / ${number(visits)}` : visits > 0 ? number(visits) : "";
}

/** The part of the visits before it that a line has taken. */
function shareOf(line) {
  return line?.conversion === undefined || line.conversion === null ? "" : percent(line.conversion, 1);
}

/** The elements of a journey; `counts` are those of all users, `path` is of one. */
export function Picture({ elements, path, counts }) {
  const of = new Map((counts?.elements ?? []).map((one) => [one.element, one]));
  const { boxes, edges } = drawing(elements);
  const nodes = boxes.map((box) => {
    const waits = path?.waits.get(box.id);
    const state = waits ? "running" : path?.passed.has(box.id) ? "success" : path ? "not_run" : { Trigger: "wait" }[box.type];
    return { id: box.id, title: box.id, note: about(box), state, isChosen: Boolean(waits), mark: waits ? "here" : !path && of.get(box.id) ? countOf(of.get(box.id)) : "" };
  });
  return html`<${Dag} nodes=${nodes} edges=${edges.map((edge) => ({ ...edge, label: path ? edge.label : [shareOf(of.get(edge.id)), edge.label].filter(Boolean).join(" · "), kind: path && path.passed.has(edge.from) && path.passed.has(edge.to) && path.passed.has(edge.id) ? "path" : "" }))} label="The journey as a graph" />`;
}

