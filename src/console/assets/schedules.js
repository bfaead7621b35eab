// Schedules: when they launch next, what became of the launches; pause, backfill, new ones.

import { ask } from "./api.js";
import { badge, facts, h, json, notice, order, put, say } from "./dom.js";
import { ago, clock, number, planLink, span, words } from "./format.js";

/** How many of the next times are shown. */
const NEXT = 8;
/** How many of them a form counts before it asks to launch them. */
const COUNTED = 1000;

function timing(spec) {
  if (spec.cron) return `${spec.cron.pattern} (${spec.cron.zone})`;
  if (spec.every) return `every ${span(spec.every.period_ms)}`;
  if (spec.at) return `once, at ${spec.at}`;
  return "by hand";
}

const field = (label, input, note) => h("p", {}, h("label", {}, `${label} `, input), note && h("span", { class: "quiet" }, ` ${note}`));
const choice = (name, values) => h("select", { name }, values.map((value) => h("option", { value }, words(value))));

/** What a field for dates and times says, as a time in UTC. */
function moment(input) {
  const at = new Date(`${input.value}Z`);
  if (Number.isNaN(at.getTime())) throw new Error("A time is missing.");
  return at.toISOString();
}

/** Ten minutes ago and so on, as a field for dates and times wants it. */
const fieldTime = (ms) => new Date(ms).toISOString().slice(0, 19);

