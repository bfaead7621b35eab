// News of the server: one stream for each thing that is followed, shared by all that follow it.

import { stream } from "./api.js";

/** After how long a stream that has ended is asked for again. */
const AGAIN_MS = 5000;
/** How many of the newest events are kept for the page that lists them. */
const KEPT = 1000;

/** What is asked for by names that are no plan: changes of runs alone, or events and steps too. */
const QUERIES = { all: { plans_only: true }, everything: {} };

const feeds = new Map();

/** Waits until the tab is seen, or nobody follows any more. */
function seen(signal) {
  return new Promise((resolve) => {
    const look = () => { if (!document.hidden || signal.aborted) resolve(); };
    document.addEventListener("visibilitychange", look, { signal });
    signal.addEventListener("abort", look);
    look();
  });
}

class Feed {
  followers = new Set();
  isLive = false;
  newest = [];
  #abort = new AbortController();
  #query;

  constructor(what) {
    this.#query = QUERIES[what] ?? { plan: what };
    this.#run();
  }

  end() {
    this.#abort.abort();
  }

  async #run() {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      // Browsers have few connections to one server, for all their tabs: only a tab that is seen keeps one.
      await seen(signal);
      const hidden = new AbortController();
      const leave = () => { if (document.hidden) hidden.abort(); };
      document.addEventListener("visibilitychange", leave);
      try {
        this.isLive = true;
        await stream("events", { query: this.#query, signal: AbortSignal.any([signal, hidden.signal]) }, (message) => this.#tell(message));
      } catch {
        // Without the stream pages ask every now and then, as they do anyway.
      }
      document.removeEventListener("visibilitychange", leave);
      this.isLive = false;
      if (!hidden.signal.aborted && !signal.aborted) await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
    }
  }

  #tell({ data }) {
    // A place without data says only how far the stream is.
    if (data === "") return;
    this.newest.push(JSON.parse(data));
    if (this.newest.length > 2 * KEPT) this.newest.splice(0, this.newest.length - KEPT);
    for (const follower of [...this.followers]) follower();
  }
}

/** Follows one plan, «all» or «everything»; answers the feed and how to leave it. */
export function followNews(what, onNews) {
  if (!feeds.has(what)) feeds.set(what, new Feed(what));
  const feed = feeds.get(what);
  feed.followers.add(onNews);
  return [feed, () => {
    feed.followers.delete(onNews);
    if (feed.followers.size > 0) return;
    feed.end();
    feeds.delete(what);
  }];
}

// A browser may keep a document that was left, with its connections.
addEventListener("pagehide", () => { for (const feed of feeds.values()) feed.end(); });
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
