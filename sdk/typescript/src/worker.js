/** A worker: it leases tasks, keeps them alive while their handlers run, and answers. */

import { hostname } from "node:os";

import { pause, Refused, sleep, TurnwheelError } from "./client.js";

// Time for which a lease waits for a task. A stop takes as long, so that no lease is left behind.
const WAIT_MS = 5_000;
// Time for which a process whose handlers do not end stays after a signal, for code after `run`.
const EXIT_MS = 1_000;
// Pauses after a lease that has failed: the first, and the longest.
const PAUSE_FIRST_MS = 200;
const PAUSE_MAX_MS = 15_000;

/** A failure after which trying again cannot help. */
export class Final extends Error {
  constructor(message, kind = "failed") {
    super(message);
    this.kind = kind;
  }
}

/** A task that this worker has. */
export class Task {
  #cancel = new AbortController();
  #details;

  constructor(data) {
    this.id = data.id;
    this.topic = data.topic;
    this.plan = data.plan;
    this.step = data.step;
    this.attempt = data.attempt;
    this.delivery = data.delivery;
    this.idempotencyKey = data.idempotency_key;
    this.deadline = data.deadline ?? undefined;
    this.traceparent = data.traceparent ?? undefined;
    this.lastHeartbeat = data.last_heartbeat;
    this.input = data.input;
    this.#details = data.last_heartbeat ?? null;
  }

  /** Aborted when the task is no longer this worker's. */
  get signal() {
    return this.#cancel.signal;
  }

  /** Goes with the next heartbeat; the next worker gets it if this one is lost. */
  progress(details) {
    JSON.stringify(details);
    this.#details = details;
  }

  /** @internal */
  get details() {
    return this.#details;
  }

  /** @internal */
  cancel() {
    this.#cancel.abort(new Error("the task is no longer this worker's"));
  }
}

/** Does tasks of some topics, as many at once as `concurrency`. */
export class Worker {
  #client;
  #options;
  #handlers = new Map();
  #running = new Map();
  #isStopping = false;
  #changed = () => {};

  constructor(client, options = {}) {
    this.#client = client;
    const name = `${hostname()}-${process.pid}`;
    const log = (text) => console.error(`turnwheel worker: ${text}`);
    const given = { concurrency: 1, leaseMs: 30_000, graceMs: 10_000, name, log };
    this.#options = { ...given, ...options };
  }

  /** Registers the handler of a topic: its result is the output of the task. */
  task(topic, handler) {
    this.#handlers.set(topic, handler);
    return this;
  }

  /** Takes no new task. `run` returns when those under way have ended or were given back. */
  stop() {
    this.#isStopping = true;
    this.#changed();
  }

  /** Works until a stop, SIGTERM or SIGINT. */
  async run({ handleSignals = true } = {}) {
    if (this.#handlers.size === 0) throw new Error("a worker without a handler has nothing to do");
    let isSignalled = false;
    const stop = () => {
      isSignalled = true;
      this.stop();
    };
    if (handleSignals) process.on("SIGTERM", stop).on("SIGINT", stop);
    try {
      await this.#pull();
      await this.#drain();
      // Others have their tasks now: the process does not stay for handlers that go on.
      if (isSignalled && this.#running.size > 0) setTimeout(() => process.exit(), EXIT_MS).unref();
    } finally {
      if (handleSignals) process.off("SIGTERM", stop).off("SIGINT", stop);
    }
  }

  async #pull() {
    const { concurrency, leaseMs, name } = this.#options;
    let failures = 0;
    while (!this.#isStopping) {
      const free = concurrency - this.#running.size;
      if (free <= 0) {
        await this.#change(leaseMs);
        continue;
      }
      let leased;
      try {
        const options = { limit: Math.min(free, 100), leaseMs, waitMs: WAIT_MS, worker: name };
        leased = await this.#client.lease([...this.#handlers.keys()], options);
        failures = 0;
      } catch (error) {
        if (!(error instanceof TurnwheelError)) throw error;
        if (!error.isRetryable) this.#options.log(`no tasks can be leased: ${error.message}`);
        await this.#change(pause(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS));
        failures += 1;
        continue;
      }
      for (const data of leased) {
        if (this.#isStopping) await this.#giveBack(data.id);
        else this.#begin(new Task(data));
      }
    }
  }

  /** Waits until a task has ended or a stop, or for so long. */
  async #change(ms) {
    let timer;
    const changed = new Promise((done) => {
      this.#changed = done;
      timer = setTimeout(done, ms);
    });
    await changed;
    clearTimeout(timer);
  }

  #begin(task) {
    this.#running.set(task.id, task);
    const beats = setInterval(() => this.#beat(task), this.#options.leaseMs / 3);
    this.#answer(task)
      .catch((error) => this.#options.log(`the answer of task ${task.id} does not count: ${error.message}`))
      .finally(() => {
        clearInterval(beats);
        this.#running.delete(task.id);
        this.#changed();
      });
  }

  async #beat(task) {
    try {
      await this.#client.heartbeat(task.id, task.details);
    } catch (error) {
      if (error instanceof Refused && !error.isRetryable) task.cancel();
      else this.#options.log(`a heartbeat of task ${task.id} has failed: ${error.message}`);
    }
  }

  async #answer(task) {
    let output;
    try {
      output = await this.#handlers.get(task.topic)(task);
    } catch (error) {
      if (task.signal.aborted) return;
      const isFinal = error instanceof Final;
      const kind = String(error?.kind ?? error?.name ?? "failed");
      const message = String(error?.message || error);
      await this.#client.fail(task.id, message, { kind, isFinal });
      return;
    }
    if (task.signal.aborted) return;
    try {
      await this.#client.complete(task.id, output ?? null);
    } catch (error) {
      const isOurs = !(error instanceof TurnwheelError);
      const isUnfit = error instanceof Refused && !error.isRetryable && !error.isLeaseLost;
      if (!isOurs && !isUnfit) throw error;
      // Another worker could do no better: it is no JSON, or too large.
      await this.#client.fail(task.id, error.message, { kind: "output", isFinal: true });
    }
  }

  async #drain() {
    const until = Date.now() + this.#options.graceMs;
    while (this.#running.size > 0 && Date.now() < until) {
      await this.#change(until - Date.now());
    }
    const left = [...this.#running.values()];
    for (const task of left) {
      task.cancel();
      await this.#giveBack(task.id);
    }
    // Handlers that end on the signal do so before the process does.
    await sleep(0);
  }

  async #giveBack(id) {
    try {
      await this.#client.release(id);
    } catch (error) {
      this.#options.log(`task ${id} is not given back, its lease has to end: ${error.message}`);
    }
  }
}
