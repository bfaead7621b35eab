// The world: actions, queues, locks, the journal; and events that nobody took.

import { ask, figures } from "./api.js";
import { confirm, facts, h, json, notice, put, say, table } from "./dom.js";
import { ago, bytes, clock, number, planLink, rate, serverNow, span } from "./format.js";

/** How many letters are shown at first, and more each time. */
const LETTERS = 100;

export function world(root, _rest, _query, { signal }) {
  let shown = "";

  async function begin(action) {
    const input = h("textarea", { name: "input", rows: 8, spellcheck: "false" });
    input.value = "null";
    const label = h("input", { name: "label", placeholder: "name=value" });
    const fields = [h("p", {}, h("label", {}, "Input, as JSON", input)), h("p", {}, h("label", {}, "A label, if you want ", label))];
    if (!await confirm(`Begin «${action}»`, "The plan is durable when the answer comes.", "Begin", fields)) return;
    try {
      const body = { action, input: JSON.parse(input.value || "null") };
      const at = label.value.indexOf("=");
      if (label.value) body.labels = at < 0 ? { [label.value]: "" } : { [label.value.slice(0, at)]: label.value.slice(at + 1) };
      const begun = await ask("start", { body, signal });
      location.hash = `#/plan/${begun.id}`;
    } catch (error) {
      say(error instanceof SyntaxError ? `The input is no JSON: ${error.message}` : error.detail ?? error.message, true);
    }
  }

  return {
    title: "World",
    async refresh() {
      const [all, actions, locks] = await Promise.all([figures(signal), ask("actions", { signal }), ask("locks", { signal })]);
      serverNow(all.now);
      const text = JSON.stringify([{ ...all, now: "" }, actions, locks]);
      if (text === shown) return;
      shown = text;
      const journal = all.journal;
      const spread = (of) => (of?.count ? `half ${span(of.p50 / 1000)}, 99 of 100 ${span(of.p99 / 1000)}, longest ${span(of.max / 1000)}` : "none yet");
      put(root, h("h1", {}, "World"),
        facts([["Version", all.version], ["World began", ago(all.started_at)], ["Its time", clock(all.now)], ["Plans", number(all.total)]]),
        h("h2", {}, "Queues"), h("p", { class: "quiet" }, "Steps run their code in queues; one that is full lets the others wait."),
        table([["Queue"], ["Places", "right"], ["Running", "right"], ["Waiting", "right"], ["Load", "grow"]], all.queues.map((queue) => h("tr", {},
          h("td", {}, queue.name), h("td", { class: "right" }, number(queue.size)), h("td", { class: "right" }, number(queue.running)),
          h("td", { class: "right" }, number(queue.waiting)),
          h("td", { class: "grow" }, h("meter", { min: 0, max: Math.max(1, queue.size), value: queue.running, "aria-label": `Load of ${queue.name}` })))), "Queues"),
        h("h2", {}, "Locks"), locks.locks.length === 0 ? h("p", { class: "quiet" }, "No plan has a lock or waits for one.")
          : table([["Lock"], ["Plan that has it"], ["Plans that wait", "grow"]], locks.locks.slice(0, 500).map((lock) => h("tr", {}, h("td", {}, lock.name),
            h("td", {}, lock.holder ? planLink(lock.holder) : ""), h("td", { class: "grow" }, lock.waiting.slice(0, 10).map((id) => [planLink(id), " "]), lock.waiting.length > 10 && `and ${number(lock.waiting.length - 10)} more`))), "Locks"),
        h("h2", {}, "Journal"),
        facts([["Commits", number(journal.commits)], ["Failed commits", journal.commits_failed ? h("b", { class: "error" }, number(journal.commits_failed)) : "0"],
          ["A commit takes", spread(journal.commit_us)], ["Entries", number(journal.entries)], ["Bytes", bytes(journal.bytes)],
          ["Entries that wait for a commit", number(journal.entries_waiting)], ["Rows that are behind", number(journal.rows_behind)],
          ["Steps a second", rate(journal.steps_per_s)], ["Plans a second", rate(journal.plans_per_s)]]),
        h("h2", {}, "Actions"), actions.actions.length === 0 ? notice("No action", "This program has registered none: flows and actions come from the program that serves.")
          : table([["Action", "grow"], ["Version", "right"], [""]], actions.actions.map((action) => h("tr", {},
            h("td", { class: "grow" }, action.name), h("td", { class: "right" }, action.version),
            h("td", {}, h("button", { "data-item": true, "data-key": `begin-${action.name}`, on: { click: () => begin(action.name) } }, "Begin a plan…")))), "Actions"));
    },
  };
}

export function letters(root, _rest, _query, { signal, refresh }) {
  let shown = "";
  let most = LETTERS;
  let all = null;

  async function again(letter) {
    const step = h("input", { type: "number", min: 1, value: letter.step, name: "step" });
    if (!await confirm("Send it again?", "It goes to this step, or to another one of the same plan; if it is taken it leaves the list.", "Send", [h("p", {}, h("label", {}, "Step ", step))])) return;
    try {
      await ask("redeliver", { at: { name: letter.number }, body: { step: Number(step.value) }, signal });
      say("It was taken, and is durable.");
    } catch (error) {
      say(error.detail ?? error.message, true);
    }
    refresh();
  }

  function draw() {
    const rows = [...all.letters].reverse().slice(0, most).map((letter) => h("li", { class: "card" },
      h("div", { class: "head" }, h("span", {}, `${letter.number}. `, planLink(letter.plan), ` step ${letter.step}, `, ago(letter.at), letter.id && h("span", { class: "quiet" }, ` id ${letter.id}`)),
        h("button", { "data-item": true, "data-key": `letter-${letter.number}`, on: { click: () => again(letter) } }, "Send again…")),
      h("p", { class: "error" }, letter.reason),
      h("details", {}, h("summary", {}, "What it says"), json(letter.event, 10000))));
    put(root, h("h1", {}, "Dead letters"),
      h("p", { class: "quiet" }, `Events that no step has taken: ${number(all.total)} since the world began. They are kept in memory, the newest of them.`),
      rows.length ? h("ul", { class: "cards" }, rows) : notice("None", "Every event was taken by its step."),
      all.letters.length > most && h("button", { "data-key": "more", on: { click: () => { most += LETTERS; draw(); } } }, "More"));
  }

  return {
    title: "Dead letters",
    async refresh() {
      all = await ask("deadLetters", { signal });
      const text = JSON.stringify(all);
      if (text === shown) return;
      shown = text;
      draw();
    },
  };
}
