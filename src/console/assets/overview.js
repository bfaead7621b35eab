// What fails and why, what waits and for how long, how much is done, whether the store is well.

import { ask } from "./api.js";
import { Sparkline } from "./charts.js";
import { bytes, count, number, percent, plain, rate, span, words } from "./format.js";
import { byError, useEnded } from "./recent.js";
import { useFigures, useResource } from "./resource.js";
import { Ago, Facts, Head, html, Loaded, Notice, reason, RunLink, useTitle } from "./ui.js";

/** How many failed and paused runs are grouped. */
const FAILED = 200;
const KINDS = 8;
/** What is waited for, where the word of the API is not the reader's. */
const WAITS = { event: "an event", timer: "a time or the next attempt", plan: "another run", lock: "a lock", decision: "a decision", permission: "a permission", retry: "the next attempt", place: "a place in a queue", "sub-plans": "child runs", time: "its time to begin", store: "the store" };

function Tile({ name, value, note, href, kind = "" }) {
  const inner = html`<span class="tile-value">${value}</span><span class="tile-name">${name}</span>${note && html`<span class="quiet">${note}</span>`}`;
  return href ? html`<a class=${`tile ${kind}`} href=${href} data-item>${inner}</a>` : html`<div class=${`tile ${kind}`}>${inner}</div>`;
}

function Failing() {
  const failed = useResource("failing", async (signal) => {
    const [paused, stopped] = await Promise.all([
      ask("plans", { query: { state: "paused", limit: FAILED }, signal }),
      ask("plans", { query: { state: "stopped", result: "error", limit: FAILED }, signal }),
    ]);
    return { runs: [...paused.plans, ...stopped.plans], isPart: paused.next !== null || stopped.next !== null };
  }, { live: "all" });
  return html`<section><h2>What fails</h2><${Loaded} of=${failed}>${({ runs, isPart }) => {
    if (runs.length === 0) return html`<p class="quiet">Nothing has failed, nothing is paused.</p>`;
    const kinds = byError(runs);
    return html`<ul class="rows">${kinds.slice(0, KINDS).map(({ kind, text, runs: of, flows }) => html`<li key=${kind}>
        <a href=${of.length === 1 ? `#/run/${of[0].id}` : `#/runs?${new URLSearchParams({ show: "failed", text: commonText(of) })}`} data-item>
          <b class="right">${number(of.length)}</b><span class="grow cut error" title=${text}>${plain(text) || kind}</span><${Ago} at=${of[0].ended_at ?? of[0].created_at} /></a>
        <p class="quiet cut">${[...flows].slice(0, 4).join(", ")}${flows.size > 4 && ` and ${flows.size - 4} more`} · newest <${RunLink} id=${of[0].id} /></p>
      </li>`)}</ul>
      ${(isPart || kinds.length > KINDS) && html`<p class="quiet">${isPart ? `From the newest ${FAILED} of each. ` : ""}<a href="#/runs?show=failed">All failed runs</a></p>`}`;
  }}<//></section>`;
}

/** A part that the errors of all these runs have, to search for. */
function commonText(runs) {
  const [first, ...others] = runs.map((run) => run.error ?? run.waits_for ?? "");
  let length = first.length;
  for (const other of others) {
    while (length > 0 && other.slice(0, length) !== first.slice(0, length)) length -= 1;
  }
  return first.slice(0, Math.min(length, 80)).trim();
}

