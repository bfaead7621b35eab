// Questions before something is done, and lines that say what came of it.

import { html, useEffect, useRef, useState } from "./preact-htm.js";
import { moment } from "./format.js";
import { Cell, useCell, zone } from "./settings.js";
import { reason } from "./ui.js";

const asked = new Cell(null);
const said = new Cell(null);

/** How long a line is shown. */
const SAID_MS = 6000;

/** A line that says what came of something, and goes away; a bad one stays until it is closed. */
export function say(text, isBad = false) {
  said.set({ text, isBad });
}

/** Closes what is asked: its page is left. */
export function dismiss() {
  asked.value?.resolve(undefined);
  asked.set(null);
}

/**
 * Asks for fields, and does something with their values. When that is refused the dialog stays, with what
 * was typed and the reason. Answers what was done, or nothing.
 *
 * A field is `{ name, label, kind, value, options, note, required, when }`; its kind is `text`, `number`,
 * `password`, `area`, `json`, `select`, `tick` or `time`. A field with `when(values)` is shown while that
 * holds. `more(values)` is shown below the fields.
 */
export function order({ title, text, verb, fields = [], more, perform }) {
  dismiss();
  return new Promise((resolve) => asked.set({ title, text, verb, fields, more, perform, resolve, back: document.activeElement }));
}

/** What is in a field: JSON and times are read. */
function read(field, value) {
  if (field.kind === "json") return String(value).trim() === "" ? undefined : JSON.parse(value);
  if (field.kind === "time") return value === "" ? undefined : moment(value);
  if (field.kind === "number") return value === "" ? undefined : Number(value);
  return typeof value === "string" && field.kind !== "area" ? value.trim() : value;
}

function input(field, value, change) {
  const { name, kind = "text", required } = field;
  const set = (event) => change(name, kind === "tick" ? event.currentTarget.checked : event.currentTarget.value);
  if (kind === "select") {
    return html`<select name=${name} required=${required} onChange=${set}>
      ${field.options.map(([of, text]) => html`<option key=${of} value=${of} selected=${of === value}>${text ?? of}</option>`)}
    </select>`;
  }
  if (kind === "area" || kind === "json") {
    return html`<textarea name=${name} rows=${field.rows ?? 8} spellcheck="false" required=${required} value=${value} onInput=${set}></textarea>`;
  }
  if (kind === "tick") return html`<input type="checkbox" name=${name} required=${required} checked=${value} onChange=${set} />`;
  const type = { number: "number", password: "password", time: "datetime-local" }[kind] ?? "text";
  const { min, max, step, minlength, maxlength, placeholder, autocomplete } = field;
  return html`<input ...${{ type, name, required, min, max, minlength, maxlength, placeholder, autocomplete }}
    step=${step ?? (kind === "time" ? 1 : null)} spellcheck="false" value=${value} onInput=${set} />`;
}

function Form({ of }) {
  const { title, text, verb, fields, more, perform, resolve, back } = of;
  const place = useRef(null);
  const [values, setValues] = useState(() => Object.fromEntries(fields.map((field) => [field.name, field.value ?? (field.kind === "tick" ? false : "")])));
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const offset = useCell(zone);
  useEffect(() => { place.current.showModal(); }, []);
  const done = (value) => {
    place.current?.close();
    asked.set(null);
    if (back?.isConnected) back.focus({ preventScroll: true });
    resolve(value);
  };
  const change = (name, value) => setValues((old) => ({ ...old, [name]: value }));
  const shown = fields.filter((field) => !field.when || field.when(values));
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      const given = Object.fromEntries(shown.map((field) => [field.name, read(field, values[field.name])]));
      done(await perform(given, values) ?? true);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<dialog ref=${place} aria-label=${title} onCancel=${(event) => { event.preventDefault(); done(undefined); }}>
    <form onSubmit=${submit}>
      <h2>${title}</h2>
      ${text && html`<p>${text}</p>`}
      ${shown.map((field) => html`<p key=${field.name}><label>${field.label}${field.kind === "time" && `, in ${offset}`}${" "}${input(field, values[field.name], change)}</label>
        ${field.note && html`<span class="quiet"> ${field.note}</span>`}</p>`)}
      ${more && more(values)}
      ${problem && html`<div class="why error" role="alert">${reason(problem)}
        ${(problem.problems ?? []).map((one, at) => html`<div key=${at}>Line ${one.line}: ${one.message}</div>`)}</div>`}
      <p class="buttons"><button type="submit" class="main" disabled=${isBusy}>${verb}</button>
        <button type="button" onClick=${() => done(undefined)}>Close</button></p>
    </form>
  </dialog>`;
}

/** Asks whether something is to be done, and does it. */
export function confirm(title, text, verb, perform) {
  return order({ title, text, verb, perform });
}

function Said() {
  const line = useCell(said);
  useEffect(() => {
    if (!line || line.isBad) return undefined;
    const timer = setTimeout(() => said.set(null), SAID_MS);
    return () => clearTimeout(timer);
  }, [line]);
  return html`<div role="status">${line && html`<div class=${line.isBad ? "toast bad" : "toast"}>${line.text}
    <button aria-label="Close" onClick=${() => said.set(null)}>×</button></div>`}</div>`;
}

/** The place of dialogs and lines; the shell has one. */
export function Dialogs() {
  const of = useCell(asked);
  return html`${of && html`<${Form} key=${of.title} of=${of} />`}<${Said} />`;
}
