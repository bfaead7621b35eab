//! Names that worlds claim: each is of one world, and goes with it.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use turnwheel_engine::{Check, ClaimError, ClaimFilter, Health, MemoryStore, Next, Store, World};
use turnwheel_sqlite::SqliteStore;

use crate::common::worlds::Stage;

fn over_both(test: impl Fn(Stage)) {
    test(Stage::over(MemoryStore::new()));
    let folder = tempfile::tempdir().expect("a folder");
    let store: Box<dyn Store> = Box::new(SqliteStore::new(folder.path().join("plans.db")));
    test(Stage::over(Arc::<dyn Store>::from(store)));
}

fn claim(stage: &Stage, world: &World, class: &str, id: &str) -> Result<(), ClaimError> {
    stage.passing(world.claim(class, id, &format!("of {}", world.id())))
}

/// Classes and names with who has them.
fn claimed(world: &World, filter: &ClaimFilter) -> Vec<(String, String, u64)> {
    let claims = world.claims(filter).into_iter();
    claims.map(|claim| (claim.class, claim.id, claim.world)).collect()
}

fn all() -> ClaimFilter {
    ClaimFilter::new()
}

// D-084, D-085, D-090, D-091
#[test]
fn a_name_is_of_one_world_until_it_is_given_back() {
    over_both(|stage| {
        let (one, two) = (stage.client("one"), stage.client("two"));
        claim(&stage, &one, "dump", "nightly").unwrap();
        for world in [&one, &two] {
            let taken = claim(&stage, world, "dump", "nightly").unwrap_err();
            assert!(
                matches!(&taken, ClaimError::Taken { world, .. } if *world == one.id()),
                "{taken}"
            );
            assert!(taken.to_string().contains("«one»"), "{taken}");
        }
        // Others of its class, and the same name in another class, are others.
        claim(&stage, &two, "dump", "weekly").unwrap();
        claim(&stage, &two, "load", "nightly").unwrap();
        let refused = stage.passing(two.give_back("dump", "nightly")).unwrap_err();
        assert!(
            matches!(&refused, ClaimError::NotOwned { by: Some(by), .. } if *by == one.id()),
            "{refused}"
        );
        let refused = stage.passing(two.change_claim("dump", "nightly", &1)).unwrap_err();
        assert!(matches!(refused, ClaimError::NotOwned { .. }), "{refused}");
        stage.passing(one.give_back("dump", "nightly")).unwrap();
        let nothing = stage.passing(one.give_back("dump", "nightly")).unwrap_err();
        assert!(nothing.to_string().ends_with("nobody has it"), "{nothing}");
        claim(&stage, &two, "dump", "nightly").unwrap();
        // Whoever knows that a world does not go on takes all that it has.
        assert_eq!(stage.passing(one.release_claims_of(two.id())).unwrap(), 3);
        assert!(claimed(&two, &all()).is_empty());
        claim(&stage, &one, "dump", "nightly").unwrap();
        let unknown = stage.passing(one.release_claims_of(99)).unwrap_err();
        assert!(matches!(unknown, ClaimError::Gone { world: 99 }), "{unknown}");
    });
}

// D-085, D-086, D-087, D-092
#[test]
fn claims_are_found_by_what_they_are_and_keep_what_was_written() {
    over_both(|stage| {
        let (one, two) = (stage.client("one"), stage.client("two"));
        for (world, class, id) in [(&two, "x", "1"), (&one, "x", "2"), (&one, "y", "1")] {
            claim(&stage, world, class, id).unwrap();
        }
        let of = |class: &str, id: &str, world: &World| (class.into(), id.into(), world.id());
        assert_eq!(
            claimed(&two, &all()),
            [of("x", "2", &one), of("y", "1", &one), of("x", "1", &two)]
        );
        assert_eq!(claimed(&two, &all().class("x")), [of("x", "2", &one), of("x", "1", &two)]);
        assert_eq!(claimed(&two, &all().id("1")), [of("y", "1", &one), of("x", "1", &two)]);
        assert_eq!(claimed(&two, &all().world(two.id())), [of("x", "1", &two)]);
        let only = all().class("x").id("1");
        assert_eq!(claimed(&one, &only), [of("x", "1", &two)]);
        assert!(claimed(&one, &only.clone().world(one.id())).is_empty());
        let found = &one.claims(&only)[0];
        assert_eq!((found.data.read::<String>().unwrap(), &found.world_name[..]), {
            (format!("of {}", two.id()), "two")
        });
        stage.passing(two.change_claim("x", "1", &[1, 2, 3])).unwrap();
        assert_eq!(one.claims(&only)[0].data.as_str(), "[1,2,3]");
        stage.passing(two.give_back("x", "1")).unwrap();
        assert!(one.claims(&only).is_empty());
    });
}

// D-082
#[test]
fn a_name_is_had_while_something_is_done_and_given_back_whatever_comes() {
    let stage = Stage::over(MemoryStore::new());
    let (one, two) = (stage.client("one"), stage.client("two"));
    let seen = stage.passing(one.claim_while("dump", "nightly", &(), async {
        let refused = two.claim("dump", "nightly", &()).await;
        (claimed(&two, &all()).len(), refused.is_err())
    }));
    assert_eq!(seen.unwrap(), (1, true));
    assert!(claimed(&two, &all()).is_empty());
    // What it was claimed for is dropped before it is done.
    {
        let never = std::future::pending::<()>();
        let mut dropped = Box::pin(one.claim_while("dump", "nightly", &(), never));
        let mut cx = Context::from_waker(Waker::noop());
        while claimed(&two, &all()).is_empty() {
            assert!(dropped.as_mut().poll(&mut cx).is_pending());
            stage.sim.run_until_idle();
        }
        assert!(dropped.as_mut().poll(&mut cx).is_pending());
    }
    stage.sim.run_until_idle();
    assert!(claimed(&two, &all()).is_empty());
    // What was taken from it meanwhile cannot be given back, and this is said.
    let lost = stage.passing(one.claim_while("dump", "nightly", &(), async {
        two.release_claims_of(one.id()).await.expect("it is there")
    }));
    assert!(matches!(lost, Err(ClaimError::NotOwned { by: None, .. })), "{lost:?}");
}

