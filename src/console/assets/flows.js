// Flows: which there are, their source and tasks, and a form to start one.

import { ask } from "./api.js";
import { flowPicture } from "./flowgraph.js";
import { facts, h, json, notice, order, put, table } from "./dom.js";
import { number } from "./format.js";

/** How many flows are listed at first, and more each time. */
const FLOWS = 200;

const link = (flow) => `#/flow/${[flow.namespace, flow.name, flow.version].map(encodeURIComponent).join("/")}`;

export function flows(root, _rest, _query, { signal }) {
  let shown = "";
  let most = FLOWS;
  let text = "";
  let all = { flows: [], unheard_events: 0 };
  const list = h("div", {});
  const search = h("input", { type: "search", "data-search": true, placeholder: "Name of a flow", "aria-label": "Search flows",
    on: { input: () => { text = search.value.trim().toLowerCase(); draw(); } } });
  const head = h("div", { class: "head" }, h("h1", {}, "Flows"), h("a", { class: "button main", href: "#/add-flow", "data-key": "add" }, "Add a flow…"));
  put(root, head, h("div", { class: "filters" }, search), list);

  function draw() {
    if (all.flows.length === 0) {
      return put(list, notice("There is no flow", "Add one here, with POST api/v1/flows, or run one from a shell: turnwheel run FILE."));
    }
    const fit = all.flows.filter((flow) => `${flow.namespace}/${flow.name}`.toLowerCase().includes(text));
    const rows = fit.slice(0, most).map((flow) => h("tr", {}, h("td", { class: "name" }, h("a", { href: link(flow), "data-item": true, "data-key": link(flow) }, flow.name)),
      h("td", {}, flow.namespace), h("td", {}, flow.version), h("td", { class: "grow quiet cut" }, flow.hash)));
    put(list, rows.length ? table([["Flow"], ["Namespace"], ["Version"], ["Hash", "grow"]], rows, "Flows") : h("p", { class: "quiet" }, "No flow fits."),
      fit.length > most && h("button", { "data-key": "more", on: { click: () => { most += FLOWS; draw(); } } }, "More"),
      all.unheard_events > 0 && h("p", { class: "quiet" }, `Events that nobody waited for since the world began: ${number(all.unheard_events)}.`),
      all.unclear_filters > 0 && h("p", { class: "quiet" }, `Times that an event filter could not be evaluated, so that its event counted as not meant: ${number(all.unclear_filters)}. The history of the plan that listens says why.`));
  }

  return {
    title: "Flows",
    async refresh() {
      try {
        all = await ask("flows", { signal });
      } catch (error) {
        // A program that embeds a world may run none.
        if (error.status !== 404) throw error;
        shown = "";
        head.querySelector("a")?.remove();
        return put(list, notice("This server runs no flows", "Its plans begin with the actions of the program that serves.", h("p", {}, h("a", { href: "#/world" }, "Actions that plans can begin with"))));
      }
      const now = JSON.stringify(all);
      if (now === shown) return;
      shown = now;
      draw();
    },
  };
}

