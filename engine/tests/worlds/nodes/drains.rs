//! Nodes that give their slots away while they work.

use std::future::IntoFuture;
use std::time::Duration;

use turnwheel_engine::store::slot_of_schedule;
use turnwheel_engine::{PlanResult, PlanState, Schedule};

use super::keys::wait;
use super::{Cluster, Piece, TICK};

/// Has a node drain by the word of another one, and waits until it has no slot.
fn drain(cluster: &mut Cluster, index: usize, by: usize) {
    let (id, asks) = (cluster.nodes[index].world.id(), cluster.nodes[by].world.clone());
    assert!(wait(cluster, asks.drain_node(id).into_future()).expect("the store works"));
    cluster.run(Duration::from_secs(2));
    assert_eq!(cluster.base.worlds().find(id).map(|row| row.slots.len()), Some(0));
}

#[test]
fn a_node_that_is_drained_gives_its_slots_away_and_serves_requests_still() {
    let mut cluster = Cluster::new(8, 3, false);
    cluster.run(Duration::from_secs(5));
    let waits = cluster.perform(0, "a w b");
    let (id, version) = (cluster.nodes[0].world.id(), cluster.base.worlds().version);
    assert_eq!(cluster.nodes[1].world.owner_of(waits), Some(id));
    drain(&mut cluster, 0, 1);
    let worlds = cluster.base.worlds();
    assert_eq!(worlds.free().len(), 0, "each slot has an owner");
    assert!(worlds.version >= version + 1_024 / 3 / 32, "a few at a time: {}", worlds.version);
    assert_ne!(cluster.nodes[1].world.owner_of(waits), Some(id));
    // A plan that is triggered there begins at others, and goes on there.
    let _before = cluster.nodes[0].script.said();
    for text in ["a", "b", "a b"] {
        let plan = cluster.perform(0, text);
        assert_ne!(cluster.nodes[0].world.owner_of(plan), Some(id));
    }
    cluster.run(Duration::from_secs(4));
    assert_eq!(cluster.rows().len(), 4);
    for (plan, state, result) in cluster.rows() {
        assert_eq!((state, result), (PlanState::Stopped, PlanResult::Success), "{plan}");
    }
    assert_eq!(cluster.nodes[0].script.said(), [""; 0], "no code runs at the drained node");
    // It gets none back, and one that is not there is told.
    cluster.run(Duration::from_secs(5));
    assert_eq!(cluster.base.worlds().find(id).map(|row| row.slots.len()), Some(0));
    let asks = cluster.nodes[1].world.clone();
    assert!(!wait(&mut cluster, asks.drain_node(12_345).into_future()).expect("it answers"));
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn schedules_move_with_a_node_that_is_drained() {
    let mut cluster = Cluster::new(8, 2, false);
    let tick = Schedule::every("tick", Duration::from_secs(2)).action::<Piece>(&"a".to_owned());
    let (tick, slot) = (tick.expect("it is complete"), slot_of_schedule("tick"));
    let put = cluster.nodes[1].world.schedules().put(tick);
    wait(&mut cluster, put).expect("it is answered").expect("it is put");
    cluster.run(Duration::from_secs(5));
    let before = cluster.rows().len();
    let owner = cluster.base.worlds().owner(slot);
    let at = cluster.nodes.iter().position(|node| node.world.id() == owner).expect("a node");
    drain(&mut cluster, at, 1 - at);
    assert_eq!(cluster.base.worlds().owner(slot), cluster.nodes[1 - at].world.id());
    cluster.run(Duration::from_secs(10));
    let launched = cluster.rows().len() - before;
    assert!((4..=7).contains(&launched), "each time once: {launched}");
}

#[test]
fn the_last_node_keeps_its_slots_although_it_is_drained() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(Duration::from_secs(3));
    drain(&mut cluster, 0, 1);
    cluster.kill(1);
    cluster.run(Duration::from_secs(5));
    let worlds = cluster.base.worlds();
    assert_eq!(worlds.find(cluster.nodes[0].world.id()).map(|row| row.slots.len()), Some(1_024));
    let plan = cluster.perform(0, "a");
    cluster.run(10 * TICK);
    assert_eq!(cluster.rows(), [(plan, PlanState::Stopped, PlanResult::Success)]);
    // The next one that comes gets them all.
    cluster.start();
    cluster.run(Duration::from_secs(5));
    let counts: Vec<usize> = cluster.base.worlds().rows.iter().map(|row| row.slots.len()).collect();
    assert_eq!(counts, [0, 1_024]);
}