// D-089
#[test]
fn a_world_that_ends_claims_nothing_new_and_what_it_had_goes_with_it() {
    over_both(|stage| {
        let (first, script) = stage.executor("first");
        let other = stage.client("other");
        claim(&stage, &first, "dump", "nightly").unwrap();
        let (world, seen) = (first.clone(), Arc::new(Mutex::new(Vec::new())));
        let see = Arc::clone(&seen);
        script.on("a", move |_| {
            // The world ends while this code runs: it waits for it.
            let mut ending = Box::pin(world.terminate(Duration::from_secs(10)));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(ending.as_mut().poll(&mut cx).is_pending());
            let mut claiming = Box::pin(world.claim("dump", "weekly", &()));
            let std::task::Poll::Ready(refused) = claiming.as_mut().poll(&mut cx) else {
                panic!("it is refused at once")
            };
            see.lock().unwrap().push(refused.unwrap_err().to_string());
            Ok(Next::Done)
        });
        stage.perform(&first, "a");
        stage.sim.run_until_idle();
        let refused = format!("world {} is ending and claims nothing new", first.id());
        assert_eq!(*seen.lock().unwrap(), [refused]);
        assert_eq!(claimed(&other, &all()).len(), 1, "it has not ended");
        assert!(stage.passing(first.terminate(Duration::from_secs(10))).unwrap());
        assert!(claimed(&other, &all()).is_empty());
        let gone = stage.passing(first.give_back("dump", "nightly")).unwrap_err();
        assert!(matches!(gone, ClaimError::Gone { .. }), "{gone}");
        claim(&stage, &other, "dump", "nightly").unwrap();
    });
}

// D-021, D-022
#[test]
fn claims_of_dead_worlds_go_with_their_records_and_others_stay() {
    over_both(|stage| {
        let (one, two) = (stage.client("one"), stage.client("two"));
        let three = stage.client("three");
        for (world, id) in [(&one, "1"), (&two, "2"), (&three, "3")] {
            claim(&stage, world, "part", id).unwrap();
        }
        stage.net.cut(&one);
        let found = stage.passing(two.check_worlds(Check::Look, None)).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(claimed(&two, &all()).len(), 3, "it was only looked at");
        // An executor that starts asks who is there.
        let _executor = stage.executor("executor");
        let has = |id: &str, world: &World| ("part".to_owned(), id.to_owned(), world.id());
        assert_eq!(claimed(&two, &all()), [has("2", &two), has("3", &three)]);
        // And so does who is told to.
        stage.net.cut(&three);
        let found = stage.passing(two.check_worlds(Check::Invalidate, None)).unwrap();
        let removed: Vec<u64> = found
            .iter()
            .filter(|(_, health)| matches!(health, Health::Invalidated(_)))
            .map(|(world, _)| *world)
            .collect();
        assert_eq!(removed, [three.id()]);
        assert_eq!(claimed(&two, &all()), [has("2", &two)]);
        stage.net.heal();
        let gone = claim(&stage, &one, "part", "1").unwrap_err();
        assert!(matches!(gone, ClaimError::Gone { world } if world == one.id()), "{gone}");
    });
}

#[test]
fn what_was_claimed_before_a_crash_is_there_after_it_until_its_world_is_found_dead() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteStore::new(folder.path().join("plans.db"));
    let stage = Stage::over(open());
    let one = stage.client("one");
    claim(&stage, &one, "dump", "nightly").unwrap();
    let id = one.id();
    drop((one, stage));
    let stage = Stage::over(open());
    let two = stage.client("two");
    assert_eq!(claimed(&two, &all()), [("dump".to_owned(), "nightly".to_owned(), id)]);
    assert_eq!(two.claims(&all())[0].data.as_str(), format!("\"of {id}\""));
    assert!(claim(&stage, &two, "dump", "nightly").is_err());
    let found = stage.passing(two.check_worlds(Check::Invalidate, None)).unwrap();
    assert!(matches!(found[..], [(dead, Health::Invalidated(_))] if dead == id));
    claim(&stage, &two, "dump", "nightly").unwrap();
}

#[test]
fn what_is_too_long_or_too_much_is_refused() {
    use turnwheel_engine::limits::{CLAIMS_MAX, CLAIM_DATA_MAX, CLAIM_NAME_MAX};
    let stage = Stage::over(MemoryStore::new());
    let world = stage.client("one");
    let long = "x".repeat(CLAIM_NAME_MAX);
    let refused = claim(&stage, &world, &long, "x").unwrap_err();
    assert!(matches!(refused, ClaimError::TooLong { what: "name", .. }), "{refused}");
    let data = "x".repeat(CLAIM_DATA_MAX);
    let refused = stage.passing(world.claim("a", "b", &data)).unwrap_err();
    assert!(matches!(refused, ClaimError::TooLong { what: "data", .. }), "{refused}");
    for id in 0..CLAIMS_MAX {
        claim(&stage, &world, "many", &id.to_string()).unwrap();
    }
    let refused = claim(&stage, &world, "many", "more").unwrap_err();
    assert!(matches!(refused, ClaimError::TooMany), "{refused}");
}
