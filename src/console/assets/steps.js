// The steps of a plan as a tree, of which only what can be seen is drawn; and one step with all there is.

import { ask } from "./api.js";
import { badge, facts, h, json, order, put, say } from "./dom.js";
import { ago, between, clock, number, span, taskName, words } from "./format.js";

/** The height of a row; the style sheet has the same. */
const ROW = 30;
/** How long after the last key the server is asked. */
const TYPED_MS = 250;
/** Rows beyond the edge that are drawn too. */
const BEYOND = 12;

/** The steps of all actions as a flat list with depths, as a tree is drawn. Planning that went well is left out where there is more. */
export function flatten(tree) {
  const rows = [];
  for (const action of tree.nodes) {
    const some = action.steps.filter((node) => node.phase !== "plan" || node.state !== "success");
    const steps = some.length ? some : action.steps;
    if (steps.length !== 1) rows.push({ depth: action.depth, text: taskName(action.name), state: action.state });
    const depth = steps.length === 1 ? action.depth : action.depth + 1;
    for (const node of steps) rows.push({ depth, node, phase: node.phase === "run" ? "" : node.phase });
  }
  return rows;
}

const ACTIVE = new Set(["running", "suspended", "retrying", "skipping", "reverting", "revert_retrying", "scheduling"]);
const BAD = new Set(["error", "revert_failed"]);
/** How many actions are asked for at once: of a plan with more there are pages. */
const PAGE = 1000;
/** What each filter asks the server for, where there are pages. */
const ASKED = { failed: [...BAD], "under way": [...ACTIVE], "not begun": ["pending"] };
const FILTERS = {
  "all steps": () => true,
  failed: (node) => BAD.has(node.state),
  "under way": (node) => ACTIVE.has(node.state),
  "not begun": (node) => node.state === "pending",
};

export class Steps {
  #id; #signal; #again;
  #rows = []; #all = []; #at = 0; #filter = "all steps"; #text = "";
  #chosen = null; #step = null; #stepText = ""; #isPaused = false;
  #list; #space; #window; #panel; #bar; #pages; #tree = null; #first = true;
  /** Whether the plan has more actions than are asked for at once; the pages before this one; its cursor. */
  #isPaged = false; #back = []; #cursor = null; #timer = 0;

  constructor(id, signal, again) {
    this.#id = id;
    this.#signal = signal;
    this.#again = again;
    this.#window = h("div", { class: "window" });
    this.#space = h("div", { class: "space", role: "presentation" }, this.#window);
    this.#list = h("div", {
      class: "steps", role: "listbox", tabindex: 0, "aria-label": "Steps", "data-item": true, "data-key": "steps",
      on: { scroll: () => this.#draw(), keydown: (event) => this.#key(event) },
    }, this.#space);
    this.#panel = h("aside", { class: "panel", "aria-label": "The chosen step" }, h("p", { class: "quiet" }, "Choose a step to see all of it."));
    this.#bar = h("div", { class: "filters" });
    this.#pages = h("p", { class: "buttons" });
  }

