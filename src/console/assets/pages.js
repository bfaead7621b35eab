// Long lists are asked for page by page: which page is shown, and the buttons that turn it.

import { h } from "./dom.js";
import { number } from "./format.js";

export class Pages {
  #again; #back = []; #cursor = null; #before = 0;

  constructor(again) {
    this.#again = again;
  }

  /** What the server is asked for beside the rest of the query. */
  get cursor() {
    return this.#cursor;
  }

  /** How many come before this page. */
  get before() {
    return this.#before;
  }

  #turn(cursor, before, back) {
    this.#cursor = cursor;
    this.#before = before;
    this.#back = back;
    this.#again();
  }

  /** The buttons beside a text; `count` is how many the page has, `next` the cursor of the next one. */
  bar(text, count, next) {
    const here = { cursor: this.#cursor, before: this.#before };
    const earlier = () => {
      const { cursor, before } = this.#back.at(-1);
      this.#turn(cursor, before, this.#back.slice(0, -1));
    };
    return h("p", { class: "buttons" }, h("span", { class: "quiet" }, text),
      this.#back.length > 0 && h("button", { "data-key": "earlier", "data-instead": "later", on: { click: earlier } }, "Earlier"),
      next && h("button", { "data-key": "later", "data-instead": "earlier", on: { click: () => this.#turn(next, this.#before + count, [...this.#back, here]) } }, "Later"));
  }

  /** «201 to 400 of 1,000 steps». */
  range(count, total, what) {
    return count === 0 ? `None of ${number(total)} ${what}` : `${number(this.#before + 1)} to ${number(this.#before + count)} of ${number(total)} ${what}`;
  }
}
