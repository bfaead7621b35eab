// Requests to the API of the same server. Every operation that the console uses is named here: a test looks
// whether the API has it.

import { released } from "./pointer.js";
import { EventReader } from "./sse.js";

/** Operations by a name of our own; paths as the description of the API says them. */
export const operations = {
  health: "GET health",
  stats: "GET stats",
  ended: "GET stats/ended",
  world: "GET world",
  nodes: "GET nodes",
  slots: "GET slots",
  drain: "POST nodes/{name}/drain",
  actions: "GET actions",
  locks: "GET locks",
  runtime: "GET runtime",
  entityTypes: "GET entities",
  entity: "GET entities/{name}/{key}",
  events: "GET events",
  recentEvents: "GET events/recent",
  publish: "POST events",
  deadLetters: "GET dead-letters",
  redeliver: "POST dead-letters/{name}/redeliver",
  plans: "GET plans",
  start: "POST plans",
  plan: "GET plans/{plan}",
  order: "POST plans/{plan}/orders",
  retry: "POST plans/{plan}/retry",
  again: "POST plans/{plan}/again",
  graph: "GET plans/{plan}/graph",
  tree: "GET plans/{plan}/tree",
  timeline: "GET plans/{plan}/timeline",
  calls: "GET plans/{plan}/calls",
  step: "GET plans/{plan}/steps/{step}",
  event: "POST plans/{plan}/steps/{step}/events",
  orders: "POST orders",
  flows: "GET flows",
  flow: "GET flows/{namespace}/{name}/{version}",
  addFlow: "POST flows",
  checkFlow: "POST flows/check",
  startFlow: "POST flows/{namespace}/{name}/{version}/start",
  schedules: "GET schedules",
  schedule: "GET schedules/{name}",
  scheduleTimes: "GET schedules/{name}/times",
  pause: "POST schedules/{name}/pause",
  unpause: "POST schedules/{name}/unpause",
  trigger: "POST schedules/{name}/trigger",
  backfill: "POST schedules/{name}/backfill",
  putSchedule: "PUT schedules/{name}",
  removeSchedule: "DELETE schedules/{name}",
  jobs: "GET jobs",
  job: "GET jobs/{name}",
  putJob: "PUT jobs/{name}",
  removeJob: "DELETE jobs/{name}",
  runJob: "POST jobs/{name}/run",
  toggleJob: "POST jobs/{name}/toggle",
  cancelLaunch: "POST jobs/{name}/cancel",
  answerLaunch: "POST jobs/{name}/answer",
  jobHistory: "GET jobs/{name}/history",
  jobTimes: "GET jobs/{name}/times",
  jobOutput: "GET jobs/{name}/launches/{launch}/output",
  jobLive: "GET jobs/{name}/launches/{launch}/output/live",
  executors: "GET job-executors",
  journeys: "GET journeys",
  journey: "GET journeys/{name}",
  putJourney: "POST journeys",
  elements: "GET journeys/{name}/elements",
  journeyCounts: "GET journeys/{name}/counts",
  dryRun: "POST journeys/dry-run",
  user: "GET users/{platform}/{user}",
  resend: "POST users/{platform}/{user}/resend",
  session: "GET session",
  signIn: "POST session",
  signOut: "DELETE session",
};

/** This file is `console/api.js`: the API is next to `console`, wherever both are mounted. */
const ROOT = new URL("../", document.baseURI);
const BASE = new URL("api/v1/", ROOT);

/** Set while there is a session. Its cookie is out of reach for scripts. */
const SIGNED_IN = "turnwheel-signed-in";

/** How long an answer may take before it is given up. */
const ANSWER_MS = 15000;

export class Problem extends Error {
  constructor(status, shape) {
    super(shape.detail ?? `the server answered ${status}`);
    this.status = status;
    this.title = shape.title;
    this.detail = shape.detail;
    this.code = shape.code;
    /** Each with its line and column, where a text was refused. */
    this.problems = shape.problems ?? [];
  }
}

/** Gives the token once: from then on the browser has a cookie. */
export async function signIn(token) {
  await ask("signIn", { body: { token } });
  localStorage.setItem(SIGNED_IN, "yes");
}

export async function signOut() {
  localStorage.removeItem(SIGNED_IN);
  await ask("signOut");
}

/** There is no session any more, whatever was known here. */
export function isSignedOut() {
  localStorage.removeItem(SIGNED_IN);
}

export function isSignedIn() {
  return localStorage.getItem(SIGNED_IN) !== null;
}

function headers(more = {}) {
  // The console asks for a token itself: the browser is not to ask for a password.
  return { ...more, "X-Requested-With": "turnwheel-console" };
}

function address(name, at, query) {
  const [method, pattern] = operations[name].split(" ");
  const path = pattern.replace(/\{(\w+)\}/g, (_, key) => encodeURIComponent(at[key]));
  const url = new URL(path, name === "health" ? ROOT : BASE);
  for (const [key, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(key, value);
  }
  return [method, url];
}

/** Asks for an operation: what stands in its path, its query, its body. Throws a Problem. */
export async function ask(name, { at = {}, query, body, text: plain, signal } = {}) {
  const [method, url] = address(name, at, query);
  const limit = AbortSignal.timeout(ANSWER_MS);
  // An order that was given is not taken back by leaving the page.
  const isQuestion = method === "GET" && signal;
  const request = { method, headers: headers(), signal: isQuestion ? AbortSignal.any([signal, limit]) : limit };
  if (body !== undefined) {
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  } else if (plain !== undefined) {
    // A definition: JSON is YAML too.
    request.headers["Content-Type"] = name === "publish" ? "application/cloudevents+json" : "application/yaml";
    request.body = plain;
  }
  let answer;
  try {
    answer = await fetch(url, request);
  } catch (error) {
    if (isQuestion && signal.aborted) throw error;
    const detail = error.name === "TimeoutError"
      ? "the server does not answer: it may be very busy, or stopped"
      : "the server cannot be reached: look whether «turnwheel serve» runs";
    throw new Problem(0, { title: "No answer", detail });
  }
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    throw new Problem(answer.status, { title: "Not understood", detail: "the answer is no JSON: something between here and the server may have answered" });
  }
  // A server that is not healthy says so with another status and the same shape.
  if (!answer.ok && !(name === "health" && value)) throw new Problem(answer.status, value ?? {});
  if (method === "GET") await released();
  return value;
}

/** How the world is doing: its figures, and how many plans are in which state. */
export async function figures(signal) {
  const stats = await ask("stats", { signal });
  const all = { ...stats, states: {}, results: {}, total: 0, journal: stats.figures ?? {} };
  for (const group of stats.plans) {
    all.total += group.plans;
    all.states[group.state] = (all.states[group.state] ?? 0) + group.plans;
    all.results[group.result] = (all.results[group.result] ?? 0) + group.plans;
  }
  return all;
}

/** Reads a stream of server-sent events until it ends; `onMessage` gets `{ event, data, id }`. */
export async function stream(name, { at = {}, query, signal }, onMessage) {
  const [, url] = address(name, at, query);
  const answer = await fetch(url, { headers: headers({ Accept: "text/event-stream" }), signal });
  if (!answer.ok || !answer.body) {
    const problem = await answer.json().catch(() => ({}));
    throw new Problem(answer.status, problem);
  }
  const events = new EventReader(onMessage);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    events.push(value);
  }
}
