//! Requests between nodes that are taken for dead meanwhile.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use turnwheel_engine::schedule::{Expected, ScheduleView};
use turnwheel_engine::{Next, PlanId, PlanResult, PlanState, Schedule, ScheduleError, StepId};
use turnwheel_runtime::Completion;

use super::keys::wait;
use super::{Cluster, Piece, LEASE, TICK};
use crate::common::step_of;

#[test]
fn a_wait_survives_the_time_in_which_its_node_is_taken_for_dead() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.nodes[0].script.on("w", |step| {
        if step.has_event() {
            return Ok(Next::Done);
        }
        step.event_after(2 * LEASE, &1)?;
        Ok(step.wait_for_event("its time"))
    });
    let plan = cluster.perform(0, "w");
    let asks = cluster.nodes[1].world.clone();
    let mut finished = Box::pin(asks.plan(plan).finished().into_future());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(finished.as_mut().poll(&mut cx).is_pending());
    cluster.run(4 * TICK);
    let until = cluster.base.now() + 3 * LEASE;
    cluster.nodes[1].is_deaf_until(until);
    cluster.run(LEASE + LEASE / 2);
    assert!(cluster.base.worlds().find(asks.id()).is_none(), "it is taken for dead");
    // The plan ends now: the answer is for a world that is not registered.
    cluster.run(2 * LEASE);
    assert!(cluster.base.worlds().find(asks.id()).is_some(), "it is registered again");
    cluster.run(Duration::from_secs(3));
    let Poll::Ready(Ok(view)) = finished.as_mut().poll(&mut cx) else { panic!("it is silent") };
    assert_eq!(view.result(), PlanResult::Success);
}