export function schedules(root, _rest, query, { signal, refresh }) {
  const open = new Set();
  const times = new Map();
  let cursor = query.get("cursor");
  let shown = "";

  async function act(on, name, title, text, verb, fields, body) {
    const done = await order(title, text, verb, fields ?? [], async () => await ask(name, { at: { name: on }, body: body?.(), signal }) ?? {});
    if (!done) return;
    if (done.id) say(["A plan has begun: ", planLink(done.id)]);
    else say("Done.");
    shown = "";
    times.delete(on);
    refresh();
  }

  async function backfill(name) {
    const now = Date.now();
    const from = h("input", { type: "datetime-local", name: "from", step: 1, required: true });
    const until = h("input", { type: "datetime-local", name: "until", step: 1, required: true });
    from.value = fieldTime(now - 3600000);
    until.value = fieldTime(now);
    const counted = h("p", { class: "quiet", role: "status" });
    const count = async () => {
      try {
        const [first, end] = [moment(from), moment(until)];
        const before = new Date(Date.parse(first) - 1).toISOString();
        const all = (await ask("scheduleTimes", { at: { name }, query: { after: before, limit: COUNTED }, signal })).times;
        const some = all.filter((time) => Date.parse(time) < Date.parse(end));
        const isMore = some.length === COUNTED;
        counted.textContent = `${number(some.length)}${isMore ? " or more" : ""} ${some.length === 1 ? "time is" : "times are"} in this range${some.length ? `, the first ${some[0]}` : ""}.`;
      } catch (error) {
        counted.textContent = error.detail ?? error.message;
      }
    };
    from.addEventListener("change", count);
    until.addEventListener("change", count);
    count();
    const fields = [field("From, in UTC", from), field("Until, in UTC", until, "that time itself is not in it"), counted];
    const text = "What it would have launched in a range of times is launched now. Times that were launched are not launched again.";
    const done = await order(`Backfill «${name}»`, text, "Launch them", fields, () =>
      ask("backfill", { at: { name }, body: { from: moment(from), until: moment(until) }, signal }));
    if (!done) return;
    say(`${number(done.times)} ${done.times === 1 ? "time is" : "times are"} in the range: the launches are under way.`);
    refresh();
  }

  async function add() {
    const [actions, flows] = await Promise.all([
      ask("actions", { signal }),
      // A program that embeds a world may run no flows.
      ask("flows", { signal }).catch(() => ({ flows: [] })),
    ]);
    const name = h("input", { name: "name", required: true, maxlength: 200, spellcheck: "false" });
    const what = h("select", { name: "what", required: true },
      h("optgroup", { label: "Flows" }, flows.flows.map((flow, at) => h("option", { value: `flow ${at}` }, `${flow.namespace}/${flow.name} ${flow.version}`))),
      h("optgroup", { label: "Actions" }, actions.actions.map((action) => h("option", { value: `action ${action.name}` }, action.name))));
    const kind = choice("kind", ["every", "cron", "at", "manual"]);
    const every = h("input", { name: "every", type: "number", min: 1, step: 1, value: 60, required: true });
    const pattern = h("input", { name: "pattern", value: "0 * * * *", spellcheck: "false", required: true });
    const zone = h("input", { name: "zone", value: "UTC", spellcheck: "false", required: true });
    const at = h("input", { name: "at", type: "datetime-local", step: 1, required: true });
    at.value = fieldTime(Date.now() + 3600000);
    const overlap = choice("overlap", ["forbid", "allow", "replace", "queue"]);
    const input = h("textarea", { name: "input", rows: 4, spellcheck: "false" });
    input.value = "{}";
    const parts = {
      every: [field("Seconds between", every)],
      cron: [field("Pattern", pattern, "minute, hour, day, month, day of the week"), field("Time zone", zone)],
      at: [field("Time, in UTC", at)],
      manual: [],
    };
    const place = h("div", {});
    const draw = () => put(place, parts[kind.value]);
    kind.addEventListener("change", draw);
    draw();
    const fields = [field("Name", name), field("Launches", what), field("When", kind), place,
      field("While one is under way", overlap), h("p", {}, h("label", {}, "Input, as JSON ", input))];
    const timing = () => ({
      every: () => ({ every: { period_ms: Number(every.value) * 1000 } }),
      cron: () => ({ cron: { pattern: pattern.value.trim(), zone: zone.value.trim() } }),
      at: () => ({ at: moment(at) }),
      manual: () => ({ manual: {} }),
    })[kind.value]();
    const done = await order("A new schedule", "One with the same name is changed.", "Save", fields, () => {
      const given = JSON.parse(input.value || "null");
      const [of, ...rest] = what.value.split(" ");
      const flow = of === "flow" ? flows.flows[Number(rest[0])] : null;
      const body = { timing: timing(), overlap: overlap.value, action: flow ? "flow" : rest.join(" "), input: given };
      // A plan of a flow keeps the definition that it begins with: so does the schedule.
      if (flow) body.input = { definition: flow.hash, flow: `${flow.namespace}/${flow.name}:${flow.version}`, input: given };
      return ask("putSchedule", { at: { name: name.value.trim() }, body, signal });
    });
    if (!done) return;
    say(`«${done.name}» is saved${done.next ? `; it launches next at ${done.next}` : ""}.`);
    shown = "";
    refresh();
  }

  function buttons(schedule) {
    const why = h("input", { name: "why", maxlength: 500 });
    const { name } = schedule;
    return h("span", { class: "buttons" },
      schedule.paused
        ? h("button", { "data-key": `u-${name}`, on: { click: () => act(name, "unpause", "Go on?", `«${name}» launches again at its times.`, "Go on") } }, "Go on")
        : h("button", { "data-key": `p-${name}`, on: { click: () => act(name, "pause", "Pause?", `«${name}» launches nothing by itself until somebody lets it go on.`, "Pause", [field("Why", why)], () => ({ why: why.value })) } }, "Pause"),
      h("button", { "data-key": `t-${name}`, on: { click: () => act(name, "trigger", "Launch now?", `«${name}» begins a plan now, besides its times.`, "Launch") } }, "Launch now"),
      !schedule.timing.manual && h("button", { "data-key": `b-${name}`, on: { click: () => backfill(name) } }, "Backfill…"),
      h("button", { class: "hard", "data-key": `r-${name}`, on: { click: () => act(name, "removeSchedule", "Remove it?", `«${name}» is forgotten. Its plans that are under way go on.`, "Remove") } }, "Remove"));
  }

  function more(schedule) {
    const next = times.get(schedule.name);
    return h("div", { class: "inside" },
      facts([["Action", schedule.action], ["Overlap", words(schedule.overlap)], ["Missed times", words(typeof schedule.catch_up === "string" ? schedule.catch_up : `all within ${span(schedule.catch_up.all?.window_ms)}`)],
        ["Jitter", schedule.jitter_ms ? span(schedule.jitter_ms) : null], ["Created", clock(schedule.created_at)],
        ["Launched", number(schedule.launched)], ["Left out", number(schedule.skipped)], ["Missed", number(schedule.missed)], ["Failed", number(schedule.failed)], ["Waiting", number(schedule.waiting)]]),
      schedule.running.length > 0 && h("p", {}, "Under way: ", schedule.running.slice(0, 20).map((id) => [planLink(id), " "])),
      h("h3", {}, "Next times"), next === undefined ? h("p", { class: "quiet" }, "Loading…")
        : next.length ? h("ul", {}, next.map((time) => h("li", {}, clock(time), " ", ago(time)))) : h("p", { class: "quiet" }, "There are none."),
      h("h3", {}, "Launches"), schedule.history.length === 0 ? h("p", { class: "quiet" }, "There was none yet.")
        : h("ul", {}, [...schedule.history].reverse().slice(0, 30).map((launch) => h("li", {}, clock(launch.planned), " ", badge(launch.outcome), ` ${words(launch.occasion)} `,
          launch.plan && planLink(launch.plan), launch.why))),
      h("h3", {}, "Input"), json(schedule.input));
  }

  /** The next times of one that is open; they are asked for once, and again after an order. */
  async function load(name) {
    try {
      times.set(name, (await ask("scheduleTimes", { at: { name }, query: { limit: NEXT }, signal })).times);
    } catch {
      times.set(name, []);
    }
    shown = "";
    refresh();
  }

  function row(schedule) {
    const { name } = schedule;
    const details = h("details", { open: open.has(name) },
      h("summary", { "data-item": true, "data-key": name },
        h("b", {}, name), " ", h("span", { class: "quiet" }, timing(schedule.timing)), " ",
        schedule.paused ? badge("paused") : schedule.next ? h("span", {}, "next ", ago(schedule.next)) : h("span", { class: "quiet" }, "no more times"),
        schedule.failed > 0 && [" ", badge("failed")]),
      open.has(name) && more(schedule));
    details.addEventListener("toggle", () => {
      if (details.open === open.has(name)) return;
      details.open ? open.add(name) : open.delete(name);
      shown = "";
      details.open ? load(name) : refresh();
    });
    return h("li", { class: "card" }, h("div", { class: "head" }, details, buttons(schedule)),
      schedule.paused && h("p", { class: "quiet" }, `Paused by ${schedule.paused.by} `, ago(schedule.paused.at), schedule.paused.why && `: ${schedule.paused.why}`),
      schedule.problem && h("p", { class: "error" }, `${schedule.problem}: put the schedule again.`));
  }

  return {
    title: "Schedules",
    change(_rest, query) {
      cursor = query.get("cursor");
      shown = "";
    },
    async refresh() {
      const page = await ask("schedules", { query: { limit: 100, cursor }, signal });
      const text = JSON.stringify(page);
      if (text === shown) return;
      shown = text;
      for (const name of open) if (!times.has(name)) load(name);
      const none = notice("There is no schedule", "Add one here, or from a shell: turnwheel schedule add --help.");
      const more = h("button", { class: "main", "data-key": "add", on: { click: () => add().catch((error) => say(error.detail ?? error.message, true)) } }, "Add a schedule…");
      put(root, h("div", { class: "head" }, h("h1", {}, "Schedules"), more), page.schedules.length ? h("ul", { class: "cards" }, page.schedules.map(row)) : none,
        h("p", { class: "buttons" }, cursor && h("a", { href: "#/schedules" }, "First page"),
          page.next && h("a", { href: `#/schedules?cursor=${encodeURIComponent(page.next)}` }, "Next page")));
    },
  };
}
