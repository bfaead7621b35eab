// Elements from data. Text is always set as text: nothing that the server says is read as markup.

/** An element: `h("a", { href: "#/", class: "x", on: { click } }, "text", other)`. */
export function h(tag, props = {}, ...kids) {
  return fill(document.createElement(tag), props, kids);
}

/** The same for pictures. */
export function s(tag, props = {}, ...kids) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, kids);
}

function fill(element, props, kids) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  add(element, kids);
  return element;
}

function add(element, kids) {
  for (const kid of kids.flat(Infinity)) {
    if (kid === null || kid === undefined || kid === false) continue;
    element.append(kid instanceof Node ? kid : document.createTextNode(String(kid)));
  }
}

/** Puts other content into an element; the focus stays where it was if that is still there. */
export function put(element, ...kids) {
  const focused = document.activeElement;
  const key = element.contains(focused) ? focused.getAttribute("data-key") : null;
  const fresh = document.createDocumentFragment();
  add(fresh, kids);
  element.replaceChildren(fresh);
  if (!key) return;
  // A button that is gone may have another one that stands for it.
  const same = element.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? element.querySelector(`[data-instead="${CSS.escape(key)}"]`);
  same?.focus({ preventScroll: true });
}

/** A word for a state or a result, with its colour. */
export function badge(name, title = null) {
  return h("span", { class: `badge s-${String(name).replace(/[^a-z_-]/g, "")}`, title },
    String(name).replaceAll("_", " "));
}

/** A table; `columns` are [heading, class] pairs. */
export function table(columns, rows, caption) {
  return h("div", { class: "wide" }, h("table", {},
    h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, columns.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
    h("tbody", {}, rows)));
}

/** JSON for people to read; long ones are cut, and say so. */
export function json(value, max = 100000) {
  if (value === null || value === undefined) return h("p", { class: "quiet" }, "nothing");
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const cut = text.length > max;
  return h("pre", { tabindex: 0 }, cut ? text.slice(0, max) : text,
    cut && `\n… ${text.length - max} more characters: ask the API for all of it`);
}

/** Names and values; empty values are left out. */
export function facts(pairs) {
  const some = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return h("dl", { class: "facts" }, some.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** What to show when there is nothing, or when it failed: what it is, and what to do. */
export function notice(title, text, ...more) {
  return h("div", { class: "notice" }, h("h2", {}, title), h("p", {}, text), more);
}

/** Shows a failure. */
export function failure(error, again) {
  const what = error.detail ?? error.message ?? String(error);
  return notice(error.title ?? "This did not work", what,
    error.code && h("p", { class: "quiet" }, `Code: ${error.code}`),
    again && h("button", { on: { click: again } }, "Try again"));
}

/** What went wrong, in words. */
export function reason(error) {
  return error instanceof SyntaxError ? `That is no JSON: ${error.message}` : error.detail ?? error.message ?? String(error);
}

/**
 * Asks before something is done, and does it; `fields` may hold inputs. When it is refused the dialog
 * stays, with what was typed and the reason. Answers what was done, or nothing.
 */
export function order(title, text, verb, fields, perform) {
  return new Promise((resolve) => {
    const back = document.activeElement?.getAttribute("data-key");
    const done = (value) => {
      dialog.close();
      dialog.remove();
      if (back) document.querySelector(`[data-key="${CSS.escape(back)}"]`)?.focus({ preventScroll: true });
      resolve(value);
    };
    const problem = h("p", { class: "why error", role: "alert", hidden: true });
    const go = h("button", { type: "submit", class: "main" }, verb);
    const submit = async (event) => {
      event.preventDefault();
      if (go.disabled) return;
      go.disabled = true;
      problem.hidden = true;
      try {
        done(await perform());
      } catch (error) {
        put(problem, reason(error), (error.problems ?? []).map((one) => h("div", {}, `Line ${one.line}: ${one.message}`)));
        problem.hidden = false;
        go.disabled = false;
      }
    };
    const form = h("form", { on: { submit } },
      h("h2", {}, title), h("p", {}, text), fields, problem,
      h("p", { class: "buttons" }, go, h("button", { type: "button", on: { click: () => done(undefined) } }, "Do nothing")));
    const dialog = h("dialog", { "aria-label": title, on: { cancel: (event) => { event.preventDefault(); done(undefined); } } }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Asks before something is done; `fields` may hold inputs. Answers whether it is to be done. */
export async function confirm(title, text, action, fields = []) {
  return await order(title, text, action, fields, () => true) === true;
}

/** A line that says what came of something, and goes away. */
export function say(text, isBad = false) {
  const note = h("div", { class: isBad ? "toast bad" : "toast", role: "status" }, text,
    h("button", { "aria-label": "Close", on: { click: () => note.remove() } }, "×"));
  document.querySelectorAll(".toast").forEach((old) => old.remove());
  document.body.append(note);
  if (!isBad) setTimeout(() => note.remove(), 6000);
}
