// The list of plans: counts, filters, pages, orders for many.

import { ask, figures } from "./api.js";
import { badge, h, notice, order as askFor, put, say, table } from "./dom.js";
import { ago, between, number, planLink, serverNow, words } from "./format.js";

export const STATES = ["pending", "scheduled", "planning", "planned", "running", "paused", "stopped"];
const RESULTS = ["pending", "success", "warning", "error", "cancelled", "reverted"];
const WAITS = ["decision", "permission", "plan", "time", "lock", "sub-plans", "event", "timer", "retry", "place", "store"];
const ORDERS = ["cancel", "cancel_now", "pause", "resume", "skip_failed", "retry_failed", "terminate", "delete"];
/** The ones that are offered for ticked plans. */
const TICKED = ["pause", "resume", "skip_failed", "retry_failed", "cancel", "cancel_now", "terminate", "delete"];
const HARD = new Set(["cancel", "cancel_now", "terminate", "delete"]);
const FIELDS = ["state", "result", "waits", "label", "labels", "action", "key", "by", "caller", "order", "limit", "cursor"];
const PLAN_ID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;
const COLUMNS = [["", "tick"], ["Plan"], ["State"], ["Result"], ["Why it waits", "grow"], ["Created"], ["Took"]];

/** Names that are counted, the known ones first. */
export function orderOf(counts) {
  return [...RESULTS, ...Object.keys(counts).filter((name) => !RESULTS.includes(name))];
}

