// Entities: which types are used, how many are active, and how one of them is.

import { ask } from "./api.js";
import { badge, facts, h, json, notice, put, reason, table } from "./dom.js";
import { bytes, number, serverNow, span } from "./format.js";

/** What a message for an entity meets. */
const STATES = {
  none: "It is not active: a message activates it.",
  active: "It is active: a message goes to its mailbox.",
  leaving: "Its activation ends: a message waits for the next one.",
  waiting: "It waits for room: too many others are active.",
  held: "Its last activation failed: messages are refused for a while.",
};

export function entities(root, _rest, query, { signal }) {
  let asked = query;
  let shown = "";
  const list = h("section", {});
  const found = h("section", { "aria-live": "polite" });
  const kind = h("select", { name: "type", "aria-label": "Type", required: true });
  const key = h("input", { type: "search", name: "key", "data-search": true, placeholder: "Key", "aria-label": "Key", required: true, spellcheck: "false" });
  const go = (event) => {
    event.preventDefault();
    const of = kind.selectedOptions[0];
    // A plan has a page of its own.
    if (of?.dataset.plan) return void (location.hash = `#/plan/${encodeURIComponent(key.value.trim())}`);
    location.hash = `#/entities?${new URLSearchParams({ type: kind.value, key: key.value })}`;
  };
  put(root, h("h1", {}, "Entities"),
    h("p", { class: "quiet" }, "Actors that are found by type and key, activated by their first message and out of memory when they are idle."),
    list, h("h2", {}, "Look one up"),
    h("form", { class: "filters", role: "search", on: { submit: go } }, kind, key, h("button", { type: "submit" }, "Look")), found);

  function drawTypes(all) {
    const chosen = kind.value || asked.get("type");
    put(kind, all.types.map((type) => h("option", { value: type.name, "data-plan": type.is_plan }, type.is_plan ? `${short(type.name)} (plans)` : short(type.name))));
    if (chosen) kind.value = chosen;
    if (asked.get("key") && !key.value) key.value = asked.get("key");
    if (all.types.length === 0) return put(list, notice("No entity was used yet", "A type is here from its first message on. A program that embeds Turnwheel names its entities in the options of its router."));
    put(list, table([["Type", "grow"], ["Active", "right"], ["Activations", "right"], ["Oldest idle", "right"], ["Leaves memory after", "right"], ["Waiting for room", "right"], ["Bytes", "right"], ["Made room", "right"], ["Refused", "right"], ["Replaced", "right"]],
      all.types.map((type) => h("tr", {}, h("td", { class: "grow" }, h("span", { title: type.name }, short(type.name)), type.is_plan && [" ", h("a", { href: "#/plans" }, "the plans")]),
        h("td", { class: "right" }, number(type.active)), h("td", { class: "right" }, number(type.activations)),
        h("td", { class: "right" }, type.oldest_idle_ms === null ? "" : span(type.oldest_idle_ms)), h("td", { class: "right" }, type.idle_limit_ms === null ? "never" : span(type.idle_limit_ms)),
        h("td", { class: "right" }, number(type.waiting)), h("td", { class: "right" }, type.bytes ? bytes(type.bytes) : ""), h("td", { class: "right" }, number(type.shed)),
        h("td", { class: "right" }, bad(type.refused)), h("td", { class: "right" }, bad(type.replaced)))), "Types of entities"));
  }

  const bad = (count) => (count ? h("b", { class: "error" }, number(count)) : "0");
  /** The name of a Rust type without where it is from; others as they are. */
  const short = (name) => (/^\w+::/.test(name) && !name.includes("<") ? name.split("::").at(-1) : name);

  function drawOne(one) {
    const { stored } = one;
    put(found, h("div", { class: "head" }, h("h3", {}, `${short(one.name)} «${one.key}»`), badge(one.state)),
      h("p", {}, STATES[one.state] ?? ""), one.failure && h("p", { class: "why error" }, one.failure),
      facts([["Activation", one.activation], ["Phase", one.phase], ["Messages that wait", number(one.queued)], ["Idle for", one.idle_ms === null ? null : span(one.idle_ms)],
        ["Bytes", one.bytes ? bytes(one.bytes) : null], ["Refuses for", one.held_ms === null ? null : span(one.held_ms)],
        ["Stored version", stored?.version], ["Stored bytes", stored && (stored.bytes === null ? "removed" : number(stored.bytes))]]),
      stored && stored.bytes !== null && [h("h3", {}, "Stored state"), stored.value === null && stored.bytes !== 4 ? h("p", { class: "quiet" }, "It is not JSON, or too large to be shown here.") : json(stored.value)]);
  }

  return {
    title: "Entities",
    change(_rest, query) {
      asked = query;
      shown = "";
      if (query.get("key")) key.value = query.get("key");
    },
    async refresh() {
      const all = await ask("entityTypes", { signal });
      serverNow(all.now);
      const [type, of] = [asked.get("type"), asked.get("key")];
      let one = null;
      if (type && of) {
        try {
          one = await ask("entity", { at: { name: type, key: of }, signal });
        } catch (error) {
          if (error.status !== 404 && error.status !== 400) throw error;
          put(found, notice("It cannot be looked up", reason(error)));
        }
      }
      const text = JSON.stringify([{ ...all, now: "" }, one]);
      if (text === shown) return;
      shown = text;
      drawTypes(all);
      if (one) drawOne(one);
    },
  };
}
