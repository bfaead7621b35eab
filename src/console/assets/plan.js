// One plan: what it did and when, why it waits, what can be done with it now.

import { ask } from "./api.js";
import { badge, facts, h, json, order as askFor, put, say, table } from "./dom.js";
import { ago, between, clock, number, planLink, span, words } from "./format.js";
import { Pages } from "./pages.js";
import { graphPicture, timelinePicture } from "./picture.js";
import { Steps } from "./steps.js";

/** The tabs, and the operation that each asks for. */
const TABS = { steps: "tree", graph: "graph", timeline: "timeline", history: "calls", data: null };

/** Plans with more steps ask less often for all of them. */
const MANY_STEPS = 2000;
const MANY_MS = 10000;
/** What is asked for of each picture: the rows of a graph are summed up beyond so many boxes, planning is left out of the timeline. */
const ASKED = { graph: { limit: 500, beside: 19 }, timeline: { limit: 200, phase: "run,finalize" }, history: { limit: 200, order: "newest" } };

/** What each order does, said before it is given. */
const ORDERS = {
  pause: "It takes no new step until it is resumed; code that runs is not interrupted.",
  resume: "It goes on: failed steps are tried again.",
  skip_failed: "Failed steps are left out, and it goes on.",
  retry_failed: "Failed steps, and all that come after them, are put back to their begin, and it goes on.",
  revert: "What was done is taken back, the last step first.",
  fail: "It ends as it is, with the result «error».",
  cancel: "It ends; code that runs is waited for.",
  cancel_now: "It ends; code that runs is not waited for.",
  terminate: "It ends where it is: none of its code is called, nothing is taken back.",
  freeze: "It is held until somebody gives it a time.",
  delay_until: "It is planned at another time; without a time at once.",
};

/** New plans in place of one that is over: the title, and what happens. */
const RERUNS = {
  retry: ["Retry from the failed task", "A new plan goes on with the task that failed. Tasks that were done are not done again.", "Input of the failed task, as JSON; empty for the data that it had"],
  again: ["Run again", "A new plan runs all of it from its begin.", "Input, as JSON; empty for the input that it had"],
};

/** Orders that take something away are not the first choice. */
const HARD = new Set(["cancel", "cancel_now", "terminate", "fail", "revert"]);

function total(plan) {
  return Object.values(plan.steps).reduce((sum, count) => sum + count, 0);
}

function tabOf(name) {
  return Object.hasOwn(TABS, name ?? "") ? name : "steps";
}

