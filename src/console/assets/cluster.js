// The nodes that share the store: versions, leases, load, slots; the health of the store.

import { ask } from "./api.js";
import { confirm, say } from "./dialogs.js";
import { bytes, number, rate, span } from "./format.js";
import { useAsk, useFigures, useResource } from "./resource.js";
import { Ago, Badge, Facts, Head, html, Loaded, Table, useTitle } from "./ui.js";

const SLOTS = 1024;
const COLOURS = 6;

/** All slots as small squares, coloured by owner. */
function Slots({ runs, colourOf }) {
  const across = 64;
  const size = 12;
  const cells = runs.flatMap((run) => {
    const pieces = [];
    // A run is drawn a row at a time: few elements, whatever the number of slots.
    for (let at = run.first; at <= run.last;) {
      const row = Math.floor(at / across);
      const end = Math.min(run.last, (row + 1) * across - 1);
      pieces.push({ x: (at % across) * size, y: row * size, width: (end - at + 1) * size - 1, run });
      at = end + 1;
    }
    return pieces;
  });
  return html`<svg class="slots" viewBox=${`0 0 ${across * size} ${(SLOTS / across) * size}`} role="img" aria-label=${`Slots by owner: ${runs.map((run) => `${run.first} to ${run.last} ${run.node ?? "nobody"}`).slice(0, 20).join(", ")}`}>
    ${cells.map((cell) => html`<rect key=${`${cell.x} ${cell.y}`} class=${`o-${cell.run.owner ? colourOf(cell.run.owner) : "none"}`} x=${cell.x} y=${cell.y} width=${cell.width} height=${size - 1}>
      <title>${`slots ${cell.run.first} to ${cell.run.last}: ${cell.run.node ?? "nobody"}`}</title></rect>`)}
    <path class="lines" d=${Array.from({ length: across - 1 }, (_, at) => `M${(at + 1) * size - 0.5} 0V${(SLOTS / across) * size}`).join("")} /></svg>`;
}

/** Has a node give its slots to the others. */
async function drain(node, reload) {
  const done = await confirm(`Drain «${node.name}»?`, "It gives its slots to the others, each when no code of its runs is called, and begins no new runs until its process ends.", "Drain",
    () => ask("drain", { at: { name: node.name } }));
  if (done) say(`«${node.name}» gives its slots away.`);
  reload();
}

function Node({ node, colour, isAlone, reload }) {
  const left = node.lease_left_ms;
  const canDrain = !isAlone && node.is_alive && node.is_executor && !node.is_draining;
  return html`<tr><td class="node-name"><svg class=${`key-dot o-${node.slots > 0 ? colour : "x"}`} width="10" height="10" aria-hidden="true"><rect width="10" height="10" rx="2" /></svg> ${node.name}</td>
    <td><${Badge} of=${node.is_alive ? (node.is_draining ? "draining" : "alive") : "gone"} /></td><td>${node.version}</td><td>${node.address ? html`<code>${node.address}</code>` : html`<span class="quiet">–</span>`}</td><td>${node.process} on ${node.host}</td>
    <td class="right">${left === null ? html`<span class="quiet">alone</span>` : span(left)}</td>
    <td class="right">${number(node.slots)} <meter min="0" max=${SLOTS} value=${node.slots} aria-label=${`Slots of ${node.name}`}></meter></td>
    <td>${Object.entries(node.labels).map(([name, value]) => html`<span key=${name} class="label">${name}=${value}</span>`)}</td><td><${Ago} at=${node.since} /></td>
    <td class="buttons"><a href=${`#/runs?${new URLSearchParams({ show: "active", node: node.name })}`}>runs under way</a>${canDrain && html`<button data-change onClick=${() => drain(node, reload)}>Drain…</button>`}</td></tr>`;
}

function Database({ all, health }) {
  const commit = all.journal.commit_us ?? {};
  return html`<${Facts} of=${[["A commit takes", commit.count ? `${span(commit.p50 / 1000)}, 99 of 100 within ${span(commit.p99 / 1000)}, longest ${span(commit.max / 1000)}` : "none yet"],
    ["Last probe", health && html`${span(health.commit_ms ?? 0)} <${Ago} at=${health.committed_at} />`], ["Failed commits", all.journal.commits_failed ? html`<b class="error">${number(all.journal.commits_failed)}</b>` : "0"],
    ["Entries that wait", number(all.journal.entries_waiting)], ["Rows that are behind", number(all.journal.rows_behind)], ["Written", bytes(all.journal.bytes)], ["Steps a second", rate(all.journal.steps_per_s)]]} />`;
}

export function Cluster() {
  useTitle("Cluster");
  const found = useResource("nodes", async (signal) => {
    const [{ nodes }, { runs }] = await Promise.all([ask("nodes", { signal }), ask("slots", { signal })]);
    return { nodes, runs };
  }, { every: 1000 });
  const about = useAsk("world", {}, { every: 10000 });
  const health = useAsk("health", {}, { every: 5000 });
  const all = useFigures();
  return html`<${Head} title="Cluster" /><${Loaded} of=${found}>${({ nodes, runs }) => {
    const owners = nodes.filter((node) => node.slots > 0).map((node) => node.id);
    const colourOf = (id) => Math.max(0, owners.indexOf(id)) % COLOURS;
    const gone = nodes.filter((node) => !node.is_alive);
    return html`${gone.length > 0 && html`<p class="why error"><b>${gone.map((node) => node.name).join(", ")}</b> ${gone.length === 1 ? "is" : "are"} gone: others take the slots. <a href="#/runs?show=active">Runs under way</a></p>`}
      <${Table} caption="Nodes" columns=${[["Node"], ["State"], ["Version"], ["Address"], ["Process"], ["Lease left", "right"], ["Slots", "right"], ["Labels"], ["Since"], [""]]}>
        ${nodes.map((node) => html`<${Node} key=${node.id} node=${node} colour=${colourOf(node.id)} isAlone=${nodes.length < 2} reload=${found.reload} />`)}<//>
      <div class="columns"><section><h2>Slots by owner</h2><${Slots} runs=${runs} colourOf=${colourOf} />
          <p class="quiet">Runs fall into ${number(SLOTS)} slots; the owner of a slot serves its runs.</p></section>
        <section><h2>Store</h2>${about.data && html`<p><code>${about.data.store}</code></p>`}<${Loaded} of=${all}>${(of) => html`<${Database} all=${of} health=${health.data} />`}<//>
          ${about.data?.incidents.length > 0 && html`<p><a href="#/system">Ends without closing: ${number(about.data.incidents.length)}</a></p>`}</section></div>`;
  }}<//>`;
}