#[test]
fn a_trigger_at_a_node_that_has_lost_its_slots_is_taken_by_their_owners() {
    let mut cluster = Cluster::new(8, 3, false);
    cluster.run(Duration::from_secs(5));
    let until = cluster.base.now() + 3 * LEASE;
    cluster.nodes[0].freeze(until);
    cluster.run(2 * LEASE);
    let world = cluster.nodes[0].world.clone();
    let is_there = cluster.base.worlds().find(world.id()).is_some();
    assert!(!is_there, "others have its slots, and it does not know");
    let triggers: Vec<_> = (0..8).map(|_| world.trigger::<Piece>("a".to_owned())).collect();
    for trigger in triggers {
        let plan = wait(&mut cluster, trigger).expect("it is taken");
        let seen = wait(&mut cluster, plan.finished().into_future()).expect("it ends");
        assert_eq!(seen.result(), PlanResult::Success);
    }
    assert_eq!(cluster.rows().len(), 8, "none has begun twice");
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn an_event_without_an_id_is_taken_once_although_its_node_dies_before_it_answers() {
    for is_taken in [false, true] {
        let mut cluster = Cluster::new(8, 3, false);
        cluster.run(Duration::from_secs(5));
        for node in &cluster.nodes {
            node.script.on("x", |step| {
                let Some(event) = step.event::<String>()? else {
                    return Ok(step.wait_for_event("a word"));
                };
                let told = step.output.as_str().unwrap_or_default().to_owned() + &event;
                let is_all = told.len() == 2;
                step.output = told.into();
                Ok(if is_all { Next::Done } else { step.wait_for_event("another") })
            });
        }
        let plan = cluster.perform(0, "x");
        let asks = cluster.nodes[1].world.clone();
        let view = wait(&mut cluster, asks.plan(plan).view().into_future()).expect("it is there");
        let step = step_of(&view, "x");
        if !is_taken {
            let until = cluster.base.now() + 10 * LEASE;
            cluster.nodes[0].freeze(until);
        }
        let mut sent = Box::pin(asks.event(plan, step, None, &"a"));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(sent.as_mut().poll(&mut cx).is_pending());
        // Without a tick of the sender the answer is not read.
        let node = &mut cluster.nodes[0];
        if is_taken {
            node.sim.advance(TICK);
        }
        cluster.kill(0);
        wait(&mut cluster, sent).expect("it is answered").expect("it is taken");
        let last = asks.event(plan, step, None, &"b");
        wait(&mut cluster, last).expect("it is answered").expect("it is taken");
        let seen = wait(&mut cluster, asks.plan(plan).finished().into_future()).expect("it ends");
        assert_eq!(seen.result(), PlanResult::Success, "taken before the end: {is_taken}");
        assert_eq!(cluster.wrong(), [""; 0]);
    }
}

#[test]
fn order_is_carried_out_once_although_its_node_dies_before_it_answers() {
    for is_taken in [false, true] {
        let mut cluster = Cluster::new(8, 3, false);
        cluster.run(Duration::from_secs(5));
        let plan = cluster.perform(0, "s");
        let asks = cluster.nodes[1].world.clone();
        if !is_taken {
            let until = cluster.base.now() + 10 * LEASE;
            cluster.nodes[0].freeze(until);
        }
        // A second one would be refused: «it is paused already».
        let mut paused = Box::pin(asks.plan(plan).pause("a test").into_future());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(paused.as_mut().poll(&mut cx).is_pending());
        // Without a tick of the sender the answer is not read.
        let node = &mut cluster.nodes[0];
        if is_taken {
            node.sim.advance(TICK);
        }
        cluster.kill(0);
        wait(&mut cluster, paused).expect("it is answered").expect("it is carried out");
        let view = wait(&mut cluster, asks.plan(plan).view().into_future()).expect("it is there");
        assert_eq!(view.state, PlanState::Paused, "taken before the end: {is_taken}");
        let again = wait(&mut cluster, asks.plan(plan).pause("a test").into_future());
        let refused = again.expect("it is answered").expect_err("it is another order");
        assert!(refused.to_string().contains("paused already"), "{refused}");
        assert_eq!(cluster.wrong(), [""; 0]);
    }
}

/// Sends an event to a plan of a node that is not there.
fn lose(cluster: &Cluster, index: usize, id: &str) -> impl Future<Output = bool> {
    let world = cluster.nodes[index].world.clone();
    let slot = cluster.base.worlds().owners().iter().position(|owner| owner.world == world.id());
    let slot = u16::try_from(slot.expect("it has slots")).expect("there are 1,024");
    let mut plan = [7; 16];
    plan[14..].copy_from_slice(&slot.to_be_bytes());
    let sent = world.event(PlanId::from_bytes(plan), StepId(1), Some(id), &1);
    async move { sent.await.expect("it is answered").is_err() }
}

fn letters(cluster: &Cluster, index: usize) -> Vec<(u64, String)> {
    let letters = cluster.nodes[index].world.dead_letters().letters.into_iter();
    letters.map(|letter| (letter.number, letter.id.unwrap_or_default())).collect()
}

#[test]
fn dead_letters_of_all_nodes_are_kept_and_each_node_lists_them() {
    let mut cluster = Cluster::new(8, 3, false);
    cluster.run(Duration::from_secs(5));
    // At the same time: each claims the same numbers at first.
    for round in 0..4 {
        let lost: Vec<_> =
            (0..3).map(|index| lose(&cluster, index, &format!("{round} of {index}"))).collect();
        for lost in lost {
            assert!(wait(&mut cluster, lost), "there is no such plan");
        }
    }
    cluster.run(2 * LEASE);
    let all = letters(&cluster, 0);
    let numbers: Vec<u64> = all.iter().map(|letter| letter.0).collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
    let mut ids: Vec<_> = all.iter().map(|letter| letter.1.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 12, "{all:?}");
    assert_eq!((letters(&cluster, 1), letters(&cluster, 2)), (all.clone(), all));
    // A node that comes later reads them.
    cluster.start();
    assert_eq!(letters(&cluster, 3), letters(&cluster, 0));
}

#[test]
fn of_two_edits_of_a_schedule_at_two_nodes_one_is_made() {
    for seed in [7, 8] {
        let mut cluster = Cluster::new(seed, 2, false);
        let put = |cluster: &Cluster, node: usize, expected: Expected, seconds: u64| {
            let every = Schedule::every("tick", Duration::from_secs(seconds));
            let every = every.action::<Piece>(&"w".to_owned()).expect("it is complete");
            cluster.nodes[node].world.schedules().expecting(expected).put(every)
        };
        let mut cx = Context::from_waker(Waker::noop());
        let mut told =
            |put: &mut Completion<Result<ScheduleView, ScheduleError>>| match Pin::new(put)
                .poll(&mut cx)
            {
                Poll::Ready(told) => told.expect("it is answered"),
                Poll::Pending => panic!("it is silent"),
            };
        let mut made = put(&cluster, 1, Expected::Absent, 3_600);
        cluster.run(Duration::from_secs(4));
        let made = told(&mut made).expect("there is none").revision();
        let mut none = put(&cluster, 0, Expected::Revisions(vec![made ^ 1]), 60);
        let at = |cluster: &Cluster, node: usize, seconds: u64| {
            put(cluster, node, Expected::Revisions(vec![made]), seconds)
        };
        let (mut one, mut other) = (at(&cluster, 0, 7_200), at(&cluster, 1, 10_800));
        cluster.run(Duration::from_secs(4));
        assert!(matches!(told(&mut none), Err(ScheduleError::Edited { .. })));
        match (told(&mut one), told(&mut other)) {
            (Ok(view), Err(ScheduleError::Edited { .. }))
            | (Err(ScheduleError::Edited { .. }), Ok(view)) => assert_ne!(view.revision(), made),
            both => panic!("one of both is made: {both:?}"),
        }
    }
}
