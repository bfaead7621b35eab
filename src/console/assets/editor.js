// A flow as a text: its lines numbered and in colours, what is wrong at its line, its graph beside it.

import { useEffect, useRef, useState } from "./preact-htm.js";
import { ask } from "./api.js";
import { say } from "./dialogs.js";
import { FlowGraph } from "./flow-graph.js";
import { flowAddress } from "./flows.js";
import { count } from "./format.js";
import { opens } from "./resource.js";
import { Head, html, reason, useTitle } from "./ui.js";
import { Lines, sourceOf } from "./yaml.js";

/** The height of a line; the style sheet has the same. */
const LINE = 20;
/** How long after the last key a text is checked. */
const CHECK_MS = 400;
const BYTES_MAX = 1_000_000;

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
  return text.replace(/((?:^|[\s,{])["']?version["']?\s*:\s*["']?\d+\.\d+\.)(\d+)/, (_, before, last) => `${before}${Number(last) + 1}`);
}

function place(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return before + Math.min(Math.max(column - 1, 0), (lines[line - 1] ?? "").length);
}

function Wrong({ error, go, raise }) {
  const problems = error.problems ?? [];
  if (problems.length === 0) {
    return html`<p class="why error">${reason(error)} ${error.code === "flow-exists" && html`<button data-change onClick=${raise}>Raise its version</button>`}</p>`;
  }
  return html`<h2>${problems.length === 1 ? "One thing is wrong" : `${problems.length} things are wrong`}</h2>
    <ol>${problems.map((problem, at) => html`<li key=${at}><button class="link" data-item onClick=${() => go(problem)}>Line ${problem.line}, column ${problem.column}</button>
      ${" "}<span class="error">${problem.message}</span>${problem.suggestion && html`<p class="quiet">${problem.suggestion}</p>`}${problem.snippet && html`<pre>${problem.snippet}</pre>`}</li>`)}</ol>`;
}

/** The text over its colours: both scroll together. */
function Text({ text, setText, bad, field, save }) {
  const gutter = useRef(null);
  const under = useRef(null);
  const scroll = () => {
    gutter.current.scrollTop = field.current.scrollTop;
    under.current.scrollTop = field.current.scrollTop;
    under.current.scrollLeft = field.current.scrollLeft;
  };
  useEffect(scroll, [text]);
  const key = (event) => {
    // Tab leaves the field, as everywhere; this saves.
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      save();
    }
  };
  return html`<div class="editor"><div ref=${gutter} class="gutter" aria-hidden="true">${text.split("\n").map((_, at) =>
      html`<div key=${at} class=${bad.has(at + 1) ? "bad" : null} title=${bad.get(at + 1)}>${at + 1}</div>`)}</div>
    <div class="text"><pre ref=${under} class="under" aria-hidden="true"><${Lines} text=${text} bad=${bad} /></pre>
      <textarea ref=${field} id="source" name="source" spellcheck="false" autocapitalize="off" wrap="off" aria-label="Definition" aria-invalid=${bad.size > 0 ? "true" : null}
        value=${text} onInput=${(event) => setText(event.currentTarget.value)} onScroll=${scroll} onKeyDown=${key}></textarea></div></div>`;
}

export function Editor({ query }) {
  useTitle("Edit a flow");
  const of = query.get("of");
  const field = useRef(null);
  const asked = useRef(0);
  const [text, setText] = useState(of ? "" : EXAMPLE);
  const [found, setFound] = useState({ flow: null, error: null, of: null });
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    if (!of) return;
    const opened = opens();
    const [namespace, name, version] = of.split("/").map(decodeURIComponent);
    ask("flow", { at: { namespace, name, version } }).then((flow) => setText(raised(sourceOf(flow))), (error) => say(reason(error), true)).finally(opened);
  }, [of]);
  useEffect(() => {
    if (!text) return undefined;
    const mine = asked.current += 1;
    const abort = new AbortController();
    // Only the newest answer counts; the graph of the last text that could be read stays.
    const timer = setTimeout(() => ask("checkFlow", { text, signal: abort.signal })
      .then((flow) => { if (mine === asked.current) setFound({ flow, error: null, of: text }); })
      .catch((error) => { if (mine === asked.current) setFound((old) => ({ flow: old.flow, error, of: text })); }), found.of === null ? 0 : CHECK_MS);
    return () => { abort.abort(); clearTimeout(timer); };
  }, [text]);
  const go = (problem) => {
    const at = place(text, problem.line, problem.column);
    field.current.focus();
    field.current.setSelectionRange(at, at);
    field.current.scrollTop = Math.max(0, (problem.line - 4) * LINE);
  };
  const save = async () => {
    asked.current += 1;
    setBusy(true);
    try {
      const flow = await ask("addFlow", { text });
      say(`«${flow.name}» ${flow.version} is saved.`);
      location.hash = flowAddress(flow);
    } catch (error) {
      setFound((old) => ({ flow: old.flow, error, of: text }));
      if (error.problems?.length) go(error.problems[0]);
    }
    setBusy(false);
  };
  const open = async (file) => {
    if (!file) return;
    if (file.size > BYTES_MAX) say("That file has more than a million bytes: it is no flow.", true);
    else setText(await file.text());
  };
  const isCurrent = found.of === text;
  const bad = new Map(isCurrent ? (found.error?.problems ?? []).map((one) => [one.line, one.message]) : []);
  return html`<p class="crumbs"><a href="#/flows">Flows</a></p>
    <${Head} title=${of ? "Change a flow" : "Add a flow"}><label class="file">Open a file… <input type="file" accept=".yaml,.yml,.json" onChange=${(event) => open(event.currentTarget.files[0])} /></label>
      <button data-change class="main" disabled=${isBusy} onClick=${save}>Save as a new version</button><//>
    <p class="quiet">A definition in the Serverless Workflow DSL, YAML or JSON. A run keeps the version it began with: a changed flow needs a new version.</p>
    <div class="columns"><section><${Text} text=${text} setText=${setText} bad=${bad} field=${field} save=${save} />
      <div aria-live="polite">${isCurrent && (found.error ? html`<${Wrong} error=${found.error} go=${go} raise=${() => setText(raised(text))} />`
        : found.flow && html`<p class="why good">«${found.flow.namespace}/${found.flow.name}» ${found.flow.version} can be saved: it has ${count(found.flow.tasks.length, "task")}.</p>`)}</div></section>
      <section><div class="picture">${found.flow ? html`<${FlowGraph} source=${found.flow.source} />` : html`<p class="quiet">The graph follows the text.</p>`}</div></section></div>`;
}
