//! Plans of several nodes that wait for one another in a circle, which no node sees.

use std::future::IntoFuture;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::store::Store as _;
use turnwheel_engine::{
    Action, ActionError, Cause, Next, PlanResult, PlanState, RunAsync, RunsAsync, Singleton,
    StepContext, TriggerOptions,
};

use super::keys::wait;
use super::{Cluster, LEASE};

/// A lock, and the plans that are asked for while it is held, a second later.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Line {
    lock: String,
    below: Vec<Line>,
}

/// Holds the lock of its line until the plans below are over.
pub(super) struct Locked;

impl Action for Locked {
    const NAME: &'static str = "locked";
    type Input = Line;
    type Output = u32;
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<Line>> {
        Some(Singleton::keyed(|line: &Line| line.lock.clone()).wait())
    }
}

impl RunAsync for Locked {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            step.output = step.sub_plans().failed;
            return Ok(Next::Done);
        }
        if step.input.below.is_empty() {
            return Ok(Next::Done);
        }
        if !step.has_event() {
            step.event_after(Duration::from_secs(1), &())?;
            return Ok(step.wait_for_event("its time"));
        }
        for line in step.input.below.clone() {
            step.trigger::<Self>(&line)?;
        }
        Ok(step.wait_for_sub_plans())
    }
}

fn line(lock: &str, below: Vec<Line>) -> Line {
    Line { lock: lock.to_owned(), below }
}

#[test]
fn a_circle_of_waits_over_two_nodes_ends_at_the_deadline_of_one_of_its_plans() {
    let limit = Duration::from_secs(20);
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(2 * LEASE);
    let (first, second) = (cluster.nodes[0].world.clone(), cluster.nodes[1].world.clone());
    let options = TriggerOptions::new().deadline(limit);
    let asked = first.trigger_with::<Locked>(options, line("x", vec![line("y", vec![])]));
    let one = wait(&mut cluster, asked.into_future()).expect("it is taken");
    let asked = second.trigger::<Locked>(line("y", vec![line("x", vec![])]));
    let other = wait(&mut cluster, asked.into_future()).expect("it is taken");
    cluster.run(limit - 2 * LEASE);
    let rows = cluster.rows();
    assert_eq!(rows.len(), 4, "each has asked for one below");
    assert!(rows.iter().all(|row| row.1 != PlanState::Stopped), "they wait: {rows:?}");
    let view = wait(&mut cluster, one.finished().into_future()).expect("it ends");
    assert_eq!(view.result(), PlanResult::Cancelled, "{view:?}");
    cluster.run(2 * LEASE);
    let view = wait(&mut cluster, other.finished().into_future()).expect("it ends");
    assert_eq!(view.result(), PlanResult::Success, "{view:?}");
    assert_eq!(view.output::<Locked>().expect("a number"), 0, "none below has failed");
    assert!(cluster.rows().iter().all(|row| row.1 == PlanState::Stopped));
    let mut reader = cluster.base.memory.reader().expect("a reader");
    assert_eq!(reader.locks().expect("they are read"), []);
    assert_eq!(cluster.wrong(), [""; 0]);
}