export function plans(root, _rest, query, { signal, refresh }) {
  let asked = query;
  let shown = "";
  let counted = "";
  const back = [];
  const counts = h("div", { class: "counts" });
  const form = h("form", { class: "filters", role: "search" });
  const list = h("div", { "aria-live": "off" });
  const foot = h("p", { class: "buttons" });
  /** Plans that are ticked, by their ids; those of other pages too. */
  const ticked = new Set();
  const ticks = h("div", { class: "ticks", role: "status" });
  put(root, h("div", { class: "head" }, h("h1", {}, "Plans"), h("button", { "data-key": "many", on: { click: () => many(asked) } }, "Orders for all that fit…")),
    counts, form, ticks, list, foot);
  drawForm(form, asked, go);

  function go(changes) {
    const next = new URLSearchParams(asked);
    for (const [name, value] of Object.entries(changes)) value ? next.set(name, value) : next.delete(name);
    if (!("cursor" in changes)) {
      next.delete("cursor");
      back.length = 0;
    }
    const text = next.toString().replaceAll("%2C", ",");
    location.hash = text ? `#/plans?${text}` : "#/plans";
  }

  function drawFoot(page) {
    const cursor = asked.get("cursor");
    const first = h("button", { "data-key": "first", on: { click: () => go({ label: asked.get("label") }) } }, "First page");
    const before = h("button", { "data-key": "before", "data-instead": "next", on: { click: () => go({ cursor: back.pop() }) } }, "Previous");
    const next = h("button", { "data-key": "next", "data-instead": "before", on: { click: () => { back.push(cursor ?? ""); go({ cursor: page.next }); } } }, "Next");
    put(foot, cursor && first, back.length > 0 && before, page.next && next);
  }

  return {
    title: "Plans",
    change(_rest, query) {
      asked = query;
      shown = "";
      drawForm(form, asked, go);
    },
    async refresh() {
      const of = asked;
      const query = Object.fromEntries(FIELDS.map((name) => [name, of.get(name)]));
      const [page, all] = await Promise.all([ask("plans", { query, signal }), figures(signal)]);
      serverNow(all.now);
      if (of !== asked) return;
      const countText = JSON.stringify([all.states, all.results, all.waiting, asked.toString()]);
      if (countText !== counted) {
        counted = countText;
        drawCounts(counts, all, asked, go);
      }
      const text = JSON.stringify(page);
      if (text === shown) return;
      shown = text;
      put(list, page.plans.length ? table(COLUMNS, page.plans.map(row), "Plans") : nothing(all, asked));
      drawTicks();
      drawFoot(page);
    },
  };

  function nothing(all, asked) {
    if (all.total === 0) {
      return notice("There is no plan yet", "Begin one under World, or with POST api/v1/plans, or run a flow: turnwheel run FILE.",
        h("p", {}, h("a", { href: "#/world" }, "Actions that plans can begin with")));
    }
    if ([...asked.keys()].length === 0) return notice("Nothing here", "Ask again in a moment.");
    return notice("No plan fits", "Take a condition away, or look at all of them. Labels have to be the whole label.",
      h("p", {}, h("a", { href: "#/plans" }, "All plans")));
  }

  function row(plan) {
    const labels = Object.entries(plan.labels ?? {});
    const tick = h("input", { type: "checkbox", "aria-label": `Tick ${plan.label || plan.action} ${plan.id}`, "data-key": `tick-${plan.id}`, checked: ticked.has(plan.id) });
    tick.addEventListener("change", () => {
      tick.checked ? ticked.add(plan.id) : ticked.delete(plan.id);
      drawTicks();
    });
    return h("tr", { class: `row-${plan.state}` }, h("td", { class: "tick" }, tick),
      h("td", { class: "name" }, h("a", { href: `#/plan/${plan.id}`, title: plan.id, "data-item": true, "data-key": plan.id }, plan.label || plan.action),
        plan.label !== plan.action && h("span", { class: "quiet" }, ` ${plan.action}`),
        labels.length > 0 && h("div", {}, labels.slice(0, 6).map(([name, value]) =>
          h("button", { class: "label", title: "Only plans with this label", on: { click: () => go({ labels: `${name}=${value}` }) } }, value ? `${name}=${value}` : name)))),
      h("td", {}, badge(plan.state)),
      h("td", {}, badge(plan.result)),
      h("td", { class: "grow" }, plan.waits_for ?? h("span", { class: "quiet" }, plan.waits === "nothing" ? "" : words(plan.waits)),
        plan.caller && h("span", { class: "quiet" }, " for ", planLink(plan.caller.plan))),
      h("td", {}, ago(plan.created_at)),
      h("td", {}, between(plan.started_at, plan.ended_at)));
  }

  function drawTicks() {
    const shownIds = [...list.querySelectorAll("td.tick input")];
    const all = () => {
      const isOn = shownIds.some((tick) => !tick.checked);
      for (const tick of shownIds) {
        if (tick.checked !== isOn) {
          tick.checked = isOn;
          tick.dispatchEvent(new Event("change"));
        }
      }
    };
    const clear = () => {
      ticked.clear();
      for (const tick of shownIds) tick.checked = false;
      drawTicks();
    };
    put(ticks, shownIds.length > 0 && h("p", { class: "buttons" },
      h("button", { "data-key": "tick-all", on: { click: all } }, shownIds.every((tick) => tick.checked) ? "Tick none of this page" : "Tick all of this page"),
      ticked.size > 0 && [h("b", {}, `${number(ticked.size)} ticked`),
        ...TICKED.map((name) => h("button", { class: HARD.has(name) ? "hard" : "", "data-key": `ticked-${name}`, on: { click: () => some(name) } }, words(name))),
        h("button", { class: "link", "data-key": "tick-clear", on: { click: clear } }, "Untick all")]));
  }

  /** What would come of an order, as a list of plans. */
  function report(look) {
    const line = (one) => h("li", {}, planLink(one.plan, one.label || one.plan), ` ${words(one.outcome)}`, one.why && `: ${one.why}`);
    return h("ul", { class: "report" }, look.plans.slice(0, 20).map(line), look.plans.length > 20 && h("li", { class: "quiet" }, `and ${number(look.plans.length - 20)} more`));
  }

  /** Looks what an order would do, asks, and gives it. */
  async function give(order, of) {
    const look = await ask("orders", { body: { ...of, order, dry_run: true }, signal });
    const text = `${number(look.touched)} plans would be touched, ${number(look.left)} left as they are.`
      + (look.has_more ? " More plans fit: give the order again afterwards." : "");
    if (look.touched === 0) {
      const why = look.plans.find((one) => one.why)?.why;
      return say(`${text} Nothing was changed${why ? `: ${why}` : ""}.`, true);
    }
    const verb = `${words(order)} ${number(look.touched)} ${look.touched === 1 ? "plan" : "plans"}`;
    const done = await askFor(`${words(order)}: sure?`, text, verb, [report(look)], () => ask("orders", { body: { ...of, order }, signal }));
    if (!done) return;
    say(`${number(done.touched)} done, ${number(done.left)} left, ${number(done.failed)} failed.`, done.failed > 0);
    return done;
  }

  async function some(order) {
    try {
      if (await give(order, { plans: [...ticked] })) ticked.clear();
    } catch (error) {
      say(error.detail ?? error.message, true);
    }
    shown = "";
    refresh();
  }

  async function many(asked) {
    const order = h("select", { name: "order" }, ORDERS.map((name) => h("option", { value: name }, words(name))));
    const label = h("p", {}, h("label", {}, "Order ", order));
    const text = "First it is only looked which plans would be touched; nothing is changed.";
    if (!await askFor("Orders for all that fit", text, "Look", [label], () => true)) return;
    try {
      await give(order.value, { filter: bulkFilter(asked) });
    } catch (error) {
      say(error.detail ?? error.message, true);
    }
    refresh();
  }
}

