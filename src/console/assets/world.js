// The world: actions, queues, locks, the journal; and events that nobody took.

import { ask, figures } from "./api.js";
import { facts, h, json, notice, order, put, say, table } from "./dom.js";
import { ago, bytes, clock, number, planLink, rate, serverNow, span } from "./format.js";

/** How many letters are shown at first, and more each time. */
const LETTERS = 100;

/** Processes before this one that were killed, or lost their power. */
function incidents(all) {
  if (all.length === 0) return h("p", { class: "quiet" }, "None is known: each process before this one has closed its store.");
  return table([["Found"], ["Process"], ["Had begun"], ["Plans that went on", "right"], ["Plans that were paused", "right"]], all.map((one) => h("tr", { title: one.text },
    h("td", {}, clock(one.found_at), " ", ago(one.found_at)), h("td", {}, `${one.process} on ${one.host}`, one.name && h("div", { class: "quiet" }, one.name)), h("td", {}, clock(one.since)),
    h("td", { class: "right" }, number(one.continued)), h("td", { class: "right" }, number(one.paused)))), "Processes that have ended without closing");
}

/** How plans that are over are removed. */
function retention(about) {
  if (!about) return h("p", { class: "quiet" }, "Plans that are over stay until somebody removes them: no retention is set.");
  return [about.problem && h("p", { class: "why error" }, h("b", {}, "The last time something went wrong: "), about.problem),
    facts([["Removed when over for", span(about.age_ms)], ["Written down before in", about.export ?? "nothing: they are only removed"], ["Looked for every", span(about.every_ms)], ["Last looked", about.last_at ? ago(about.last_at) : "not yet"],
      ["Removed since the world began", number(about.removed)], ["Kept, because they could not be written", about.kept ? h("b", { class: "error" }, number(about.kept)) : "0"]])];
}

export function world(root, _rest, _query, { signal }) {
  let shown = "";

  async function begin(action) {
    const input = h("textarea", { name: "input", rows: 8, spellcheck: "false" });
    input.value = "null";
    const label = h("input", { name: "label", placeholder: "name=value" });
    const fields = [h("p", {}, h("label", {}, "Input, as JSON", input)), h("p", {}, h("label", {}, "A label, if you want ", label))];
    const begun = await order(`Begin «${action}»`, "The plan is durable when the answer comes.", "Begin", fields, () => {
      const body = { action, input: JSON.parse(input.value || "null") };
      const at = label.value.indexOf("=");
      if (label.value) body.labels = at < 0 ? { [label.value]: "" } : { [label.value.slice(0, at)]: label.value.slice(at + 1) };
      return ask("start", { body, signal });
    });
    if (begun) location.hash = `#/plan/${begun.id}`;
  }

  return {
    title: "World",
    async refresh() {
      const asked = ["world", "actions", "locks"].map((name) => ask(name, { signal }));
      const [all, about, actions, locks] = await Promise.all([figures(signal), ...asked]);
      serverNow(all.now);
      const text = JSON.stringify([{ ...all, now: "" }, { ...about, now: "" }, actions, locks]);
      if (text === shown) return;
      shown = text;
      const journal = all.journal;
      const spread = (of) => (of?.count ? `half ${span(of.p50 / 1000)}, 99 of 100 ${span(of.p99 / 1000)}, longest ${span(of.max / 1000)}` : "none yet");
      put(root, h("h1", {}, "World"),
        facts([["Version", all.version], ["Store", about.store], ["Process", `${about.process} on ${about.host}`], ["World began", ago(all.started_at)], ["Its time", clock(all.now)], ["Plans", number(all.total)]]),
        h("h2", {}, "Ends without closing"), incidents(about.incidents),
        h("h2", {}, "Retention"), retention(about.retention),
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
    const text = "It goes to this step, or to another one of the same plan; if it is taken it leaves the list.";
    const done = await order("Send it again?", text, "Send", [h("p", {}, h("label", {}, "Step ", step))], async () => {
      await ask("redeliver", { at: { name: letter.number }, body: { step: Number(step.value) }, signal });
      return true;
    });
    if (done) say("It was taken, and is durable.");
    refresh();
  }

  async function publish() {
    const field = (label, input) => h("p", {}, h("label", {}, `${label} `, input));
    const type = h("input", { name: "type", required: true, spellcheck: "false", placeholder: "com.shop.paid" });
    const source = h("input", { name: "source", required: true, spellcheck: "false", value: "/console" });
    const subject = h("input", { name: "subject", spellcheck: "false" });
    const data = h("textarea", { name: "data", rows: 6, spellcheck: "false" });
    data.value = "{}";
    const text = "A CloudEvent: the flows that listen for such a one get it, and those that begin with one begin.";
    const fields = [field("Type", type), field("Source", source), field("Subject, if it has one", subject), field("Data, as JSON", data)];
    // The same id when it is tried again: an event is taken once.
    const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    const done = await order("Publish an event", text, "Publish", fields, () => {
      const event = { specversion: "1.0", id, type: type.value.trim(), source: source.value.trim(), data: JSON.parse(data.value || "null") };
      if (subject.value.trim()) event.subject = subject.value.trim();
      return ask("publish", { text: JSON.stringify(event), signal });
    });
    if (!done) return;
    const begun = done.started.slice(0, 10).map((id) => [" ", planLink(id)]);
    say([`It is durable. ${number(done.delivered)} ${done.delivered === 1 ? "task has" : "tasks have"} got it${done.undecided ? `, of which ${number(done.undecided)} ${done.undecided === 1 ? "decides itself" : "decide themselves"} whether it is meant` : ""}; ${number(done.started.length)} ${done.started.length === 1 ? "plan has" : "plans have"} begun.`, begun]);
    refresh();
  }

  function draw() {
    const rows = [...all.letters].reverse().slice(0, most).map((letter) => h("li", { class: "card" },
      h("div", { class: "head" }, h("span", {}, `${letter.number}. `, planLink(letter.plan), ` step ${letter.step}, `, ago(letter.at), letter.id && h("span", { class: "quiet" }, ` id ${letter.id}`)),
        h("button", { "data-item": true, "data-key": `letter-${letter.number}`, on: { click: () => again(letter) } }, "Send again…")),
      h("p", { class: "error" }, letter.reason),
      h("details", {}, h("summary", {}, "What it says"), json(letter.event, 10000))));
    put(root, h("div", { class: "head" }, h("h1", {}, "Events"), h("button", { class: "main", "data-key": "publish", on: { click: publish } }, "Publish an event…")),
      h("h2", {}, "Dead letters"),
      h("p", { class: "quiet" }, `Events that no step has taken: ${number(all.total)} in all. The store keeps the newest of them.`),
      rows.length ? h("ul", { class: "cards" }, rows) : notice("None", "Every event was taken by its step."),
      all.letters.length > most && h("button", { "data-key": "more", on: { click: () => { most += LETTERS; draw(); } } }, "More"));
  }

  return {
    title: "Events",
    async refresh() {
      all = await ask("deadLetters", { signal });
      const text = JSON.stringify(all);
      if (text === shown) return;
      shown = text;
      draw();
    },
  };
}
