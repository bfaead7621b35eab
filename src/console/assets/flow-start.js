// The form that starts a flow: a field for each property of its input.

import { ask } from "./api.js";
import { order } from "./dialogs.js";

/** Fields for the properties of a schema; nothing if it describes no plain object. */
export function fieldsOf(schema) {
  const properties = schema?.type === "object" || schema?.properties ? schema.properties ?? {} : {};
  const needed = new Set(schema?.required ?? []);
  return Object.entries(properties).map(([name, of]) => {
    const required = needed.has(name);
    const type = Array.isArray(of?.type) ? of.type[0] : of?.type;
    const given = of?.default;
    const base = { name, label: `${of?.title ?? name}${required ? " (needed)" : ""}`, note: of?.description, required };
    if (Array.isArray(of?.enum)) {
      return { ...base, kind: "select", value: String(of.enum.indexOf(given)), options: [...(required ? [] : [["-1", ""]]), ...of.enum.map((value, at) => [String(at), String(value)])],
        read: (value) => of.enum[Number(value)] };
    }
    if (type === "boolean") return { ...base, kind: "tick", value: given === true, required: false };
    if (type === "number" || type === "integer") return { ...base, kind: "number", value: given ?? "", step: type === "integer" ? 1 : "any", min: of.minimum, max: of.maximum };
    if (type === "string") return { ...base, value: given ?? "", minlength: of.minLength, maxlength: of.maxLength };
    return { ...base, kind: "json", rows: 3, value: given === undefined ? "" : JSON.stringify(given) };
  });
}

/** The values of such fields as the input of a run. */
export function inputFrom(fields, given) {
  const read = (field) => (field.read ? field.read(given[field.name]) : given[field.name]);
  return Object.fromEntries(fields.map((field) => [field.name, read(field)]).filter(([name, value]) => value !== undefined && (value !== "" || fields.find((field) => field.name === name).required)));
}

export async function start(flow) {
  const known = fieldsOf(flow.input_schema);
  const fields = known.length ? known : [{ name: "input", label: "Input, as JSON", kind: "json", value: "{}" }];
  const begun = await order({ title: `Start «${flow.name}»`, text: "The run is durable when the answer comes.", verb: "Start", fields, perform: (given) =>
    ask("startFlow", { at: flow, body: { input: known.length ? inputFrom(known, given) : given.input ?? null } }) });
  if (begun) location.hash = `#/run/${begun.id}`;
}