/** The filter of the page as the body of an order says it. */
function bulkFilter(asked) {
  const list = (name) => (asked.get(name) ?? "").split(",").filter(Boolean);
  const filter = { states: list("state"), results: list("result"), waits: list("waits") };
  for (const name of ["label", "action", "by", "caller"]) if (asked.get(name)) filter[name] = asked.get(name);
  filter.labels = Object.fromEntries(list("labels").map((one) => {
    const at = one.indexOf("=");
    return at < 0 ? [one, null] : [one.slice(0, at), one.slice(at + 1)];
  }));
  // An empty filter is refused: all states are what an unfiltered list shows.
  const isEmpty = Object.values(filter).every((value) => (Array.isArray(value) ? value.length === 0 : typeof value === "object" && Object.keys(value).length === 0));
  if (isEmpty) filter.states = STATES;
  return filter;
}

function drawCounts(root, all, asked, go) {
  const chips = (field, entries) => {
    const on = new Set((asked.get(field) ?? "").split(",").filter(Boolean));
    return entries.map(([name, count]) => {
      const toggle = () => {
        on.has(name) ? on.delete(name) : on.add(name);
        go({ [field]: [...on].join(",") });
      };
      return h("button", { class: "chip", "aria-pressed": String(on.has(name)), "data-key": `${field}-${name}`, on: { click: toggle } }, badge(name), ` ${number(count)}`);
    });
  };
  const some = (names, counts) => names.map((name) => [name, counts[name] ?? 0]).filter(([name, count]) => count || asked.toString().includes(name));
  const waits = all.waiting.map((one) => [one.waits, one.plans]);
  put(root,
    h("p", { class: "chips" }, h("span", { class: "quiet" }, "State"), chips("state", some(STATES, all.states))),
    h("p", { class: "chips" }, h("span", { class: "quiet" }, "Result"), chips("result", some(orderOf(all.results), all.results))),
    waits.length > 0 && h("p", { class: "chips" }, h("span", { class: "quiet" }, "Waits for"), chips("waits", waits)));
}

function drawForm(form, asked, go) {
  if (form.contains(document.activeElement) && form.childElementCount) return;
  const search = h("input", {
    type: "search", name: "search", "data-search": true, placeholder: "Label, name=value, or id of a plan",
    value: asked.get("labels") ?? asked.get("label") ?? "", "aria-label": "Search by label, name=value, or id",
  });
  const action = h("input", { type: "search", name: "action", placeholder: "Action", value: asked.get("action") ?? "", "aria-label": "Name of the root action" });
  const key = h("input", { type: "search", name: "key", placeholder: "Key", value: asked.get("key") ?? "", "aria-label": "Idempotency key" });
  const waits = select("waits", "Waits for", WAITS, asked.get("waits"));
  const order = select("order", "Newest first", ["oldest"], asked.get("order"));
  const submit = (event) => {
    event.preventDefault();
    const text = search.value.trim();
    if (PLAN_ID.test(text)) return void (location.hash = `#/plan/${text}`);
    const isLabels = text.includes("=");
    document.activeElement?.blur();
    go({ labels: isLabels ? text : "", label: isLabels ? "" : text, action: action.value.trim(), key: key.value.trim(), waits: waits.value, order: order.value });
  };
  form.onsubmit = submit;
  waits.onchange = submit;
  order.onchange = submit;
  const isFiltered = FIELDS.some((name) => asked.get(name));
  put(form, search, action, key, waits, order, h("button", { type: "submit" }, "Search"), isFiltered && h("a", { href: "#/plans" }, "All plans"));
}

function select(name, none, values, value) {
  const known = values.includes(value) || !value ? values : [...values, value];
  const element = h("select", { name, "aria-label": none }, h("option", { value: "" }, none),
    known.map((one) => h("option", { value: one }, `${name === "order" ? "" : "Waits for "}${words(one)}${name === "order" ? " first" : ""}`)));
  element.value = value ?? "";
  return element;
}

