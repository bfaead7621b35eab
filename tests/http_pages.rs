//! Large plans over HTTP: pages of their steps and parts of their trees cost what is in them.
#![cfg(feature = "server")]

mod http_common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use http_common::{with, Served};
use serde_json::{json, Value};
use turnwheel::engine::{
    Action, ActionError, ActionView, MemoryStore, Next, Planner, Run, Runs, StepContext, World,
};
use turnwheel::http::{Access, Options};

/// Steps of the large plan.
const STEPS: u32 = 2_000;

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
}
