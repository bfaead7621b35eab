//! Clients that start flows, each start with its key until it is accepted; and one that asks for health.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use super::{Case, HEALTH_MS};
use crate::serve_common::Serve;

/// Clients at once.
const CLIENTS: usize = 4;

/// Pause of a client after a refusal, and of the one that asks for health.
const PAUSE: Duration = Duration::from_millis(10);

/// Time for the plans that are under way at the end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The flow that is started.
const FLOW: &str = "document: { dsl: '1.0.3', namespace: abuse, name: small, version: '1.0.0' }
do:
  - first: { set: { text: '${ .text }', n: 1 } }
  - second: { set: { n: '${ .n + 1 }' } }
";

/// Load on a server that may be away.
#[derive(Default)]
pub(super) struct Load {
    /// The address, while the server is meant to be there.
    url: Mutex<Option<String>>,
    /// Bytes of each input.
    bytes: AtomicUsize,
    next: AtomicU64,
    is_over: AtomicBool,
    refused: AtomicU64,
    /// Ids by key.
    accepted: Mutex<HashMap<String, String>>,
    health: Mutex<Vec<f64>>,
    unanswered: AtomicU64,
}

impl Load {
    /// Runs a case under load; the server that it leaves.
    pub(super) fn during<T>(&self, case: impl FnOnce(&Self) -> T) -> T {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| self.client());
            }
            scope.spawn(|| self.ask_for_health());
            let over = Over(&self.is_over);
            let outcome = case(self);
            drop(over);
            outcome
        })
    }

    /// Starts are for this server from now on.
    pub(super) fn is_at(&self, server: &Serve) {
        add(server, FLOW);
        *self.url.lock().expect("no panic") = Some(server.url.clone());
    }

    /// The same, if the flow was added before and nothing can be stored now.
    pub(super) fn is_at_without_flow(&self, server: &Serve) {
        *self.url.lock().expect("no panic") = Some(server.url.clone());
    }

    /// The server is about to end.
    pub(super) fn is_away(&self) {
        *self.url.lock().expect("no panic") = None;
    }

    /// Inputs have so many bytes from now on.
    pub(super) fn inputs_of(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    fn url(&self) -> Option<String> {
        self.url.lock().expect("no panic").clone()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn client(&self) {
        let agent = agent(4);
        while !self.is_over() {
            let key = format!("k{}", self.next.fetch_add(1, Ordering::Relaxed));
            let text = "x".repeat(self.bytes.load(Ordering::Relaxed));
            let body = json!({"input": {"text": text}, "labels": {"key": key}}).to_string();
            // Until it is accepted: whether a start without an answer was taken is not known.
            while !self.is_over() {
                if let Some(url) = self.url() {
                    if let Some(id) = start(&agent, &url, &key, &body) {
                        self.accepted.lock().expect("no panic").insert(key, id);
                        break;
                    }
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(PAUSE);
            }
        }
    }

    fn ask_for_health(&self) {
        // A connection for each, as load balancers do.
        let agent = agent(0);
        while !self.is_over() {
            thread::sleep(PAUSE);
            let Some(url) = self.url() else { continue };
            let begun = Instant::now();
            let is_answered = agent.get(format!("{url}/health")).call().is_ok();
            let ms = begun.elapsed().as_secs_f64() * 1_000.0;
            if is_answered {
                self.health.lock().expect("no panic").push(ms);
            } else if self.url().as_ref() == Some(&url) {
                self.unanswered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Compares what was accepted with what a server has.
    pub(super) fn outcome(&self, server: &Serve, case: &'static str) -> Case {
        let until = Instant::now() + PATIENCE;
        let open = "/api/v1/plans?labels=key&limit=1&state=pending,planning,planned,running,paused";
        while Instant::now() < until
            && server.get(open).ok()["plans"].as_array().is_some_and(|plans| !plans.is_empty())
        {
            thread::sleep(PAUSE);
        }
        let plans = all(server);
        let mut keys: HashMap<&str, u32> = HashMap::new();
        let (mut ids, mut well) = (HashSet::new(), HashSet::new());
        for plan in &plans {
            let id = plan["id"].as_str().unwrap_or_default();
            *keys.entry(plan["labels"]["key"].as_str().unwrap_or_default()).or_default() += 1;
            ids.insert(id);
            if plan["result"] == "success" {
                well.insert(id);
            }
        }
        let accepted = self.accepted.lock().expect("no panic");
        let missing = |from: &HashSet<&str>| {
            accepted.values().filter(|id| !from.contains(id.as_str())).count()
        };
        let (lost, not_well) = (missing(&ids), missing(&well));
        let mut health = self.health.lock().expect("no panic").clone();
        health.sort_by(f64::total_cmp);
        let p99 = health.get((health.len() * 99 / 100).min(health.len().saturating_sub(1)));
        Case {
            case,
            accepted: accepted.len(),
            refused: self.refused.load(Ordering::Relaxed),
            lost,
            doubled: keys.values().filter(|plans| **plans > 1).count(),
            unfinished: not_well - lost,
            health_answers: health.len(),
            health_p99_ms: p99.copied().unwrap_or_default(),
            health_max_ms: health.last().copied().unwrap_or_default(),
            health_over_100_ms: health.iter().filter(|ms| **ms > HEALTH_MS).count(),
            health_unanswered: self.unanswered.load(Ordering::Relaxed),
            note: String::new(),
        }
    }
}

/// Ends the load, also when a case panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A client that keeps so many connections.
fn agent(connections: usize) -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let config = config.max_idle_connections(connections).proxy(None);
    config.timeout_global(Some(Duration::from_secs(10))).build().into()
}

fn start(agent: &ureq::Agent, url: &str, key: &str, body: &str) -> Option<String> {
    let request = agent
        .post(format!("{url}/api/v1/flows/abuse/small/1.0.0/start"))
        .header("content-type", "application/json")
        .header("idempotency-key", key);
    let mut answer = request.send(body).ok()?;
    let is_accepted = matches!(answer.status().as_u16(), 200 | 201);
    let text = answer.body_mut().read_to_string().ok()?;
    let started: Value = serde_json::from_str(&text).ok().filter(|_| is_accepted)?;
    started["id"].as_str().map(str::to_owned)
}

/// Adds a flow.
pub(super) fn add(server: &Serve, flow: &str) {
    let headers = [("content-type", "application/yaml")];
    server.send("POST", "/api/v1/flows", &headers, Some(flow)).ok();
}

/// All plans of the load.
fn all(server: &Serve) -> Vec<Value> {
    let (mut plans, mut next) = (Vec::new(), String::new());
    loop {
        let mut page = server.get(&format!("/api/v1/plans?labels=key&limit=1000{next}")).ok();
        if let Some(more) = page["plans"].as_array_mut() {
            plans.append(more);
        }
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return plans,
        }
    }
}