/** Inputs for the properties of a schema; nothing if it describes no plain object. Answers how to read them. */
export function formOf(schema) {
  const properties = schema?.type === "object" || schema?.properties ? schema.properties ?? {} : null;
  if (!properties || Object.keys(properties).length === 0) return null;
  const needed = new Set(schema.required ?? []);
  const fields = Object.entries(properties).map(([name, of]) => {
    const required = needed.has(name);
    const kind = Array.isArray(of?.type) ? of.type[0] : of?.type;
    let input;
    let read;
    if (Array.isArray(of?.enum)) {
      input = h("select", { name }, !required && h("option", { value: "" }, ""), of.enum.map((value, at) => h("option", { value: String(at) }, String(value))));
      read = () => (input.value === "" ? undefined : of.enum[Number(input.value)]);
    } else if (kind === "boolean") {
      input = h("input", { type: "checkbox", name, checked: of.default === true });
      read = () => input.checked;
    } else if (kind === "number" || kind === "integer") {
      input = h("input", { type: "number", name, required, step: kind === "integer" ? 1 : "any", min: of.minimum, max: of.maximum });
      read = () => (input.value === "" ? undefined : Number(input.value));
    } else if (kind === "string") {
      input = h("input", { name, required, minlength: of.minLength, maxlength: of.maxLength });
      read = () => (input.value === "" && !required ? undefined : input.value);
    } else {
      input = h("textarea", { name, rows: 3, required, spellcheck: "false", placeholder: "JSON" });
      read = () => (input.value.trim() === "" ? undefined : JSON.parse(input.value));
    }
    if (kind !== "boolean" && of?.default !== undefined && !of.enum) input.value = kind === "string" ? of.default : JSON.stringify(of.default);
    return { name, input, read, label: h("p", {}, h("label", {}, `${of?.title ?? name}${required ? " (needed) " : " "}`, input), of?.description && h("span", { class: "quiet" }, ` ${of.description}`)) };
  });
  const read = () => Object.fromEntries(fields.map((field) => [field.name, field.read()]).filter(([, value]) => value !== undefined));
  return { labels: fields.map((field) => field.label), read };
}

export function flow(root, rest, _query, { signal }) {
  const [namespace, name, version] = rest;
  const at = { namespace, name, version };
  let shown = "";

  async function start(detail) {
    const form = formOf(detail.input_schema);
    const text = h("textarea", { name: "input", rows: 8, spellcheck: "false" });
    text.value = "{}";
    const fields = form ? form.labels : [h("p", {}, h("label", {}, "Input, as JSON", text))];
    const begun = await order(`Start «${detail.name}»`, "The plan is durable when the answer comes.", "Start", fields, () => {
      const input = form ? form.read() : JSON.parse(text.value || "null");
      return ask("startFlow", { at, body: { input }, signal });
    });
    if (begun) location.hash = `#/plan/${begun.id}`;
  }

  return {
    title: `Flow ${name}`,
    async refresh() {
      const detail = await ask("flow", { at, signal });
      const now = JSON.stringify(detail);
      if (now === shown) return;
      shown = now;
      const graph = h("div", {});
      flowPicture(graph, detail.source);
      put(root, h("p", { class: "crumbs" }, h("a", { href: "#/flows" }, "Flows")),
        h("div", { class: "head" }, h("h1", {}, detail.title ?? detail.name), h("span", { class: "buttons" },
          h("a", { class: "button", href: `#/add-flow?of=${[detail.namespace, detail.name, detail.version].map(encodeURIComponent).join("/")}` }, "Change it…"),
          h("a", { class: "button", href: `#/plans?labels=${encodeURIComponent(`flow.namespace=${detail.namespace},flow.name=${detail.name}`)}` }, "Its plans"),
          h("button", { class: "main", "data-key": "start", on: { click: () => start(detail) } }, "Start…"))),
        facts([["Name", detail.name], ["Namespace", detail.namespace], ["Version", detail.version], ["Hash", detail.hash], ["Secrets that it uses", detail.secrets.join(", ")]]),
        h("h2", {}, "Graph"), graph, h("details", { class: "below" }, h("summary", {}, `Its tasks as a list (${number(detail.tasks.length)})`), h("ul", { class: "tasks" }, detail.tasks.map((task) => {
            const parts = task.path.split("/").filter((part) => part && part !== "do" && !/^\d+$/.test(part));
            const row = h("li", { title: task.path }, h("b", {}, parts.at(-1) ?? task.path), h("span", { class: "quiet" }, ` ${task.kind}`));
            row.style.marginLeft = `${Math.min(Math.max(parts.length - 1, 0), 10)}rem`;
            return row;
          }))),
        detail.input_schema && [h("h2", {}, "Input schema"), json(detail.input_schema)],
        h("h2", {}, "Source"), json(detail.source));
    },
  };
}
