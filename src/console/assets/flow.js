// One flow: drawn, as its source, with its last runs.

import { ask } from "./api.js";
import { flowAddress, LastRuns, useVersions } from "./flows.js";
import { FlowGraph } from "./flow-graph.js";
import { start } from "./flow-start.js";
import { flowLabels } from "./recent.js";
import { useAsk } from "./resource.js";
import { Facts, Head, html, Json, Loaded, useTitle } from "./ui.js";
import { Yaml, sourceOf } from "./yaml.js";

export function Flow({ rest }) {
  const [namespace, name, version] = rest;
  useTitle(`Flow ${name}`);
  const at = { namespace, name, version: version ?? "latest" };
  const found = useAsk("flow", { at }, { every: 60000 });
  const versions = useVersions(at);
  return html`<p class="crumbs"><a href="#/flows">Flows</a></p><${Loaded} of=${found}>${(flow) => html`
    <${Head} title=${flow.title ?? flow.name}>
      <a data-change class="button" href=${`#/add-flow?of=${[flow.namespace, flow.name, flow.version].map(encodeURIComponent).join("/")}`}>Change it…</a>
      <a class="button" href=${`#/runs?labels=${encodeURIComponent(flowLabels(flow))}`}>Its runs</a>
      <button data-change class="main" onClick=${() => start(flow)}>Start…</button><//>
    <${Facts} of=${[["Name", `${flow.namespace}/${flow.name}`],
      ["Version", versions.length < 2 ? flow.version : html`<select aria-label="Version" onChange=${(event) => { location.hash = flowAddress({ ...flow, version: event.currentTarget.value }); }}>
        ${versions.map((one) => html`<option key=${one.version} value=${one.version} selected=${one.version === flow.version}>${one.version}</option>`)}</select>`],
      ["Last runs", html`<${LastRuns} flow=${flow} />`], ["Secrets", flow.secrets.join(", ")], ["Hash", html`<code>${flow.hash}</code>`]]} />
    <div class="columns"><section><h2>Graph</h2><div class="picture"><${FlowGraph} source=${flow.source} /></div></section>
      <section><h2>Source</h2><${Yaml} text=${sourceOf(flow)} />
        ${flow.input_schema && html`<details><summary>Input schema</summary><${Json} of=${flow.input_schema} /></details>`}</section></div>`}<//>`;
}
