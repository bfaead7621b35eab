//! Changes of the list of worlds that fail, or whose answers are lost: worlds go on by what the store has.

use std::time::Duration;

use turnwheel_engine::{ClaimError, MemoryStore, Next, PlanResult, StoreError, World};
use turnwheel_testkit::FaultStore;

use crate::common::worlds::Stage;
use crate::common::Script;

const HOUR: Duration = Duration::from_secs(3_600);

fn this_once() -> StoreError {
    StoreError::Failed("this once".to_owned())
}

fn claim(stage: &Stage, world: &World, id: &str) -> Result<(), ClaimError> {
    stage.passing(world.claim("dump", id, &1))
}

#[test]
fn a_claim_whose_answer_is_lost_is_made_and_others_are_claimed_after_it() {
    let store = FaultStore::new(MemoryStore::new());
    let stage = Stage::over(store.clone());
    let (one, two) = (stage.client("one"), stage.client("two"));
    store.lose_answer_at(store.commits() + 1);
    claim(&stage, &one, "a").expect("it is made");
    let taken = claim(&stage, &two, "a").expect_err("it is another's");
    assert!(matches!(taken, ClaimError::Taken { world, .. } if world == one.id()), "{taken}");
    claim(&stage, &two, "b").expect("it is free");
    store.fail_at(store.commits() + 1, this_once());
    claim(&stage, &two, "c").expect_err("it is not made");
    claim(&stage, &one, "c").expect("it is free");
    let (third, _) = stage.executor("third");
    claim(&stage, &third, "d").expect("it is free");
}

#[test]
fn a_world_joins_although_the_answer_is_lost() {
    let store = FaultStore::new(MemoryStore::new());
    let stage = Stage::over(store.clone());
    let one = stage.client("one");
    store.lose_answer_at(store.commits() + 1);
    let (two, script) = stage.executor("two");
    assert_eq!(one.worlds().len(), 2, "it is registered once");
    script.on("a", |_| Ok(Next::Done));
    let view = stage.finished(&stage.perform(&one, "a"));
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(one.owner_of(view.id), Some(two.id()));
}

#[test]
fn a_claim_is_refused_while_nobody_knows_the_worlds_and_made_when_the_store_is_well() {
    let store = FaultStore::new(MemoryStore::new());
    let stage = Stage::over(store.clone());
    let (one, two) = (stage.client("one"), stage.client("two"));
    store.lose_answer_at(store.commits() + 1);
    store.fail_reads(this_once());
    for name in ["a", "b"] {
        let refused = claim(&stage, &one, name).expect_err("nobody knows");
        assert!(matches!(refused, ClaimError::Store(_)), "{refused}");
    }
    store.heal();
    let mine = claim(&stage, &one, "a").expect_err("it was made");
    assert!(matches!(mine, ClaimError::Taken { world, .. } if world == one.id()), "{mine}");
    claim(&stage, &two, "b").expect("it was not made");
}

/// A part that has a timer goes on at its time.
fn waits(script: &Script) {
    script.on("a", |step| {
        if step.has_event() {
            return Ok(Next::Done);
        }
        step.event_after(Duration::from_secs(100), &1)?;
        Ok(step.wait_for_event("its time"))
    });
}

/// A world is taken over while the store does this, and its plan ends in the other world.
fn taken_over_while(fails: impl Fn(&FaultStore), is_made: bool, is_told: bool) {
    let store = FaultStore::new(MemoryStore::new());
    let stage = Stage::over(store.clone());
    let (first, on_first) = stage.executor("first");
    let (second, on_second) = stage.executor("second");
    [&on_first, &on_second].into_iter().for_each(waits);
    let plan = stage.perform(&first, "a");
    stage.view(&plan);
    stage.sim.advance(Duration::from_secs(30));
    fails(&store);
    let told = stage.passing(second.invalidate(first.id()));
    assert_eq!(told.is_ok(), is_told, "{told:?}");
    store.heal();
    stage.sim.advance(Duration::from_secs(10));
    if !is_made {
        let again = stage.passing(second.invalidate(first.id()));
        assert!(again.expect("the store is well"), "it was there still");
    }
    stage.sim.advance(HOUR);
    let view = stage.passing(second.plan(plan.id()).view()).expect("it is there");
    assert_eq!(view.result(), PlanResult::Success, "«{}»", view.waits_for());
    let said = (on_first.said().len(), on_second.said().len());
    assert_eq!(said, (1, 2), "it is called in each world once, and finalized in the second");
    assert!(!stage.passing(second.invalidate(first.id())).expect("the store is well"));
}

#[test]
fn plans_of_a_world_go_on_elsewhere_after_a_take_over_that_failed_once() {
    taken_over_while(|store| store.fail_at(store.commits() + 1, this_once()), false, false);
}

#[test]
fn plans_of_a_world_go_on_elsewhere_after_a_take_over_whose_answer_is_lost() {
    taken_over_while(|store| store.lose_answer_at(store.commits() + 1), true, true);
}

#[test]
fn plans_of_a_world_go_on_elsewhere_after_a_take_over_that_nobody_could_read() {
    let fails = |store: &FaultStore| {
        store.lose_answer_at(store.commits() + 1);
        store.fail_reads(this_once());
    };
    taken_over_while(fails, true, false);
}