  /** What is asked of the server: a page of the tree. */
  query(plan) {
    // What needs somebody is shown first, on whichever page it is.
    if (this.#first && this.#chosen === null && Object.values(plan.steps).reduce((sum, count) => sum + count, 0) > PAGE
      && [...BAD].some((state) => plan.steps[state] > 0)) {
      this.#filter = "failed";
      this.#isPaged = true;
    }
    if (!this.#isPaged) return { limit: PAGE };
    return { limit: PAGE, cursor: this.#cursor, state: ASKED[this.#filter]?.join(","), text: this.#text };
  }

  /** Whether some are left out by what was asked for. */
  isSifted() {
    return this.#isPaged && (this.#text !== "" || this.#filter !== "all steps");
  }

  /** Another page, or other steps. */
  #turn(cursor, back) {
    this.#cursor = cursor;
    this.#back = back;
    this.#list.scrollTop = 0;
    this.#at = 0;
    this.#again();
  }

  #drawPages() {
    const { total, from, nodes, next } = this.#tree;
    if (!this.#isPaged) return put(this.#pages);
    const text = nodes.length === 0 ? "None fits." : `Actions ${number(from + 1)} to ${number(from + nodes.length)} of ${number(total)}${this.isSifted() ? " that fit" : ""}.`;
    put(this.#pages, h("span", { class: "quiet" }, text),
      this.#back.length > 0 && h("button", { "data-key": "steps-before", "data-instead": "steps-next", on: { click: () => this.#turn(this.#back.at(-1), this.#back.slice(0, -1)) } }, "Earlier"),
      next && h("button", { "data-key": "steps-next", "data-instead": "steps-before", on: { click: () => this.#turn(next, [...this.#back, this.#cursor]) } }, "Later"));
  }

  show(root, tree, plan) {
    this.#isPaused = plan.state === "paused";
    if (tree !== this.#tree) {
      this.#tree = tree;
      this.#isPaged ||= tree.next !== null;
      this.#all = flatten(tree);
      this.#sift();
      this.#drawPages();
    }
    if (!root.contains(this.#list)) {
      put(root, this.#bar, this.#pages, h("div", { class: "split" }, this.#list, this.#panel));
      this.#drawBar();
      new ResizeObserver(() => this.#draw()).observe(this.#list);
    }
    if (this.#first) {
      this.#first = false;
      // What needs somebody is shown first.
      this.#drawBar();
      const bad = this.#rows.findIndex((row) => row.node && BAD.has(row.node.state));
      const busy = this.#rows.findIndex((row) => row.node && ACTIVE.has(row.node.state));
      const to = bad >= 0 ? bad : busy;
      if (this.#chosen === null && to >= 0) {
        this.#choose(to);
        requestAnimationFrame(() => this.#see());
      }
    }
    if (this.#chosen !== null) this.#at = Math.max(0, this.#rows.findIndex((row) => row.node?.id === this.#chosen));
    this.#draw();
  }

  /** Another page has chosen a step. */
  choose(step) {
    this.#chosen = step;
    this.#first = false;
    this.#stepText = "";
    this.#at = Math.max(0, this.#rows.findIndex((row) => row.node?.id === step));
    requestAnimationFrame(() => this.#see());
  }

  async refresh() {
    if (this.#chosen === null) return;
    const chosen = this.#chosen;
    const step = await ask("step", { at: { plan: this.#id, step: chosen }, signal: this.#signal });
    const text = JSON.stringify([step, this.#isPaused]);
    if (chosen !== this.#chosen || text === this.#stepText) return;
    this.#stepText = text;
    this.#step = step;
    this.#drawStep();
  }

  #sift() {
    const fits = FILTERS[this.#filter];
    const text = this.#text.toLowerCase();
    if (this.isSifted()) {
      // The server has said which; an action has steps of other kinds too.
      const states = ASKED[this.#filter];
      const number = this.#all.some(({ node }) => String(node?.id) === text);
      this.#rows = this.#all.filter(({ node }) => node && (!states || states.includes(node.state)) && (!number || String(node.id) === text)).map((row) => ({ ...row, depth: 0 }));
      return;
    }
    const isAll = this.#filter === "all steps" && !text;
    this.#rows = isAll ? this.#all
      : this.#all.filter(({ node }) => node && fits(node) && (node.name.toLowerCase().includes(text) || String(node.id) === text)).map((row) => ({ ...row, depth: 0 }));
  }

  #drawBar() {
    const search = h("input", { type: "search", "data-search": true, placeholder: "Name or number of a step", "aria-label": "Search steps", value: this.#text });
    const filter = h("select", { "aria-label": "Which steps" }, Object.keys(FILTERS).map((name) => h("option", { value: name }, name)));
    filter.value = this.#filter;
    const change = () => {
      this.#text = search.value.trim();
      this.#filter = filter.value;
      if (this.#isPaged) {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#turn(null, []), TYPED_MS);
        return;
      }
      this.#sift();
      this.#list.scrollTop = 0;
      this.#at = 0;
      this.#draw();
    };
    search.addEventListener("input", change);
    filter.addEventListener("change", change);
    put(this.#bar, search, filter);
  }

  #draw() {
    const rows = this.#rows;
    this.#space.style.height = `${Math.max(1, rows.length) * ROW}px`;
    const from = Math.max(0, Math.floor(this.#list.scrollTop / ROW) - BEYOND);
    const to = Math.min(rows.length, from + Math.ceil((this.#list.clientHeight || 400) / ROW) + 2 * BEYOND);
    this.#window.style.transform = `translateY(${from * ROW}px)`;
    const drawn = rows.slice(from, to).map((row, at) => this.#row(row, from + at));
    this.#window.replaceChildren(...(rows.length ? drawn : [h("p", { class: "quiet" }, "No step fits.")]));
    this.#list.setAttribute("aria-activedescendant", `step-row-${this.#at}`);
  }

  #row(row, at) {
    const props = {
      id: `step-row-${at}`, role: "option", "aria-selected": String(row.node ? row.node.id === this.#chosen : false),
      "aria-setsize": this.#rows.length, "aria-posinset": at + 1,
      class: `step-row${at === this.#at ? " at" : ""}${row.node ? "" : " part"}`, on: { click: () => this.#choose(at) },
    };
    const pad = h("span", { class: "pad" });
    pad.style.width = `${Math.min(row.depth, 12) * 16}px`;
    if (!row.node) return h("div", props, pad, h("span", { class: "grow cut" }, row.text), badge(row.state));
    const { node } = row;
    return h("div", props, pad, h("span", { class: `dot s-${node.state}` }), h("span", { class: "quiet num" }, node.id), h("span", { class: "grow cut", title: node.name }, taskName(node.name), row.phase && h("span", { class: "quiet" }, ` ${row.phase}`), node.attempts > 1 && h("span", { class: "quiet" }, ` attempt ${node.attempts}`)),
      node.progress > 0 && node.progress < 1 && h("span", { class: "quiet" }, `${Math.round(node.progress * 100)} %`),
      h("span", { class: "quiet took" }, between(node.started_at, node.ended_at ?? (ACTIVE.has(node.state) ? null : node.started_at))), badge(node.state));
  }

  #choose(at) {
    this.#at = at;
    const node = this.#rows[at]?.node;
    if (node) {
      this.#chosen = node.id;
      this.#stepText = "";
      this.refresh().catch((error) => put(this.#panel, h("p", { class: "error" }, error.detail ?? error.message)));
    }
    this.#draw();
  }

  #see() {
    const top = this.#at * ROW;
    const height = this.#list.clientHeight;
    if (top < this.#list.scrollTop) this.#list.scrollTop = top;
    if (top + ROW > this.#list.scrollTop + height) this.#list.scrollTop = top + ROW - height;
    this.#draw();
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.#list.clientHeight / ROW) - 1);
    const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    if (by === undefined) return this.#choose(this.#at);
    this.#at = Math.min(this.#rows.length - 1, Math.max(0, this.#at + by));
    this.#see();
  }

  #drawStep() {
    const step = this.#step;
    const buttons = step.possible.map((can) => h("button", { class: "main", "data-key": `can-${can}`, on: { click: () => this.#do(can) } }, `${words(can)}…`));
    const error = (title, of) => of && [h("h3", {}, title), h("p", { class: "error" }, of.message), h("p", { class: "quiet" }, `Kind: ${of.kind}${of.is_final ? "; trying again cannot help" : ""}`)];
    put(this.#panel, h("div", { class: "head" }, h("h2", { title: step.name }, `${step.id}. ${taskName(step.name)}`), badge(step.state)),
      step.waits_for && h("p", { class: "why" }, h("b", {}, "It waits: "), step.waits_for),
      step.is_queued && h("p", { class: "why" }, `It waits for a place in the queue «${step.queue}».`),
      buttons.length > 0 && h("p", { class: "buttons" }, buttons),
      error("Error", step.error), error("Error of its compensation", step.revert_error),
      facts([["Phase", step.phase], ["In its own words", step.shown !== step.state && step.shown], ["Outcome", step.outcome], ["Attempt", step.attempt || null], ["Calls", step.calls || null],
        ["Began", step.started_at && clock(step.started_at)], ["Ended", step.ended_at && clock(step.ended_at)], ["Took", step.started_at && between(step.started_at, step.ended_at)],
        ["Its code ran", step.ran_ms ? span(step.ran_ms) : null], ["Next attempt", step.retry_at && ago(step.retry_at)], ["Has to be done", step.limit && ago(step.limit)],
        ["Progress", step.progress > 0 ? `${Math.round(step.progress * 100)} %` : null], ["Queue", step.queue], ["Waiting events", step.waiting_events || null],
        ["Sign of life", step.beat_at && ago(step.beat_at)]]),
      step.beat && [h("h3", {}, "Its last sign of life"), json(step.beat)],
      h("h3", {}, "Input"), json(step.input), step.phase !== "plan" && [h("h3", {}, "Output"), json(step.output)]);
  }

  async #do(can) {
    const step = this.#step;
    const text = h("textarea", { rows: 8, spellcheck: "false", name: "json", id: "json" });
    const ways = {
      skip: ["Skip it?", "It is left out when the plan is resumed.", null],
      retry: ["Begin it anew?", "It and all steps that come after it are put back to their begin; resume the plan then.", null],
      send_event: ["Send an event", "The step gets it when it waits for one. JSON:", null],
      edit_input: ["Change the input", "The input of its action; resume the plan then. JSON:", step.input],
    };
    const [title, note, value] = ways[can] ?? [`${words(can)}?`, "The step is given this order.", null];
    const hasText = can === "send_event" || can === "edit_input";
    text.value = JSON.stringify(value, null, 2);
    const at = { plan: this.#id, step: step.id };
    const signal = this.#signal;
    const done = await order(title, note, words(can), hasText ? [h("label", { class: "hidden", for: "json" }, "JSON"), text] : [], async () => {
      const given = hasText ? JSON.parse(text.value) : null;
      if (can === "send_event") await ask("event", { at, body: { event: given }, signal });
      else if (can === "edit_input") await ask("order", { at, body: { order: "edit_input", action: step.action, input: given }, signal });
      else await ask("order", { at, body: { order: can, step: step.id }, signal });
      return true;
    });
    if (done) say(`${words(can)}: done.`);
    this.#again();
  }
}
