// A text with its lines numbered, and what is wrong shown at its line: for flows that are added here.

import { ask } from "./api.js";
import { h, put, reason, say } from "./dom.js";
import { number } from "./format.js";

/** The height of a line; the style sheet has the same. */
const LINE = 20;
/** How long after the last key a text is checked. */
const CHECK_MS = 400;

const EXAMPLE = `document:
  dsl: '1.0.3'
  namespace: shop
  name: hello
  version: '1.0.0'
input:
  schema:
    document:
      type: object
      properties:
        name: { type: string, default: world }
do:
  - greet:
      set: { text: '\${ "hello \\(.name)" }' }
`;

/** The same text with a higher last number of its version. */
export function raised(text) {
  return text.replace(/(["']?version["']?\s*:\s*["']?\d+\.\d+\.)(\d+)/, (_, before, last) => `${before}${Number(last) + 1}`);
}

function place(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return before + Math.min(Math.max(column - 1, 0), (lines[line - 1] ?? "").length);
}

export function editor(root, _rest, query, { signal }) {
  const of = query.get("of");
  const gutter = h("div", { class: "gutter", "aria-hidden": "true" });
  const bands = h("div", { class: "bands", "aria-hidden": "true" });
  const text = h("textarea", { id: "source", name: "source", spellcheck: "false", autocapitalize: "off", wrap: "off", "aria-describedby": "found" });
  const found = h("div", { id: "found", "aria-live": "polite" });
  const save = h("button", { class: "main", "data-key": "save", on: { click: () => give() } }, "Save as a new version");
  let timer = 0;
  let asked = 0;
  let drawn = -1;

  text.value = EXAMPLE;
  put(root, h("p", { class: "crumbs" }, h("a", { href: "#/flows" }, "Flows")),
    h("h1", {}, "Add a flow"),
    h("p", { class: "quiet" }, "A definition in the Serverless Workflow DSL, YAML or JSON. A plan that runs keeps the version it began with: a changed flow needs a new version."),
    h("label", { class: "hidden", for: "source" }, "Definition"),
    h("div", { class: "editor" }, gutter, h("div", { class: "text" }, bands, text)),
    h("p", { class: "buttons" }, save,
      h("label", { class: "file" }, "Open a file… ", h("input", { type: "file", accept: ".yaml,.yml,.json", on: { change: (event) => open(event.target.files[0]) } }))),
    found);
  text.addEventListener("input", () => { draw([]); later(); });
  text.addEventListener("scroll", scroll);
  text.addEventListener("keydown", (event) => {
    // Tab leaves the field, as everywhere; this saves.
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); give(); }
  });
  draw([]);
  prepare();

  async function prepare() {
    if (!of) return check();
    const [namespace, name, version] = of.split("/");
    try {
      const flow = await ask("flow", { at: { namespace, name, version }, signal });
      text.value = raised(`${JSON.stringify(flow.source, null, 2)}\n`);
      draw([]);
    } catch (error) {
      say(reason(error), true);
    }
    check();
  }

  async function open(file) {
    if (!file) return;
    if (file.size > 1000000) return say("That file has more than a million bytes: it is no flow.", true);
    text.value = await file.text();
    draw([]);
    check();
  }

  function scroll() {
    gutter.scrollTop = text.scrollTop;
    bands.style.transform = `translateY(${-text.scrollTop}px)`;
  }

  function draw(problems) {
    const bad = new Map(problems.map((one) => [one.line, one.message]));
    const lines = text.value.split("\n").length;
    if (lines === drawn && problems.length === 0 && bands.childElementCount === 0) return;
    drawn = lines;
    put(gutter, Array.from({ length: lines }, (_, at) => h("div", { class: bad.has(at + 1) ? "bad" : null, title: bad.get(at + 1) }, at + 1)));
    put(bands, [...bad.keys()].map((line) => {
      const band = h("div", { class: "band" });
      band.style.top = `${(line - 1) * LINE}px`;
      return band;
    }));
    scroll();
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(check, CHECK_MS);
  }

  function go(problem) {
    const at = place(text.value, problem.line, problem.column);
    text.focus();
    text.setSelectionRange(at, at);
    text.scrollTop = Math.max(0, (problem.line - 4) * LINE);
  }

  function show(error) {
    const problems = error.problems ?? [];
    draw(problems);
    text.setAttribute("aria-invalid", "true");
    if (problems.length === 0) return put(found, h("p", { class: "why error" }, reason(error), error.code === "flow-exists" && [" ",
      h("button", { "data-key": "raise", on: { click: () => { text.value = raised(text.value); draw([]); check(); } } }, "Raise its version")]));
    put(found, h("h2", {}, problems.length === 1 ? "One thing is wrong" : `${number(problems.length)} things are wrong`),
      h("ol", { class: "rows" }, problems.map((problem, at) => h("li", {},
        h("button", { class: "link", "data-item": true, "data-key": `problem-${at}`, on: { click: () => go(problem) } }, `Line ${problem.line}, column ${problem.column}`), " ",
        h("span", { class: "error" }, problem.message), problem.suggestion && h("p", { class: "quiet" }, problem.suggestion),
        problem.snippet && h("pre", {}, problem.snippet)))));
  }

  /** Whether it could be saved; only the newest answer counts. */
  async function check() {
    clearTimeout(timer);
    asked += 1;
    const mine = asked;
    try {
      const flow = await ask("checkFlow", { text: text.value, signal });
      if (mine !== asked) return;
      draw([]);
      text.removeAttribute("aria-invalid");
      put(found, h("p", { class: "why good" }, `«${flow.namespace}/${flow.name}» ${flow.version} can be saved: it has ${number(flow.tasks.length)} ${flow.tasks.length === 1 ? "task" : "tasks"}.`));
    } catch (error) {
      if (signal.aborted || mine !== asked) return;
      show(error);
    }
  }

  async function give() {
    clearTimeout(timer);
    asked += 1;
    save.disabled = true;
    try {
      const flow = await ask("addFlow", { text: text.value, signal });
      say(`«${flow.name}» ${flow.version} is saved.`);
      location.hash = `#/flow/${[flow.namespace, flow.name, flow.version].map(encodeURIComponent).join("/")}`;
    } catch (error) {
      if (signal.aborted) return;
      show(error);
      if (error.problems?.length) go(error.problems[0]);
    } finally {
      save.disabled = false;
    }
  }

  return { title: "Add a flow", async refresh() {} };
}
