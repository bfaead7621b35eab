//! Idempotency keys that have begun a plan: the same request answers it, another one is refused.

use std::time::Duration;

use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Delay, MemoryStore, Payload, PlanHandle, StoreError, TriggerError, TriggerOptions, Triggering,
    World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::common::{part, Piece, Play, Script, Theatre};

fn begun(theatre: &Theatre, triggering: Triggering) -> PlanHandle {
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

/// The difference that the refusal names.
fn refused(theatre: &Theatre, triggering: Triggering, known: &PlanHandle) -> String {
    let error = theatre.sim.block_on(triggering).expect("it ends").expect_err("it differs");
    let text = error.to_string();
    let TriggerError::KeyReused { key, plan, differs } = error else { panic!("{text}") };
    assert_eq!((key.as_str(), plan), ("order 7", known.id()));
    assert!(text.contains(&differs) && text.contains("take a new key"), "{text}");
    differs
}

fn keyed() -> TriggerOptions {
    TriggerOptions::new().key("order 7")
}

#[test]
fn a_known_key_answers_its_plan_and_refuses_another_input() {
    let theatre = Theatre::new();
    let world = &theatre.world;
    let first = begun(&theatre, world.trigger_once::<Piece>("order 7", "a".to_owned()));
    for is_over in [false, true] {
        let again = begun(&theatre, world.trigger_once::<Piece>("order 7", "a".to_owned()));
        assert_eq!(again.id(), first.id());
        let other = world.trigger_once::<Piece>("order 7", "secret".to_owned());
        assert_eq!(refused(&theatre, other, &first), "another input", "no value is repeated");
        let other = world.trigger_once::<Play>("order 7", part("a"));
        let differs = refused(&theatre, other, &first);
        assert_eq!(differs, "another action, «piece» instead of «play»");
        if !is_over {
            theatre.finished(&first);
        }
    }
    assert_eq!(theatre.script.said(), ["a", "finalize a"], "nothing else has run");
}

#[test]
fn every_way_to_begin_a_plan_compares_the_input_of_a_known_key() {
    let theatre = Theatre::new();
    let world = &theatre.world;
    let json = |text: &str| Payload::from_json(text).expect("it is JSON");
    let first = begun(&theatre, world.trigger_with::<Play>(keyed(), part("a")));
    let delay = || Delay::frozen();
    let same = json(r#"{ "needs": [], "who": "a" }"#);
    let again = [
        world.trigger_with::<Play>(keyed(), part("a")),
        world.delay_with::<Play>(keyed(), delay(), part("a")),
        world.trigger_named("play", keyed(), same.clone()).triggering,
        world.delay_named("play", keyed(), delay(), same).triggering,
    ];
    for again in again {
        assert_eq!(begun(&theatre, again).id(), first.id());
    }
    let other = json(r#"{ "who": "b", "needs": [] }"#);
    let others = [
        world.trigger_with::<Play>(keyed(), part("b")),
        world.delay_with::<Play>(keyed(), delay(), part("b")),
        world.trigger_named("play", keyed(), other.clone()).triggering,
        world.delay_named("play", keyed(), delay(), other).triggering,
    ];
    for other in others {
        let differs = refused(&theatre, other, &first);
        assert_eq!(differs, "another input, which differs at «/who»");
    }
}

#[test]
fn of_callers_that_come_at_once_with_one_key_all_get_one_plan_or_a_refusal() {
    for failing in 0..6 {
        let (sim, store) = (Sim::new(3), FaultStore::new(MemoryStore::new()));
        let script = Script::default();
        let builder = World::builder().action(Play::new(&script)).action(Piece).seed(3);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store.clone())).unwrap().expect("it begins");
        store.fail_at(store.commits() + failing, StoreError::Failed("away".to_owned()));
        let inputs = ["a", "b", "a", "b"];
        let begun = inputs.map(|input| world.trigger_once::<Piece>("order 7", input.to_owned()));
        let answers = begun.map(|begun| sim.block_on(begun).expect("it ends"));
        sim.advance(Duration::from_secs(60));
        let rows = sim.block_on(world.list(Filter::default())).unwrap().expect("it lists");
        assert!(rows.len() <= 1, "{} plans", rows.len());
        let mut taken = Vec::new();
        for (input, answer) in inputs.into_iter().zip(answers) {
            match answer {
                Ok(plan) => taken.push((input, plan.id())),
                Err(TriggerError::KeyReused { .. } | TriggerError::Store(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        taken.dedup();
        assert!(taken.len() <= 1, "{taken:?} after a failure of commit {failing}");
        assert!(taken.len() == rows.len() || failing > 0, "somebody has got the plan");
        if let Some((input, _)) = taken.first() {
            assert_eq!(script.said(), [input.to_string(), format!("finalize {input}")]);
        }
    }
}
