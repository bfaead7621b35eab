//! A plan that asks for many plans: they are dealt to all nodes, and each is begun once, whoever
//! goes meanwhile.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::time::Duration;

use turnwheel_engine::store::slot_of;
use turnwheel_engine::{action, ActionError, Cause, Next, PlanResult, PlanState, StepContext};

use super::keys::wait;
use super::Cluster;

/// Sub-plans of one step.
const MANY: u64 = 100;

/// Doubles a number, after a while.
#[action(output = u64)]
pub(super) async fn leaf(number: u64, step: &mut StepContext<Leaf>) -> Result<Next, ActionError> {
    if step.has_event() {
        step.output = 2 * number;
        return Ok(Next::Done);
    }
    step.event_after(Duration::from_secs(1), &())?;
    Ok(step.wait_for_event("its time"))
}

/// The sum of what its plans have as outputs.
#[action(output = u64)]
pub(super) async fn crowd(
    numbers: Vec<u64>,
    step: &mut StepContext<Crowd>,
) -> Result<Next, ActionError> {
    if step.cause() == Cause::SubPlans {
        step.output = step.child_outputs::<Leaf>().all().await?.iter().sum();
        return Ok(Next::Done);
    }
    step.trigger_each::<Leaf>("leaf", &numbers)?;
    Ok(step.wait_for_sub_plans())
}

/// Triggers a crowd at a node, and runs the cluster until it has an end; its sum.
fn sum(cluster: &mut Cluster, killed: Option<usize>) -> u64 {
    let world = cluster.nodes[0].world.clone();
    let triggered = world.trigger::<Crowd>((0..MANY).collect::<Vec<_>>());
    let plan = wait(cluster, triggered.into_future()).expect("it is taken");
    let plan = plan.id();
    cluster.run(Duration::from_millis(600));
    killed.into_iter().for_each(|index| cluster.kill(index));
    let asks = cluster.nodes.last().expect("one is left").world.plan(plan);
    let view = wait(cluster, asks.finished().into_future()).expect("it ends");
    assert_eq!(view.result(), PlanResult::Success, "{view:?}");
    let children: Vec<_> = view.sub_plans().map(|(id, _)| id).collect();
    assert_eq!(children.len() as u64, MANY);
    view.output::<Crowd>().expect("a sum")
}

#[test]
fn large_fan_out_is_dealt_to_all_nodes_and_its_outputs_are_found() {
    let mut cluster = Cluster::new(8, 3, false);
    cluster.run(Duration::from_secs(5));
    assert_eq!(sum(&mut cluster, None), MANY * (MANY - 1));
    let worlds = cluster.base.worlds();
    let owners = cluster.rows().iter().map(|row| worlds.owner(slot_of(row.0))).collect::<Vec<_>>();
    for node in &cluster.nodes {
        let count = owners.iter().filter(|owner| **owner == node.world.id()).count();
        assert!(count >= 25, "{} has {count} plans", node.world.id());
    }
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn children_of_a_node_that_dies_and_of_a_parent_that_moves_end_once() {
    // The node of the parent, and one of the others.
    for killed in [0, 1] {
        let mut cluster = Cluster::new(8, 3, false);
        cluster.run(Duration::from_secs(5));
        assert_eq!(sum(&mut cluster, Some(killed)), MANY * (MANY - 1), "killed: {killed}");
        let rows = cluster.rows();
        assert_eq!(rows.len() as u64, MANY + 1, "no child was begun twice");
        assert!(rows.iter().all(|row| row.1 == PlanState::Stopped));
        let ids: BTreeSet<_> = rows.iter().map(|row| row.0).collect();
        assert_eq!(ids.len(), rows.len());
        assert_eq!(cluster.wrong(), [""; 0]);
    }
}