function Waiting({ of }) {
  return html`<section><h2>What waits</h2>${of.length === 0 ? html`<p class="quiet">No run waits for anything.</p>`
    : html`<ul class="rows">${of.map((one) => html`<li key=${one.waits}>
      <a href=${`#/runs?waits=${encodeURIComponent(one.waits)}`} data-item><b class="right">${number(one.plans)}</b><span class="grow">for ${WAITS[one.waits] ?? words(one.waits)}</span>
        <span class="quiet">oldest <${Ago} at=${one.oldest_at} /></span></a>
      ${one.oldest && html`<p class="quiet cut"><${RunLink} id=${one.oldest} />${one.waits_for && ` ${plain(one.waits_for)}`}</p>`}
    </li>`)}</ul>`}</section>`;
}

function Line({ title, of }) {
  const { all, parts } = of;
  const values = (key) => parts.map((part) => part[key] ?? NaN);
  return html`<tr><th scope="row">${title}</th>
    <td><${Sparkline} width=${84} values=${values("ended")} label=${`Runs that ended, ${title}`} /></td><td class="right">${number(all.ended)}</td>
    <td><${Sparkline} width=${84} kind="bad" values=${values("failed")} label=${`Failures, ${title}`} /></td><td class="right">${number(all.failed)} ${html`<span class="quiet">${percent(all.failed, all.ended)}</span>`}</td>
    <td><${Sparkline} width=${84} values=${values("p50_ms")} label=${`Median duration, ${title}`} /></td><td class="right" title=${all.p99_ms === null ? null : `99 of 100 within ${span(all.p99_ms)}`}>${all.p50_ms === null ? "–" : span(all.p50_ms)}</td></tr>`;
}

function Lately() {
  const hour = useEnded(1, 30);
  const day = useEnded(24, 48);
  return html`<section class="broad"><h2>Lately</h2><div class="wide"><table class="lately">
      <caption class="hidden">Runs that ended, by time</caption>
      <thead><tr><th></th><th scope="col" colspan="2">Ended</th><th scope="col" colspan="2">Failed</th><th scope="col" colspan="2">Median duration</th></tr></thead>
      <tbody>${hour.data && html`<${Line} title="last hour" of=${hour.data} />`}${day.data && html`<${Line} title="last day" of=${day.data} />`}</tbody></table></div>
    ${(hour.error ?? day.error) && html`<p class="error">${reason(hour.error ?? day.error)}</p>`}</section>`;
}

function Store({ all }) {
  const journal = all.journal;
  const commit = journal.commit_us ?? {};
  return html`<section><h2>Store</h2><${Facts} of=${[
    ["A commit takes", commit.count ? `${span((commit.p50 ?? 0) / 1000)}, 99 of 100 within ${span((commit.p99 ?? 0) / 1000)}` : "none yet"],
    ["Failed commits", journal.commits_failed ? html`<b class="error">${number(journal.commits_failed)}</b>` : "0"],
    ["Written", bytes(journal.bytes)], ["Entries that wait", number(journal.entries_waiting)],
    ["Steps a second", rate(journal.steps_per_s)], ["Runs a second", rate(journal.plans_per_s)],
    ["World began", html`<${Ago} at=${all.started_at} />`],
  ]} /><p class="quiet"><a href="#/cluster">Nodes and their leases</a> · <a href="#/system">Queues, locks, retention</a></p></section>`;
}

export function Overview() {
  useTitle("Overview");
  const all = useFigures();
  return html`<${Head} title="Overview" /><${Loaded} of=${all}>${(of) => {
    if (of.total === 0) {
      return html`<${Notice} title="There is no run yet" text="Start a flow under Flows, or from a shell: turnwheel run FILE runs one, POST api/v1/plans begins a plan of an action." />
        <${Store} all=${of} />`;
    }
    const active = of.total - (of.states.stopped ?? 0);
    const held = of.states.paused ?? 0;
    const failed = of.results.error ?? 0;
    return html`<section class="tiles" aria-label="Runs">
        <${Tile} name="under way" value=${number(active)} href="#/runs?show=active" />
        <${Tile} name="paused" value=${number(held)} note=${held ? "need a decision" : null} href="#/runs?state=paused" kind=${held ? "warn" : ""} />
        <${Tile} name="failed" value=${number(failed)} href="#/runs?show=failed" kind=${failed ? "bad" : ""} />
        <${Tile} name="succeeded" value=${number(of.results.success)} href="#/runs?result=success" />
        <${Tile} name="dead letters" value=${number(of.dead_letters)} href="#/events" kind=${of.dead_letters ? "warn" : ""} />
        <${Tile} name="all runs" value=${number(of.total)} note=${count(of.journal.calls ?? 0, "call")} href="#/runs" />
      </section>
      <div class="columns"><${Failing} /><${Waiting} of=${of.waiting} /></div>
      <div class="columns"><${Lately} /><${Store} all=${of} /></div>`;
  }}<//>`;
}
