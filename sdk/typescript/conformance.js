/** The worker of this SDK for the conformance test: see sdk/README.md. */

import { Client, Final, Refused, Unreachable, Worker } from "./src/index.js";

const [url, lease, grace] = process.argv.slice(2);
const client = new Client(url, { token: process.env.TURNWHEEL_TOKEN, pauseFirstMs: 10 });
const worker = new Worker(client, {
  concurrency: 2,
  leaseMs: Number(lease) * 1000,
  graceMs: Number(grace) * 1000,
  name: "conformance-1",
});

const say = (event, task) => console.log(JSON.stringify({ event, plan: task.plan }));

worker.task("echo", (task) => ({
  topic: task.topic,
  plan: task.plan,
  step: task.step,
  attempt: task.attempt,
  delivery: task.delivery,
  idempotency_key: task.idempotencyKey,
  deadline: task.deadline ?? null,
  input: task.input,
}));

worker.task("flaky", (task) => {
  if (task.attempt < 3) throw new Error("not yet");
  return { attempt: task.attempt };
});

worker.task("final", () => {
  throw new Final("never", "refused");
});

worker.task("unfit", () => {
  const ring = [];
  ring.push(ring);
  return ring;
});

const waiting = [];
worker.task("pair", async () => {
  await new Promise((done) => {
    waiting.push(done);
    if (waiting.length === 2) waiting.forEach((go) => go());
  });
  return "together";
});

worker.task("hold", async (task) => {
  task.progress({ held: task.delivery });
  say("begun", task);
  await new Promise((done) => task.signal.addEventListener("abort", done));
  say("cancelled", task);
});

worker.task("stubborn", async (task) => {
  say("begun", task);
  await new Promise((done) => setTimeout(done, 120_000));
});

worker.task("errors", async (task) => {
  const told = {};
  await client.complete("nonsense").catch((error) => {
    if (error instanceof Refused) told.refused = [error.code, error.isRetryable];
  });
  const away = new Client("http://127.0.0.1:9", { tries: 2, pauseFirstMs: 10 });
  await away.complete(task.id).catch((error) => {
    if (error instanceof Unreachable) told.unreachable = [error.isRetryable];
  });
  return told;
});

await worker.run();
