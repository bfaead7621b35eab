// When each step did what, in the flow's names; and all that happened, the newest first.

import { cut, local, now, number, plain, plainIn, span, taskName, words } from "./format.js";
import { useAsk } from "./resource.js";
import { isFlow, isOfFlow, toldOf } from "./run-state.js";
import { cause, Task } from "./task.js";
import { Badge, Clock, html, Loaded, Pager, RunLink, Table, usePages, useWidth } from "./ui.js";

const ROW = 22;
const BARS = 200;
const CALLS = 200;

function settingsOf(run) {
  const isOver = run.state === "stopped";
  return { live: isOver ? null : run.id, isIdle: isOver };
}

function partsOf(timeline, run) {
  const end = ["stopped", "paused"].includes(timeline.state) ? Date.parse(timeline.until) : Math.max(now(), Date.parse(timeline.until));
  return timeline.bars.filter((bar) => !isFlow(run) || !isOfFlow(bar)).map((bar) => {
    const spans = bar.spans.map((one) => ({ ...one, from: Date.parse(one.from), to: one.to ? Date.parse(one.to) : end }));
    return { bar, spans, from: Math.min(...spans.map((one) => one.from)), to: Math.max(...spans.map((one) => one.to)) };
  }).filter(({ spans }) => spans.length > 0);
}

function Bars({ parts, width, chosen, choose }) {
  const least = Math.min(...parts.map((part) => part.from));
  const most = Math.max(...parts.map((part) => part.to), least + 1);
  const names = Math.min(220, width * 0.38);
  const room = width - names - 70;
  const scale = room / (most - least);
  const height = parts.length * ROW + 28;
  const x = (ms) => names + (ms - least) * scale;
  return html`<svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label=${`Timeline from ${local(new Date(least).toISOString())}`}>
    ${[0, 1, 2, 3, 4].map((at) => html`<g key=${at}><line class="grid" x1=${names + (room * at) / 4} x2=${names + (room * at) / 4} y1="18" y2=${height} />
      <text class="axis" x=${names + (room * at) / 4} y="12">${span(((most - least) * at) / 4)}</text></g>`)}
    ${parts.map(({ bar, spans, from, to }, at) => {
      const y = 24 + at * ROW;
      const text = `${taskName(bar.name)} ${bar.phase === "run" ? "" : bar.phase}, ${bar.state}, ${span(to - from)}`;
      return html`<g key=${bar.step} class=${`bar s-${bar.state}`} tabindex="0" role="button" data-item aria-label=${text} aria-current=${bar.step === chosen ? "true" : null}
          onClick=${() => choose(bar.step)} onKeyDown=${(event) => { if (event.key === "Enter") choose(bar.step); }}>
        <title>${text}</title><rect class="hit" x="0" y=${y} width=${width} height=${ROW - 2} />
        <text x="6" y=${y + 14}>${cut(taskName(bar.name), Math.floor(names / 7.2))}</text>
        ${spans.map((one, place) => html`<rect key=${place} class=${`time k-${one.kind}`} x=${x(one.from)} y=${y + 3} width=${Math.max(2, (one.to - one.from) * scale)} height=${ROW - 8} rx="2">
          <title>${`${words(one.kind)}, attempt ${one.attempt}, ${span(one.to - one.from)}`}</title></rect>`)}
        <text class="axis" x=${x(from) + Math.max(2, (to - from) * scale) + 4} y=${y + 14}>${span(to - from)}</text></g>`;
    })}</svg>`;
}

