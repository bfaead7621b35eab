//! Large plans over HTTP: pages of their steps and parts of their trees cost what is in them.
#![cfg(feature = "server")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use serde_json::{json, Value};
use turnwheel::engine::{
    Action, ActionError, ActionView, MemoryStore, Next, Planner, Run, Runs, StepContext, World,
};
use turnwheel::http::{Access, Options};

use crate::http_common::{with, Served};

/// Steps of the large plan.
const STEPS: u32 = 2_000;

/// Steps of one that is drawn: all that happened to it is read for each page.
const SOME: u32 = 600;

/// Plans many parts.
struct Wide;

impl Action for Wide {
    const NAME: &'static str = "wide";
    type Input = u32;
    type Output = ();
    type Phases = Runs;

    fn plan(&self, planner: &mut Planner<'_, Self>, parts: u32) -> Result<(), ActionError> {
        for part in 0..parts {
            planner.plan_action::<Part>(part)?;
        }
        Ok(())
    }
}

impl Run for Wide {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(Next::Done)
    }
}

/// Counts how often it is shown.
struct Part(Arc<AtomicUsize>);

impl Action for Part {
    const NAME: &'static str = "part";
    type Input = u32;
    type Output = u32;
    type Phases = Runs;

    fn present(&self, _: &mut ActionView<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Run for Part {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = step.input;
        Ok(Next::Done)
    }
}

#[test]
fn pages_and_parts_of_a_large_plan_show_what_is_in_them_alone() {
    let shown = Arc::new(AtomicUsize::new(0));
    let builder = with(World::builder()).action(Wide).action(Part(Arc::clone(&shown)));
    let world = builder.build(MemoryStore::new()).expect("a world");
    let served = Served::with(world, Options::new(Access::Loopback));
    let plan = served.start("wide", &json!(STEPS));
    assert_eq!(served.ended(&plan)["result"], "success");
    let count = || shown.swap(0, Ordering::Relaxed);
    count();
    assert_eq!(served.get(&format!("/api/v1/plans/{plan}")).status, 200);
    assert_eq!(count(), 0, "a plan is shown by its root");

    let path = format!("/api/v1/plans/{plan}/steps?limit=100&state=success");
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = served.get(&format!("{path}{next}")).json();
        let steps = page["steps"].as_array().expect("steps");
        assert!(count() <= steps.len());
        seen.extend(steps.iter().map(|step| step["id"].as_u64().expect("a number")));
        let Some(cursor) = page["next"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    assert!(seen.len() >= STEPS as usize && seen.windows(2).all(|two| two[0] < two[1]));
    served.get(&format!("/api/v1/plans/{plan}/steps/{}", seen[10]));
    assert!(count() <= 1);

    let tree = |query: &str| served.get(&format!("/api/v1/plans/{plan}/tree{query}")).json();
    let all = tree("?limit=5000");
    assert_eq!(all["nodes"].as_array().map(Vec::len), Some(STEPS as usize + 1));
    assert_eq!(all["next"], Value::Null);
    let root = tree("?depth=0");
    assert_eq!(root["nodes"][0]["children"], STEPS);
    assert_eq!(root["nodes"].as_array().map(Vec::len), Some(1));
    let (mut nodes, mut next) = (Vec::new(), String::new());
    loop {
        let part = tree(&format!("?limit=900&depth=1{next}"));
        nodes.extend(part["nodes"].as_array().expect("nodes").iter().cloned());
        let Some(cursor) = part["next"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    assert_eq!(json!(nodes), all["nodes"]);
    let one = tree("?under=17");
    assert_eq!(one["nodes"].as_array().map(Vec::len), Some(1));
    for wrong in ["?under=99999", "?depth=x", "?limit=0", "?limit=10001", "?deep=1"] {
        let answer = served.get(&format!("/api/v1/plans/{plan}/tree{wrong}"));
        answer.is_problem(400, "query-invalid");
    }
    assert_eq!(count(), 0, "a tree has no values");
    pictures(&served);
}

/// All pages of something about a plan: each item as a text, with the bytes of the largest page.
fn all(served: &Served, path: &str, list: &str, key: impl Fn(&Value) -> String) -> Vec<String> {
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let answer = served.get(&format!("{path}{next}"));
        assert!(answer.text.len() < 1_000_000, "{path}: {} bytes", answer.text.len());
        let page = answer.json();
        seen.extend(page[list].as_array().expect(list).iter().map(&key));
        let Some(cursor) = page["next"].as_str() else { return seen };
        next = format!("{}cursor={cursor}", if path.contains('?') { '&' } else { '?' });
    }
}

/// Graph, timeline, history and calls are sent by pages, which are the whole together.
fn pictures(served: &Served) {
    let plan = served.start("wide", &json!(SOME));
    served.ended(&plan);
    let base = format!("/api/v1/plans/{plan}");
    let first = served.get(&format!("{base}/graph")).json();
    assert_eq!(first["nodes"].as_array().map(Vec::len), Some(500), "a page has a bound");
    assert_eq!(first["steps"], SOME);
    let id = |one: &Value| one["id"].to_string();
    let nodes = all(served, &format!("{base}/graph?limit=250"), "nodes", id);
    assert_eq!(nodes.len(), SOME as usize);
    let edge = |one: &Value| one.to_string();
    let mut edges = all(served, &format!("{base}/graph?limit=50"), "edges", edge);
    let count = edges.len();
    edges.dedup();
    assert_eq!(edges.len(), count);
    assert_eq!(edges, all(served, &format!("{base}/graph?limit=5000"), "edges", edge));
    let folded = served.get(&format!("{base}/graph?beside=10")).json();
    let rest: u64 = folded["rests"]
        .as_array()
        .expect("rests")
        .iter()
        .map(|r| r["steps"].as_u64().expect("a number"))
        .sum();
    assert_eq!(
        (rest as usize + folded["nodes"].as_array().expect("nodes").len(), &folded["next"]),
        (nodes.len(), &Value::Null)
    );

    let step = |one: &Value| one["step"].to_string();
    let mut bars = all(served, &format!("{base}/timeline?phase=run&limit=250"), "bars", step);
    assert_eq!(bars.len(), SOME as usize);
    bars.sort_unstable();
    bars.dedup();
    assert_eq!(bars.len(), SOME as usize, "each is told once");
    let cursor = |one: &Value| one["cursor"].to_string();
    let told = all(served, &format!("{base}/history?limit=900"), "happenings", cursor);
    let mut back =
        all(served, &format!("{base}/history?order=newest&limit=600"), "happenings", cursor);
    back.reverse();
    assert_eq!(told, back);
    assert_eq!(served.get(&format!("{base}/history")).json()["total"], told.len());
    let call = |one: &Value| format!("{} {}", one["step"], one["call"]);
    let calls = all(served, &format!("{base}/calls?limit=250"), "calls", call);
    let mut back = all(served, &format!("{base}/calls?order=newest"), "calls", call);
    back.reverse();
    assert_eq!((calls.len(), &calls), (SOME as usize, &back));
    let one = served.get(&format!("{base}/calls?step={}", nodes[7])).json();
    assert_eq!((&one["total"], one["calls"][0]["call"].as_u64()), (&json!(1), Some(1)));

    for wrong in ["graph?beside=0", "graph?limit=5001", "timeline?phase=x", "history?order=x"] {
        served.get(&format!("{base}/{wrong}")).is_problem(400, "query-invalid");
    }
    let cursor = served.get(&format!("{base}/calls?limit=1")).json()["next"].clone();
    let cursor = cursor.as_str().expect("a cursor");
    for other in ["graph", "timeline", "history", "steps", "tree"] {
        served.get(&format!("{base}/{other}?cursor={cursor}")).is_problem(400, "cursor-invalid");
    }
}
