/** Workers for Turnwheel: lease tasks of durable plans, do them, answer. Types: index.d.ts. */

export { Client, Refused, TurnwheelError, Unreachable } from "./client.js";
export { Final, Task, Worker } from "./worker.js";
