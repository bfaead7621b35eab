// Is it healthy, what failed, what waits and why.

import { ask, figures } from "./api.js";
import { badge, h, notice, put } from "./dom.js";
import { ago, number, planLink, rate, serverNow, span, words } from "./format.js";
import { orderOf, STATES } from "./plans.js";

/** How many failed plans are listed. */
const FAILED = 10;

function tile(name, value, note, href, kind = "") {
  const inner = [h("span", { class: "tile-value" }, value), h("span", { class: "tile-name" }, name), note && h("span", { class: "quiet" }, note)];
  return href ? h("a", { class: `tile ${kind}`, href, "data-item": true, "data-key": `tile-${name}` }, inner)
    : h("div", { class: `tile ${kind}` }, inner);
}

function failedRow(plan) {
  return h("li", {}, h("a", { href: `#/plan/${plan.id}`, "data-item": true, "data-key": plan.id },
    h("span", { class: "grow" }, plan.label || plan.action), badge(plan.state), badge(plan.result), ago(plan.ended_at ?? plan.started_at ?? plan.created_at)),
    plan.waits_for && h("p", { class: "quiet" }, plan.waits_for));
}

function waitRow(waiting) {
  return h("li", {}, h("a", { href: `#/plans?waits=${encodeURIComponent(waiting.waits)}`, "data-item": true, "data-key": `waits-${waiting.waits}` },
    h("span", { class: "grow" }, words(waiting.waits)), h("b", {}, number(waiting.plans))),
    waiting.oldest && h("p", { class: "quiet" }, "The oldest: ", planLink(waiting.oldest), ", created ", ago(waiting.oldest_at), waiting.waits_for && `: ${waiting.waits_for}`));
}

export function overview(root, _rest, _query, { signal }) {
  let shown = "";
  return {
    title: "Overview",
    async refresh() {
      const all = await figures(signal);
      // A list of which nothing fits would have to look at all plans.
      const some = (state, result) => all.plans.some((group) => group.state === state && (!result || group.result === result) && group.plans > 0);
      const listed = (state, result) => (some(state, result) ? ask("plans", { query: { state, result, limit: FAILED }, signal }) : { plans: [] });
      const [paused, failed] = await Promise.all([listed("paused"), listed("stopped", "error")]);
      serverNow(all.now);
      const text = JSON.stringify([{ ...all, now: "" }, paused, failed]);
      if (text === shown) return;
      shown = text;
      if (all.total === 0) {
        put(root, h("h1", {}, "Overview"), notice("There is no plan yet",
          "Begin one under World, or from a shell: turnwheel run FILE runs a flow, POST api/v1/plans begins a plan."),
        rates(all));
        return;
      }
      const active = STATES.filter((state) => state !== "stopped").reduce((sum, state) => sum + (all.states[state] ?? 0), 0);
      const held = all.states.paused ?? 0;
      put(root, h("h1", {}, "Overview"),
        h("section", { class: "tiles", "aria-label": "Plans" },
          tile("under way", number(active), null, "#/plans?state=pending,scheduled,planning,planned,running,paused"),
          tile("paused", number(held), held ? "need a decision" : null, "#/plans?state=paused", held ? "bad" : ""),
          tile("failed", number(all.results.error), null, "#/plans?result=error", all.results.error ? "bad" : ""),
          tile("succeeded", number(all.results.success), null, "#/plans?result=success"),
          tile("dead letters", number(all.dead_letters), null, "#/letters", all.dead_letters ? "warn" : ""),
          tile("all plans", number(all.total), null, "#/plans")),
        h("div", { class: "columns" },
          h("section", {}, h("h2", {}, "What failed"),
            list([...paused.plans, ...failed.plans].map(failedRow), "Nothing is paused, nothing has failed.")),
          h("section", {}, h("h2", {}, "What waits, and why"),
            list(all.waiting.map(waitRow), "No plan waits for anything."))),
        states(all), rates(all));
    },
  };
}

function list(rows, none) {
  return rows.length ? h("ul", { class: "rows" }, rows) : h("p", { class: "quiet" }, none);
}

function states(all) {
  const part = (field, counts, order) => order.filter((name) => counts[name]).map((name) =>
    h("a", { class: "chip", href: `#/plans?${field}=${name}` }, badge(name), " ", number(counts[name])));
  return h("section", {}, h("h2", {}, "By state and result"),
    h("p", { class: "chips" }, part("state", all.states, STATES)),
    h("p", { class: "chips" }, part("result", all.results, orderOf(all.results))));
}

function rates(all) {
  const journal = all.journal;
  const commit = journal.commit_us ?? {};
  return h("section", {}, h("h2", {}, "Rates"), h("p", { class: "quiet" }, "The world began ", ago(all.started_at), "; counted since then."),
    h("div", { class: "tiles small" },
      tile("plans a second", rate(journal.plans_per_s), "ended, over ten seconds"),
      tile("steps a second", rate(journal.steps_per_s), "ended, over ten seconds"),
      tile("plans ended", number(journal.plans_ended), `${number(journal.plans_failed)} failed`),
      tile("failed calls", number(journal.failures), `of ${number(journal.calls)}`),
      tile("events taken", number(journal.events), null),
      tile("a commit takes", span((commit.p50 ?? 0) / 1000), `99 of 100: ${span((commit.p99 ?? 0) / 1000)}`)));
}
