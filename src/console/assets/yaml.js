// YAML for people: values written as it, and its text in colours.

import { html } from "./preact-htm.js";

/** Texts that would be read as something else without quotes. */
const SPECIAL = /^$|^[\s>|&*!%@`"'#{}[\],?:-]|[:#]\s|[\s:]$|^(true|false|null|yes|no|on|off|~)$|^[\d.+-]|\n/i;

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return SPECIAL.test(value) ? (/[\n\\]/.test(value) ? JSON.stringify(value) : `'${value.replaceAll("'", "''")}'`) : value;
}

/** A value as YAML, in the order of the language for the parts of a definition. */
export function toYaml(value, depth = 0) {
  const pad = "  ".repeat(depth);
  const isEmpty = (of) => of === null || typeof of !== "object" || Object.keys(of).length === 0;
  const text = (of) => (Array.isArray(of) && of.length === 0 ? "[]" : of !== null && typeof of === "object" ? "{}" : scalar(of));
  if (isEmpty(value)) return `${pad}${text(value)}\n`;
  if (Array.isArray(value)) {
    return value.map((one) => (isEmpty(one) ? `${pad}- ${text(one)}\n` : `${pad}- ${toYaml(one, depth + 1).slice(pad.length + 2)}`)).join("");
  }
  const rank = (name) => ["document", "input", "use", "schedule", "do"].indexOf(name) + (name === "do" ? 20 : 0);
  const names = depth === 0 ? Object.keys(value).sort((one, other) => rank(one) - rank(other)) : Object.keys(value);
  return names.map((name) => (isEmpty(value[name]) ? `${pad}${scalar(name)}: ${text(value[name])}\n` : `${pad}${scalar(name)}:\n${toYaml(value[name], depth + 1)}`)).join("");
}

/** The source of a flow as it was written; written anew where the server keeps the values alone. */
export function sourceOf(flow) {
  return flow.text ?? toYaml(flow.source);
}

const TOKENS = /(?<note>(?:^|\s)#.*$)|(?<code>\$\{.*?\}(?=\s|'|"|$))|(?<text>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|(?<key>[\w.$/-]+(?=\s*:(?:\s|$)))|(?<number>(?<![\w.])-?\d+(?:\.\d+)*(?![\w]))/g;

/** A line as texts with kinds. */
export function tokens(line) {
  const parts = [];
  let at = 0;
  for (const match of line.matchAll(TOKENS)) {
    if (match.index > at) parts.push(["", line.slice(at, match.index)]);
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    parts.push([`t-${kind}`, match[0]]);
    at = match.index + match[0].length;
  }
  if (at < line.length) parts.push(["", line.slice(at)]);
  return parts;
}

export function Lines({ text, bad }) {
  return text.split("\n").map((line, at) => html`<div key=${at} class=${bad?.has(at + 1) ? "line bad" : "line"}>${
    line === "" ? " " : tokens(line).map(([kind, part], place) => (kind ? html`<span key=${place} class=${kind}>${part}</span>` : part))}</div>`);
}

/** A text in colours. */
export function Yaml({ text }) {
  return html`<pre class="source" tabindex="0" aria-label="Source"><${Lines} text=${text} /></pre>`;
}
