// What a page is asked with: finds elements as people find them, and waits for them.
var help = (limit) => {
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;
  // Capitals may be a matter of style.
  const plain = (text) => text.replace(/\s+/g, " ").trim().toLowerCase();
  const textOf = (element) => plain(element.innerText ?? element.textContent ?? "");
  // What lies behind an open dialog cannot be used.
  const place = () => document.querySelector("dialog[open]") ?? document;
  const KINDS = { button: "button, summary, [role=button]", link: "a, [role=link]", row: "li, tr", text: "*" };

  function all(what, root = place()) {
    const at = what.indexOf(":");
    const [kind, text] = at > 0 ? [what.slice(0, at), plain(what.slice(at + 1))] : ["", ""];
    if (kind === "field") {
      const labels = [...root.querySelectorAll("label")].filter((label) => isSeen(label) && textOf(label).startsWith(text));
      const fields = labels.map((label) => label.control).filter(Boolean);
      const named = [...root.querySelectorAll("input, select, textarea")].filter((field) => plain(field.getAttribute("aria-label") ?? "").startsWith(text));
      return [...fields, ...named];
    }
    if (!(kind in KINDS)) return [...root.querySelectorAll(what)].filter(isSeen);
    const found = [...root.querySelectorAll(KINDS[kind])].filter(isSeen);
    const exact = found.filter((element) => textOf(element) === text || plain(element.getAttribute("aria-label") ?? "") === text);
    if (exact.length && kind !== "text") return exact;
    const some = found.filter((element) => textOf(element).includes(text));
    // The innermost: all that is around it has the text too.
    return kind === "text" || kind === "row" ? some.filter((element) => !some.some((other) => other !== element && element.contains(other))) : some;
  }

  function until(look, name) {
    return new Promise((resolve, reject) => {
      const begin = performance.now();
      const again = async () => {
        let found;
        try {
          found = await look();
        } catch (error) {
          return reject(error);
        }
        if (found) return resolve(found === true ? true : found.value);
        if (performance.now() - begin > limit) return reject(new Error(`${name}: it did not come`));
        setTimeout(again, 20);
      };
      again();
    });
  }

  /** Nothing is over it: a click would reach it. */
  function isFree(element) {
    element.scrollIntoView({ block: "center", inline: "center" });
    const { left, top, width, height } = element.getBoundingClientRect();
    const over = document.elementFromPoint(left + width / 2, top + height / 2);
    return over !== null && (element.contains(over) || over.contains(element));
  }

  return {
    see: (what) => until(() => { const found = all(what, document)[0]; return found && { value: (found.innerText ?? found.textContent).trim() }; }, what),
    seeNo: (what) => until(() => all(what, document).length === 0, `no ${what}`),
    wait: (look, name) => until(() => { const value = look(); return value && { value: value === true ? true : value }; }, name),
    count: (what) => all(what, document).length,
    /** The middle of something that can be clicked, once it has stayed in its place for two frames. */
    target: (what) => until(async () => {
      const found = all(what).find((element) => !element.disabled && isFree(element));
      if (!found) return false;
      const spot = () => { const { left, top, width, height } = found.getBoundingClientRect(); return [left + width / 2, top + height / 2]; };
      const before = spot();
      await new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); });
      const now = spot();
      if (!found.isConnected || now[0] !== before[0] || now[1] !== before[1]) return false;
      const aim = document.elementFromPoint(...now);
      window.clickMissed = true;
      document.addEventListener("click", ({ target }) => { window.clickMissed = target !== aim && !found.contains(target); }, { capture: true, once: true });
      return { value: now };
    }, what),
    missed: () => window.clickMissed === true,
    write: (what, text) => until(() => {
      const field = all(what).find((element) => !element.disabled);
      if (!field) return false;
      field.focus();
      if (field.type === "checkbox") field.checked = text === "true";
      else if (field.tagName === "SELECT") {
        const option = [...field.options].find((one) => one.textContent.trim() === text || one.value === text);
        if (!option) return false;
        field.value = option.value;
      } else field.value = text;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.dispatchEvent(new Event("change", { bubbles: true }));
      return true;
    }, what),
    hasFocus: (what) => {
      const on = document.activeElement;
      if (!on || !all(what).includes(on)) return false;
      const style = getComputedStyle(on);
      return on.matches(":focus-visible") && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    },
  };
};
