// Schedules: when they launch next, what became of the launches, pause.

import { ask } from "./api.js";
import { badge, confirm, facts, h, json, notice, put, say } from "./dom.js";
import { ago, clock, number, planLink, span, words } from "./format.js";

/** How many of the next times are shown. */
const NEXT = 8;

function timing(spec) {
  if (spec.cron) return `${spec.cron.pattern} (${spec.cron.zone})`;
  if (spec.every) return `every ${span(spec.every.period_ms)}`;
  if (spec.at) return `once, at ${spec.at}`;
  return "by hand";
}

export function schedules(root, _rest, query, { signal, refresh }) {
  const open = new Set();
  const times = new Map();
  let cursor = query.get("cursor");
  let shown = "";

  async function act(on, name, title, text, verb, fields, body) {
    if (!await confirm(title, text, verb, fields)) return;
    try {
      const done = await ask(name, { at: { name: on }, body: body?.(), signal });
      say(done?.id ? `Plan ${done.id} has begun.` : "Done.");
    } catch (error) {
      say(error.detail ?? error.message, true);
    }
    refresh();
  }

  function buttons(schedule) {
    const why = h("input", { name: "why", maxlength: 500 });
    const { name } = schedule;
    return h("span", { class: "buttons" },
      schedule.paused
        ? h("button", { "data-key": `u-${schedule.name}`, on: { click: () => act(name, "unpause", "Go on?", `«${schedule.name}» launches again at its times.`, "Go on") } }, "Go on")
        : h("button", { "data-key": `p-${schedule.name}`, on: { click: () => act(name, "pause", "Pause?", `«${schedule.name}» launches nothing by itself until somebody lets it go on.`, "Pause", [h("p", {}, h("label", {}, "Why ", why))], () => ({ why: why.value })) } }, "Pause"),
      h("button", { "data-key": `t-${schedule.name}`, on: { click: () => act(name, "trigger", "Launch now?", `«${schedule.name}» begins a plan now, besides its times.`, "Launch") } }, "Launch now"));
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

  function row(schedule) {
    const details = h("details", { open: open.has(schedule.name) },
      h("summary", { "data-item": true, "data-key": schedule.name },
        h("b", {}, schedule.name), " ", h("span", { class: "quiet" }, timing(schedule.timing)), " ",
        schedule.paused ? badge("paused") : schedule.next ? h("span", {}, "next ", ago(schedule.next)) : h("span", { class: "quiet" }, "no more times"),
        schedule.failed > 0 && [" ", badge("failed")]),
      open.has(schedule.name) && more(schedule));
    details.addEventListener("toggle", async () => {
      if (details.open === open.has(schedule.name)) return;
      details.open ? open.add(schedule.name) : open.delete(schedule.name);
      shown = "";
      refresh();
      if (!details.open) return;
      try {
        times.set(schedule.name, (await ask("scheduleTimes", { at: { name: schedule.name }, query: { limit: NEXT }, signal })).times);
      } catch {
        times.set(schedule.name, []);
      }
      shown = "";
      refresh();
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
      const none = notice("There is no schedule", "Make one: turnwheel schedule add --help, or PUT api/v1/schedules/NAME.");
      put(root, h("h1", {}, "Schedules"), page.schedules.length ? h("ul", { class: "cards" }, page.schedules.map(row)) : none,
        h("p", { class: "buttons" }, cursor && h("a", { href: "#/schedules" }, "First page"),
          page.next && h("a", { href: `#/schedules?cursor=${encodeURIComponent(page.next)}` }, "Next page")));
    },
  };
}
