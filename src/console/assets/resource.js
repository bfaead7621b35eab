// What a view asks of the server: loaded when it is needed, again when there is news, dropped when it is left.

import { useLayoutEffect, useRef, useState } from "./preact-htm.js";
import { ask, figures, Problem } from "./api.js";
import { serverNow } from "./format.js";
import { followNews } from "./live.js";
import { Cell } from "./settings.js";

/** How often a resource is loaded again. */
const REFRESH_MS = 2000;
/** The same while the server tells what has changed: figures change without news. */
const LIVE_REFRESH_MS = 10000;
/** How often at most it is loaded when the server tells something. */
const NEWS_MS = 500;
/** The same while it tells more than so much in between: nobody reads that fast, and the page stays quick to use. */
const MANY_NEWS = 40;
const MANY_NEWS_MS = 1500;

/** Loads that are under way for the first time: the page is complete when there are none. */
const opening = new Set();

/** Set when what is shown is old: why. */
export const trouble = new Cell(null);
/** Set when a token is needed: the problem that said so. */
export const locked = new Cell(null);

/** Counts a first load as a part of the page. Answers how to say that it is done. */
export function opens() {
  const mark = {};
  opening.add(mark);
  return () => {
    opening.delete(mark);
    settle();
  };
}

/** Tells that the page is complete, once nothing is under way. */
export function settle() {
  setTimeout(() => {
    const main = document.getElementById("main");
    const isBusy = opening.size > 0;
    main.setAttribute("aria-busy", String(isBusy));
    if (!isBusy) main.dataset.shown = location.hash;
  });
}

/**
 * What `load(signal)` answers, under a key: another key drops the load that is under way and begins anew.
 * `live` is a plan or «all»: news of it load again. Answers `{ data, error, isOld, reload }`; while it
 * loads again `data` stays, and an error beside it says that it is old.
 */
export function useResource(key, load, { live = null, every = null, isIdle = false } = {}) {
  const [state, set] = useState({ key: null, data: null, error: null });
  const now = useRef({});
  now.current.load = load;
  now.current.isIdle = isIdle;
  // Before the next paint: a page counts as complete only when its loads have begun and ended.
  useLayoutEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    const { signal } = abort;
    let timer = 0;
    let last = 0;
    let isBusy = false;
    let isAgain = false;
    let opened = opens();
    let feed = null;
    let leave = () => {};
    const run = async () => {
      clearTimeout(timer);
      if (isBusy) {
        isAgain = true;
        return;
      }
      isBusy = true;
      last = Date.now();
      try {
        const data = await now.current.load(signal);
        if (signal.aborted) return;
        if (trouble.value?.of === key) trouble.set(null);
        set({ key, data, error: null });
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 401) locked.set(error);
        else if (!(error instanceof Problem)) console.error(error);
        if (error.status === 0 || error.status >= 500) trouble.set({ of: key, error });
        set((old) => ({ key, data: old.key === key ? old.data : null, error }));
      } finally {
        isBusy = false;
        opened?.();
        opened = null;
        if (!signal.aborted) {
          const wait = every ?? (feed?.isLive ? LIVE_REFRESH_MS : REFRESH_MS);
          timer = setTimeout(run, isAgain ? 0 : document.hidden || now.current.isIdle ? wait * 10 : wait);
          isAgain = false;
        }
      }
    };
    now.current.run = run;
    let waiting = 0;
    let told = 0;
    let pace = NEWS_MS;
    const news = () => {
      told += 1;
      if (waiting || document.hidden) return;
      waiting = setTimeout(() => {
        pace = told > MANY_NEWS ? MANY_NEWS_MS : NEWS_MS;
        waiting = told = 0;
        run();
      }, Math.max(pace - (Date.now() - last), 0));
    };
    if (live) [feed, leave] = followNews(live, news);
    const look = () => { if (!document.hidden) run(); };
    document.addEventListener("visibilitychange", look);
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
      clearTimeout(waiting);
      document.removeEventListener("visibilitychange", look);
      leave();
      opened?.();
      if (trouble.value?.of === key) trouble.set(null);
    };
  }, [key, live, every]);
  const isOwn = state.key === key;
  return { data: isOwn ? state.data : null, error: isOwn ? state.error : null, reload: () => now.current.run?.() };
}

/** What one operation answers. */
export function useAsk(name, options = {}, settings = {}) {
  const { at, query, isOff } = options;
  const key = isOff ? null : JSON.stringify([name, at, query]);
  return useResource(key, (signal) => ask(name, { at, query, signal }), settings);
}

/** The figures of the world, and its time. */
export function useFigures(settings = { live: "all" }) {
  return useResource("figures", async (signal) => {
    const all = await figures(signal);
    serverNow(all.now);
    return all;
  }, settings);
}