/** The timeline of a run; only the steps of one page are there. */
export function Timeline({ run, chosen, choose }) {
  const pages = usePages("timeline");
  const found = useAsk("timeline", { at: { plan: run.id }, query: { limit: BARS, phase: "run,finalize", cursor: pages.cursor } }, settingsOf(run));
  const [place, width] = useWidth(700);
  return html`<div class=${chosen === null ? "" : "split"}><div ref=${place}><${Loaded} of=${found}>${(timeline) => {
    const parts = partsOf(timeline, run);
    if (parts.length === 0) return html`<p class="quiet">No step has begun yet.</p>`;
    return html`${timeline.total > timeline.bars.length && html`<${Pager} pages=${pages} count=${timeline.bars.length} total=${timeline.total} next=${timeline.next} what="steps that have begun" />`}
      <div class="picture"><${Bars} parts=${parts} width=${Math.max(320, width - 4)} chosen=${chosen} choose=${choose} /></div>
      <p class="quiet">Full bars: its code ran; pale ones: it waited. A click opens a step.</p>`;
  }}<//></div>${chosen !== null && html`<${Task} key=${chosen} run=${run} id=${chosen} choose=${choose} />`}</div>`;
}

/** What a line of the history says, with tasks by their names. */
function said(text, names) {
  return text.replace(/\bsteps? (\d+)\b/g, (all, id) => (names.has(Number(id)) ? `«${names.get(Number(id))}»` : all));
}

/** All that happened to a run, and each call of its steps. */
export function History({ run, choose }) {
  const pages = usePages("history");
  const found = useAsk("calls", { at: { plan: run.id }, query: { limit: CALLS, order: "newest", cursor: pages.cursor } }, settingsOf(run));
  const tree = useAsk("tree", { at: { plan: run.id }, query: { limit: 1000 } }, settingsOf(run));
  const names = new Map((tree.data?.nodes ?? []).flatMap((action) => action.steps.map((step) => [step.id, taskName(action.name)])));
  const told = toldOf(run).reverse();
  const isTask = (call) => !isFlow(run) || !isOfFlow({ name: names.get(call.step) });
  return html`<div class="columns broad"><section><h2>What happened</h2>
    <${Table} columns=${[["When"], ["What", "grow"]]} caption="What happened" kind="happenings">${told.map((line, at) =>
      html`<tr key=${told.length - at}><td><${Clock} at=${line.at} /></td><td class="grow">${plain(said(isFlow(run) ? line.text.replace("a step has failed", "a task has failed") : line.text, names))}</td></tr>`)}<//>
    ${run.sub_plans.length > 0 && html`<h2>Child runs</h2><ul class="rows">${run.sub_plans.slice(0, 50).map((sub) =>
      html`<li key=${sub.plan}><${RunLink} id=${sub.plan} text=${sub.action} /> of «${names.get(sub.step) ?? sub.step}» ${sub.result ? html`<${Badge} of=${sub.result} />` : html`<span class="quiet">under way</span>`}</li>`)}</ul>`}</section>
    <section><h2>Calls</h2><${Loaded} of=${found}>${({ calls, total, next, left_out: leftOut }) => html`
      ${total > calls.length && html`<${Pager} pages=${pages} count=${calls.length} total=${total} next=${next} what="calls, the newest first" />`}
      ${leftOut > 0 && html`<p class="quiet">${number(leftOut)} older ones are stored no more.</p>`}
      ${calls.filter(isTask).length === 0 ? html`<p class="quiet">No ${isFlow(run) ? "task" : "step"} was called yet.</p>`
        : html`<${Table} columns=${[["Task", "grow"], ["Attempt", "right"], ["Why"], ["Began"], ["Ran", "right"], ["Then"]]} caption="Calls">${calls.filter(isTask).map((call) =>
          html`<tr key=${`${call.step} ${call.call}`}><td class="grow"><button class="link" data-item onClick=${() => { choose(call.step); location.hash = `#/run/${run.id}/steps/${call.step}`; }}>${names.get(call.step) ?? `step ${call.step}`}</button>
              ${call.error && html`<div class="error">${plainIn(call.error.message, names.get(call.step))}</div>`}</td>
            <td class="right">${call.attempt}</td><td>${cause(call)}${call.is_revert && " (compensation)"}</td><td><${Clock} at=${call.began} /></td>
            <td class="right">${span(call.ran_ms)}</td><td><${Badge} of=${call.state} /></td></tr>`)}<//>`}`}<//></section></div>`;
}