export function plan(root, rest, _query, { signal, refresh }) {
  const id = rest[0];
  let tab = tabOf(rest[1]);
  let detail = null;
  let detailText = "";
  /** What was loaded for each tab, of which version of the plan, and when. */
  const loaded = new Map();
  const pages = Object.fromEntries(Object.keys(ASKED).map((name) => [name, new Pages(refresh)]));
  const head = h("div", {});
  const tabs = h("nav", { class: "tabs", "aria-label": "Parts of the plan" });
  const body = h("section", { "aria-live": "off" });
  const steps = new Steps(id, signal, refresh);
  put(root, head, tabs, body);
  drawTabs();

  function drawTabs() {
    put(tabs, Object.keys(TABS).map((name) => h("a", {
      href: `#/plan/${encodeURIComponent(id)}/${name}`, "aria-current": name === tab ? "page" : null, "data-key": `tab-${name}`,
    }, name)));
  }

  async function give(order) {
    const time = h("input", { type: "datetime-local", name: "time", step: 1 });
    const fields = order === "delay_until" ? [h("p", {}, h("label", {}, "Time, in UTC ", time))] : [];
    const done = await askFor(`${words(order)}?`, ORDERS[order] ?? "The plan is given this order.", words(order), fields, () => {
      const body = { order };
      if (order === "delay_until" && time.value) body.start_at = new Date(`${time.value}Z`).toISOString();
      return ask("order", { at: { plan: id }, body, signal });
    });
    if (done) say(`${words(order)}: done, noted for ${done.by}.`);
    refresh();
  }

  async function rerun(kind) {
    const [title, text, hint] = RERUNS[kind];
    const input = h("textarea", { name: "input", rows: 8, spellcheck: "false" });
    const version = h("input", { name: "version", spellcheck: "false", placeholder: detail.labels["flow.version"] ?? "" });
    if (kind === "again" && isFlow()) input.value = JSON.stringify(detail.input ?? null, null, 2);
    const given = input.value;
    const fields = [h("p", {}, h("label", {}, hint, input)),
      isFlow() && h("p", {}, h("label", {}, "Version of the flow, if it is to be another one ", version))];
    const begun = await askFor(`${title}?`, text, title, fields, () => {
      const body = {};
      if (input.value.trim() && input.value !== given) body.input = JSON.parse(input.value);
      if (version.value.trim()) body.version = version.value.trim();
      return ask(kind, { at: { plan: id }, body, signal });
    });
    if (begun) location.hash = `#/plan/${begun.id}`;
  }

  function isFlow() {
    return detail.action === "flow";
  }

  /** What can run in place of a plan that is over. */
  function reruns() {
    if (detail.state !== "stopped") return [];
    const kinds = isFlow() && detail.result !== "success" ? ["retry", "again"] : ["again"];
    return kinds.map((kind) => h("button", { class: "main", "data-key": `rerun-${kind}`, on: { click: () => rerun(kind) } }, `${RERUNS[kind][0]}…`));
  }

  function drawHead() {
    const plan = detail;
    const counts = Object.entries(plan.steps);
    const all = total(plan);
    const after = Object.entries(plan.delayed?.after ?? {});
    put(head,
      h("p", { class: "crumbs" }, h("a", { href: "#/plans" }, "Plans"), plan.caller && [" › for ", planLink(plan.caller.plan), ` step ${plan.caller.step}`]),
      h("div", { class: "head" }, h("h1", {}, plan.label || plan.action), h("span", {}, badge(plan.state), " ", badge(plan.result))),
      h("p", { class: "id" }, h("code", {}, plan.id)),
      plan.waits_for && h("p", { class: "why" }, h("b", {}, "It waits: "), plan.waits_for, plan.wakes_at && [" · goes on ", ago(plan.wakes_at)]),
      plan.planning_error && h("p", { class: "why error" }, h("b", {}, "Planning failed: "), plan.planning_error.message),
      plan.cancel && h("p", { class: "why" }, `${plan.cancel.by} has asked for its end `, ago(plan.cancel.at), plan.cancel.is_forced && ", not waiting for code that runs"),
      plan.is_reverting && h("p", { class: "why" }, "What was done is being taken back."),
      h("progress", { max: 1, value: plan.progress, "aria-label": "How far it is" }),
      h("p", { class: "buttons" }, [...plan.possible].sort((one, other) => HARD.has(one) - HARD.has(other)).map((order) =>
        h("button", { class: HARD.has(order) ? "hard" : "main", "data-key": `order-${order}`, on: { click: () => give(order) } }, words(order))), reruns()),
      facts([
        ["Action", plan.label !== plan.action && plan.action], ["Begun by", plan.by], ["Created", [clock(plan.created_at), " ", ago(plan.created_at)]],
        ["Took", between(plan.started_at, plan.ended_at)], ["Its code ran", plan.ran_ms ? span(plan.ran_ms) : null],
        ["Ended", plan.ended_at && [clock(plan.ended_at), " ", ago(plan.ended_at)]], ["Deadline", plan.deadline && ago(plan.deadline)],
        ["Outcome", plan.outcome], ["Key", plan.key], ["Priority", plan.priority || null], ["Locks", plan.locks.join(", ")],
        ["Steps", all ? [number(all), " · ", counts.map(([name, count]) => [badge(name), ` ${number(count)} `])] : null],
        ["Labels", Object.entries(plan.labels).filter(([name]) => !["retry.of", "again.of"].includes(name)).map(([name, value]) => [h("span", { class: "label" }, value ? `${name}=${value}` : name), " "])].map((v) => (Array.isArray(v) && v.length === 0 ? null : v)),
        ["Retry of", plan.labels["retry.of"] && planLink(plan.labels["retry.of"])], ["Run again of", plan.labels["again.of"] && planLink(plan.labels["again.of"])],
        ["Not before", plan.delayed?.start_at && clock(plan.delayed.start_at)], ["Not after", plan.delayed?.start_before && clock(plan.delayed.start_before)],
        ["Held", plan.delayed?.is_frozen && "until somebody gives it a time"],
        ["After", after.length > 0 && after.slice(0, 50).map(([other, result]) => [planLink(other), " ", result ? badge(result) : "not over", " "])],
        ["Timers", plan.timers.length > 0 && plan.timers.slice(0, 20).map((timer) => [`step ${timer.step} `, ago(timer.due), " "])],
      ]),
      plan.sub_plans.length > 0 && h("details", { open: head.querySelector("details.subs")?.open ?? false, class: "subs" },
        h("summary", {}, `Sub-plans (${number(plan.sub_plans.length)}${plan.sub_plans.length >= 1000 ? " and more" : ""})`),
        h("ul", { class: "rows short" }, plan.sub_plans.slice(0, 200).map((sub) => h("li", {}, planLink(sub.plan, sub.action), ` of step ${sub.step} `, sub.result ? badge(sub.result) : h("span", { class: "quiet" }, "under way")))),
        h("p", {}, h("a", { href: `#/plans?caller=${encodeURIComponent(id)}` }, "All of them in the list of plans"))));
  }

  function drawBody() {
    const data = loaded.get(tab)?.data;
    const open = (step) => { steps.choose(step); location.hash = `#/plan/${encodeURIComponent(id)}/steps`; };
    if (tab === "data") {
      put(body, h("h2", {}, "Input"), json(detail.input), h("h2", {}, "Output"), json(detail.output));
    } else if (!data) {
      put(body, h("p", { class: "quiet" }, "Loading…"));
    } else if (tab === "history") {
      drawHistory(data);
    } else if (tab === "graph") {
      graphPicture(body, data, pages.graph, open);
    } else if (tab === "timeline") {
      timelinePicture(body, data, pages.timeline, open);
    } else if (data.nodes.length === 0 && !steps.isSifted()) {
      put(body, h("p", { class: "quiet" }, "It has no steps yet: they come with planning."));
    } else {
      steps.show(body, data, detail);
    }
  }

  function drawHistory(data) {
    const { calls } = data;
    const text = `${pages.history.range(calls.length, data.total, "calls, the newest first")}.${data.left_out ? ` ${number(data.left_out)} older ones cannot be told.` : ""}`;
    put(body, h("ol", { class: "history", tabindex: 0, "aria-label": "What happened" }, detail.history.map((line) => h("li", {}, clock(line.at), " ", line.text))),
      h("h2", {}, `Calls of steps (${number(data.total)})`), data.total > 0 && pages.history.bar(text, calls.length, data.next),
      calls.length === 0 ? h("p", { class: "quiet" }, "No step was called yet.")
        : table([["Step"], ["Call"], ["Why", "grow"], ["Began"], ["Code ran"], ["Then"]], calls.map((call) => h("tr", {},
          h("td", {}, call.step), h("td", {}, `${call.call}, attempt ${call.attempt}`), h("td", { class: "grow" }, words(call.why), call.is_revert && " (compensation)", call.error && h("div", { class: "error" }, call.error.message)),
          h("td", {}, clock(call.began)), h("td", {}, span(call.ran_ms)), h("td", {}, badge(call.state)))), "Calls"));
  }

  /** Loads what the tab shows, if the plan has changed; large ones not too often. Answers whether it did. */
  async function load() {
    const of = tab;
    const name = TABS[of];
    if (!name) return false;
    const known = loaded.get(of);
    const query = of === "steps" ? steps.query(detail) : { ...ASKED[of], cursor: pages[of].cursor };
    const asked = JSON.stringify(query);
    const isSame = known !== undefined && known.asked === asked;
    const isOver = isSame && detail.state === "stopped" && known.version === detailText;
    const isSoon = isSame && total(detail) >= MANY_STEPS && Date.now() - known.at < MANY_MS;
    if (isOver || isSoon) return false;
    const data = await ask(name, { at: { plan: id }, query, signal });
    const text = JSON.stringify(data);
    const isNew = text !== known?.text || of === "timeline";
    loaded.set(of, { data, text, asked, version: detailText, at: Date.now() });
    return isNew && of === tab;
  }

  return {
    follows: id,
    title: `Plan ${id.slice(-12)}`,
    change(rest) {
      tab = tabOf(rest[1]);
      drawTabs();
      body.replaceChildren();
      if (detail) drawBody();
    },
    async refresh() {
      detail = await ask("plan", { at: { plan: id }, signal });
      const text = JSON.stringify(detail);
      const isNew = text !== detailText;
      if (isNew) {
        detailText = text;
        drawHead();
      }
      const isLoaded = await load();
      if ((isNew && tab === "data") || isLoaded || body.childElementCount === 0) drawBody();
      if (tab === "steps") await steps.refresh();
    },
  };
}
