//! Nodes are replaced one after the other while a client with all their addresses starts flows: it
//! sees no error, nothing is lost, and nothing runs twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use turnwheel_postgres::LocalServer;

use super::is_asked;
use crate::serve_common::{agent, eventually, Place, Serve};

const NODES: usize = 3;

/// Threads of the client, and requests a second that each of them makes at most.
const SENDERS: usize = 8;
const RATE: u32 = 25;

/// How often each node is replaced: more by command.
const ROUNDS: &str = "TURNWHEEL_ROLLING_ROUNDS";

/// Time in which one of three addresses has to answer well.
const PATIENCE: Duration = Duration::from_secs(60);

const START: &str = "/api/v1/flows/rolling/add/latest/start";

/// A client of three addresses.
struct Client<'a> {
    agent: ureq::Agent,
    urls: &'a [String],
    /// Requests that another address had to answer.
    turned_away: &'a AtomicUsize,
}

impl Client<'_> {
    /// Starts a flow once, at the first address that takes it. The id of its plan.
    fn start(&self, number: usize) -> String {
        let (key, begun) = (format!("add {number}"), Instant::now());
        let body = json!({"input": {"number": number}}).to_string();
        for turn in number.. {
            let request = self.agent.post(format!("{}{START}", self.urls[turn % NODES]));
            let request = request.header("content-type", "application/json");
            let answer = request.header("idempotency-key", &key).send(&body);
            let problem = match answer {
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    let text = answer.into_body().read_to_string().unwrap_or_default();
                    let started: Option<Value> = serde_json::from_str(&text).ok();
                    let id = started.as_ref().and_then(|it| it["id"].as_str()).map(str::to_owned);
                    match id.filter(|_| (200..300).contains(&status)) {
                        Some(id) => return id,
                        None => format!("{status}: {text}"),
                    }
                }
                Err(error) => error.to_string(),
            };
            // A node that goes refuses connections, or says 503: the next one is asked.
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            assert!(begun.elapsed() < PATIENCE, "{key}: no address answers well: {problem}");
            std::thread::sleep(Duration::from_millis(5));
        }
        unreachable!("there is always a next address")
    }
}

/// Waits until each node has its share of the slots.
fn are_shared(at: &Serve) {
    eventually("slots are shared", || {
        let nodes = at.get("/api/v1/nodes").ok();
        let slots: Vec<u64> =
            nodes["nodes"].as_array()?.iter().filter_map(|node| node["slots"].as_u64()).collect();
        let is_even = slots.len() == NODES && slots.iter().all(|slots| *slots > 256);
        is_even.then_some(())
    });
}

#[test]
fn rolling_restart_over_http_shows_its_caller_no_error() {
    if !is_asked() {
        return;
    }
    let rounds = std::env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let database = LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = format!("{}?schema=rolling", database.url("postgres"));
    let place = Place::new();
    let serve = |name: &str, listen: &str| {
        place.serve(&["--store", &url, "--node", name, "--listen", listen, "--log", "warn"])
    };
    let names = ["one", "two", "three"];
    let mut nodes: Vec<Serve> = names.iter().map(|name| serve(name, "127.0.0.1:0")).collect();
    let flow = json!({
        "document": {"dsl": "1.0.3", "namespace": "rolling", "name": "add", "version": "1.0.0"},
        "do": [{"add": {"set": {"number": "${ .number + 1 }"}}}],
    });
    for node in &nodes {
        node.post("/api/v1/flows", &flow);
    }
    are_shared(&nodes[0]);
    let urls: Vec<String> = nodes.iter().map(|node| node.url.clone()).collect();
    let (is_over, next, turned_away) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut started: Vec<(usize, String)> = Vec::new();
    std::thread::scope(|scope| {
        let send = || {
            let client = Client { agent: agent(), urls: &urls, turned_away: &turned_away };
            let mut own = Vec::new();
            while !is_over.load(Ordering::SeqCst) {
                let (begun, number) = (Instant::now(), next.fetch_add(1, Ordering::Relaxed));
                own.push((number, client.start(number)));
                std::thread::sleep((Duration::from_secs(1) / RATE).saturating_sub(begun.elapsed()));
            }
            own
        };
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(send)).collect();
        for _ in 0..rounds {
            for index in 0..NODES {
                let at = nodes[index].address().to_owned();
                let next = (index + 1) % NODES;
                let before = nodes.remove(index);
                before.stopped();
                nodes.insert(index, serve(names[index], &at));
                are_shared(&nodes[next]);
            }
        }
        is_over.store(true, Ordering::SeqCst);
        started.extend(senders.into_iter().flat_map(|sender| sender.join().expect("no panic")));
    });
    let ids: BTreeSet<&String> = started.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), started.len(), "each request has a plan of its own");
    for (number, id) in &started {
        let plan = nodes[number % NODES].ended_plan(id);
        assert_eq!((&plan["state"], &plan["result"]), (&json!("stopped"), &json!("success")));
    }
    let counted = place.json(&["stats", "--json", "--store", &url]);
    assert_eq!(counted["plans"], json!(started.len()), "{counted}");
    nodes.into_iter().for_each(Serve::stopped);
    let turned_away = turned_away.load(Ordering::Relaxed);
    eprintln!("{} flows, {turned_away} times another address was asked", started.len());
}
