/** The operations of workers over HTTP. */

// Statuses after which the same request may work: too many requests, or a server in trouble.
const RETRYABLE = new Set([408, 429, 500, 502, 503, 504, 507]);
// Time limit of a request, without the time of a wait for tasks.
const WITHIN_MS = 60_000;

export class TurnwheelError extends Error {
  /** Whether the same request can work later. */
  get isRetryable() {
    return false;
  }
}

/** There was no answer: the server is away, or the network. */
export class Unreachable extends TurnwheelError {
  get isRetryable() {
    return true;
  }
}

/** The server answered with a problem. */
export class Refused extends TurnwheelError {
  constructor(status, code, detail) {
    super(`${status} ${code}: ${detail}`);
    this.status = status;
    this.code = code;
    this.detail = detail;
  }

  get isRetryable() {
    return RETRYABLE.has(this.status);
  }

  /** Whether the task is no longer this worker's. */
  get isLeaseLost() {
    return this.code === "lease-lost";
  }
}

/** Milliseconds before the next try: twice as many after each failure, and half of them by chance. */
export function pause(failures, firstMs, maxMs) {
  const whole = Math.min(maxMs, firstMs * 2 ** Math.min(failures, 30));
  return whole * (0.5 + Math.random() / 2);
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** A server, and the token of this worker. */
export class Client {
  #base;
  #options;

  constructor(url, options = {}) {
    this.#base = `${url.replace(/\/+$/, "")}/api/v1`;
    this.#options = { tries: 6, pauseFirstMs: 100, pauseMaxMs: 5_000, ...options };
  }

  /** Leases tasks; waits for one if that is said. It is tried once. */
  async lease(topics, { limit = 1, leaseMs = 30_000, waitMs = 0, worker } = {}) {
    const body = { topics, limit, lease_ms: leaseMs, wait_ms: waitMs, worker };
    const leased = await this.#once("POST", "/work/lease", body, WITHIN_MS + waitMs);
    return leased.tasks;
  }

  /** Says that the worker lives, and how far it is. It is tried once. */
  heartbeat(task, details = null) {
    return this.#once("POST", of(task, "heartbeat"), { details });
  }

  /** Says that the task is done; that is durable when this answers. */
  complete(task, output = null) {
    return this.request("POST", of(task, "complete"), { output });
  }

  /** Says that the task has failed; that is durable when this answers. */
  fail(task, message, { kind = "failed", isFinal = false } = {}) {
    return this.request("POST", of(task, "fail"), { kind, message, is_final: isFinal });
  }

  /** Gives the task back: another worker gets it at once. */
  release(task) {
    return this.#once("POST", of(task, "release"), {});
  }

  /** Counts the tasks of a topic. */
  topic(name) {
    return this.request("GET", `/work/topics/${encodeURIComponent(name)}`);
  }

  /** Sends a request, again after growing pauses as long as that can help. */
  async request(method, path, body) {
    const { tries, pauseFirstMs, pauseMaxMs } = this.#options;
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.#once(method, path, body);
      } catch (error) {
        if (!error.isRetryable || failures + 1 >= tries) throw error;
        await sleep(pause(failures, pauseFirstMs, pauseMaxMs));
      }
    }
  }

  async #once(method, path, body, withinMs = WITHIN_MS) {
    const headers = { accept: "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (this.#options.token) headers.authorization = `Bearer ${this.#options.token}`;
    const url = this.#base + path;
    // A value that is no JSON is the caller's error: it is thrown as it is.
    const text = body === undefined ? undefined : JSON.stringify(body);
    let status;
    let answer;
    try {
      const signal = AbortSignal.timeout(withinMs);
      const response = await fetch(url, { method, headers, body: text, signal });
      status = response.status;
      answer = await response.text();
    } catch (error) {
      throw new Unreachable(`${url}: ${error.cause?.message ?? error.message}`, { cause: error });
    }
    if (status >= 200 && status < 300) {
      try {
        return JSON.parse(answer);
      } catch (error) {
        throw new Unreachable(`${url}: ${error.message}`, { cause: error });
      }
    }
    throw refused(status, answer);
  }
}

function of(task, verb) {
  return `/work/${encodeURIComponent(task)}/${verb}`;
}

function refused(status, text) {
  try {
    const { code, detail } = JSON.parse(text);
    if (code) return new Refused(status, String(code), String(detail ?? ""));
  } catch {
    // It is from something else than the server, such as a proxy.
  }
  return new Refused(status, "foreign", text.slice(0, 300));
}
