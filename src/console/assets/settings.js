// What a reader has chosen for this browser: the zone of times, light or dark. Values that others follow.

import { useEffect, useState } from "./preact-htm.js";

/** A value that components follow. */
export class Cell {
  #value;
  #followers = new Set();

  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  set(value) {
    if (value === this.#value) return;
    this.#value = value;
    for (const follower of [...this.#followers]) follower(value);
  }

  follow(follower) {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }
}

/** The value of a cell; the component is drawn again when it changes. */
export function useCell(cell) {
  const [value, set] = useState(cell.value);
  useEffect(() => {
    set(cell.value);
    return cell.follow(set);
  }, [cell]);
  return value;
}

/** A cell that this browser remembers. A browser may keep nothing: then the value lasts as long as the page. */
function remembered(key, other, isValid) {
  let stored = null;
  try {
    stored = localStorage.getItem(key);
  } catch {
    stored = null;
  }
  const cell = new Cell(stored !== null && isValid(stored) ? stored : other);
  cell.follow((value) => {
    try {
      localStorage.setItem(key, value);
    } catch {
      // The value holds for this page alone.
    }
  });
  return cell;
}

export function isZone(name) {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

export const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** The zone in which times are shown and typed. */
export const zone = remembered("turnwheel-zone", "UTC", isZone);

/** `system`, `light` or `dark`; `theme.js` applies it before the first paint. */
export const theme = remembered("turnwheel-theme", "system", (name) => ["system", "light", "dark"].includes(name));
theme.follow((name) => { document.documentElement.dataset.theme = name; });

/** Columns of the list of runs that are shown, by their names. */
export const columns = remembered("turnwheel-columns", "", () => true);
