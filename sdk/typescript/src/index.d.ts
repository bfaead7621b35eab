/** Any value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The server did not do what it was asked for. */
export class TurnwheelError extends Error {
  /** Whether the same request can work later. */
  readonly isRetryable: boolean;
}

/** There was no answer: the server is away, or the network. */
export class Unreachable extends TurnwheelError {}

/** The server answered with a problem. */
export class Refused extends TurnwheelError {
  constructor(status: number, code: string, detail: string);
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  /** Whether the task is no longer this worker's. */
  readonly isLeaseLost: boolean;
}

/** A failure after which trying again cannot help. */
export class Final extends Error {
  constructor(message: string, kind?: string);
  readonly kind: string;
}

/** A task as the server says it. */
export interface Leased {
  id: string;
  topic: string;
  plan: string;
  step: number;
  attempt: number;
  delivery: number;
  idempotency_key: string;
  until: string;
  deadline?: string;
  traceparent?: string;
  last_heartbeat: Json;
  input: Json;
}

/** The tasks of a topic. */
export interface Topic {
  topic: string;
  ready: number;
  leased: number;
  oldest: string | null;
  is_more: boolean;
}

export interface ClientOptions {
  token?: string;
  /** Tries of a request that can be tried again; 6 by default. */
  tries?: number;
  /** The first pause between two tries; 100 by default. */
  pauseFirstMs?: number;
  /** The longest pause; 5,000 by default. */
  pauseMaxMs?: number;
}

export interface LeaseOptions {
  limit?: number;
  leaseMs?: number;
  waitMs?: number;
  worker?: string;
}

/** A server, and the token of this worker. */
export class Client {
  constructor(url: string, options?: ClientOptions);
  /** Leases tasks; waits for one if that is said. It is tried once. */
  lease(topics: string[], options?: LeaseOptions): Promise<Leased[]>;
  /** Says that the worker lives, and how far it is. It is tried once. */
  heartbeat(task: string, details?: Json): Promise<{ until: string }>;
  /** Says that the task is done; that is durable when this answers. */
  complete(task: string, output?: Json): Promise<{ plan: string; step: number }>;
  /** Says that the task has failed; that is durable when this answers. */
  fail(
    task: string,
    message: string,
    options?: { kind?: string; isFinal?: boolean },
  ): Promise<{ plan: string; step: number }>;
  /** Gives the task back: another worker gets it at once. */
  release(task: string): Promise<{ plan: string; step: number }>;
  /** Counts the tasks of a topic. */
  topic(name: string): Promise<Topic>;
  /** Sends a request, again after growing pauses as long as that can help. */
  request(method: string, path: string, body?: Json): Promise<any>;
}

/** A task that this worker has. */
export class Task<Input = any> {
  readonly id: string;
  readonly topic: string;
  readonly plan: string;
  readonly step: number;
  /** The attempt of the step, from 1. */
  readonly attempt: number;
  /** More than 1 if a worker was lost. */
  readonly delivery: number;
  /** The same for each delivery: for what must be done only once. */
  readonly idempotencyKey: string;
  /** When the attempt ends in any case, in the format of RFC 3339. */
  readonly deadline?: string;
  /** The header of W3C for the worker's own spans. */
  readonly traceparent?: string;
  /** What the worker before has said last. */
  readonly lastHeartbeat: Json;
  readonly input: Input;
  /** Aborted when the task is no longer this worker's. */
  readonly signal: AbortSignal;
  /** Goes with the next heartbeat; the next worker gets it if this one is lost. */
  progress(details: Json): void;
}

export interface WorkerOptions {
  /** Tasks at once; 1 by default. */
  concurrency?: number;
  /** Silence after which another worker gets a task; 30,000 by default. */
  leaseMs?: number;
  /** Time for tasks under way at a stop; 10,000 by default. */
  graceMs?: number;
  /** Name in the history of plans; host and process by default. */
  name?: string;
  /** Takes lines for people; `console.error` by default. */
  log?: (text: string) => void;
}

/** Does tasks of some topics, as many at once as `concurrency`. */
export class Worker {
  constructor(client: Client, options?: WorkerOptions);
  /** Registers the handler of a topic: its result is the output of the task. */
  task<Input = any>(topic: string, handler: (task: Task<Input>) => unknown): this;
  /** Takes no new task. `run` returns when those under way have ended or were given back. */
  stop(): void;
  /** Works until a stop, SIGTERM or SIGINT. */
  run(options?: { handleSignals?: boolean }): Promise<void>;
}
