//! Three nodes over one PostgreSQL on the same processors: moves, and users of a node that dies.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::json;
use turnwheel_postgres::LocalServer;

use super::http;
use super::stage::{definition, user, PLATFORM, TOLD};
use super::Options;
use crate::engine::{failed, row, rows, SceneRow};
use crate::error::BenchError;
use crate::serve_common::{Place, Serve};

/// Users who wait when a node dies.
const USERS: u64 = 300;

/// They wait for so long, which is more than their begin takes.
const WAIT: Duration = Duration::from_secs(10);

/// All of them have gone on within this time, or the measurement ends.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn moves(options: &Options, _bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    let database = LocalServer::start(&[]).map_err(|error| failed(&error))?;
    let place = Place::new();
    let url = format!("{}?schema=journeys", database.url("postgres"));
    let serve = |name: &str| place.serve(&["--store", &url, "--node", name]);
    let nodes = [serve("one"), serve("two"), serve("three")];
    let text = definition("P30D").replace("channel: none", "channel: log");
    nodes[0].send("POST", "/api/v1/journeys", &[], Some(&text)).ok();
    let addresses: Vec<String> = nodes.iter().map(|node| node.address().to_owned()).collect();
    let sent = http::load(options, &addresses, 0)?;
    let workload = format!("moves_3_nodes_postgres_{}_connections", options.connections);
    let mut all = rows(&workload, "moves_per_s", sent);
    all.push(row("dead_node_postgres", "goes_on_after_s", death(nodes, options.events)?));
    Ok(all)
}

/// Seconds from the death of a node until the users of all nodes have taken their default lines,
/// which are due at that moment.
fn death(nodes: [Serve; 3], first: u64) -> Result<f64, BenchError> {
    let [one, two, three] = nodes;
    let wait = format!("PT{}S", WAIT.as_secs());
    let text = definition(&wait).replace("journey: first", "journey: short");
    let text = text.replace("silent", "short").replace(TOLD, "short-told");
    let text = text.replace("channel: none", "channel: log");
    one.send("POST", "/api/v1/journeys", &[], Some(&text)).ok();
    let begin = Instant::now();
    let headers = [("content-type", "application/cloudevents+json")];
    let path = format!("/api/v1/platforms/{PLATFORM}/events");
    for number in first..first + USERS {
        let event = json!({
            "specversion": "1.0", "id": "short", "source": "bench", "type": "short",
            "subject": user(number),
        });
        two.send("POST", &path, &headers, Some(&event.to_string())).ok();
    }
    let begun = begin.elapsed();
    crate::error::check("users who begin before the first is due", begun < WAIT, true)?;
    // The last of them is due now; those before it are the dead node's as well.
    std::thread::sleep(WAIT - begun);
    one.signal("-KILL");
    let killed = Instant::now();
    let mut left: Vec<u64> = (first..first + USERS).collect();
    while !left.is_empty() {
        let waits = |number: &u64| {
            let path = format!("/api/v1/users/{PLATFORM}/{}", user(*number));
            two.get(&path).ok()["passes"] != json!([])
        };
        left.retain(waits);
        crate::error::check("users go on", killed.elapsed() < LIMIT, true)?;
    }
    // Those who began last are due later than the death by as long as all took to begin.
    let after = killed.elapsed().saturating_sub(begun).as_secs_f64();
    drop(one);
    two.stopped();
    three.stopped();
    Ok(after)
}
