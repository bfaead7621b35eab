//! Routers: which of several actors gets a message.

use std::collections::BTreeMap;

use turnwheel_actors::{Address, Recipient, Router, RouterFull, Routing, ROUTEES_MAX};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::{Mailbox, SubmitErrorKind};

use crate::workers::{block, release, workers, Outcome, Who, Worker, SECOND, SEEDS};

fn worker(stage: &Stage<'_>, number: u64) -> Result<Address<Worker>, Box<dyn std::error::Error>> {
    Ok(stage.system().actor(Worker { number }).mailbox(Mailbox::bounded(2)).spawn()?)
}

#[test]
fn by_turn_each_gets_as_many_and_who_is_full_is_passed_over() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let router: Router<Recipient<Who>> = Router::new(Routing::RoundRobin);
        let alone = router.tell(Who).expect_err("nobody is there");
        assert_eq!(alone.kind, SubmitErrorKind::Closed);
        let actors = [worker(&stage, 1)?, worker(&stage, 2)?, worker(&stage, 3)?];
        for actor in &actors {
            router.add(actor.recipient())?;
        }
        for _ in 0..3 {
            router.tell(Who)?;
        }
        assert!(actors.iter().all(|actor| actor.queue_len() == 1));
        actors[0].tell(Who)?;
        for _ in 0..2 {
            router.tell(Who)?;
        }
        assert!(actors.iter().all(|actor| actor.queue_len() == 2));
        let full = router.tell(Who).expect_err("all are full");
        assert_eq!(full.kind, SubmitErrorKind::Full);
        assert_eq!(stage.dead_letters().len(), 1);
        stage.run();
        let broadcast = router.broadcast(&Who);
        assert_eq!((broadcast.delivered, broadcast.refused), (3, 0));
    }
    Ok(())
}

#[test]
fn the_one_with_the_least_to_do_is_chosen() -> Outcome {
    let stage = Stage::fifo();
    let router = Router::new(Routing::LeastLoaded);
    let actors = [worker(&stage, 1)?, worker(&stage, 2)?];
    for actor in &actors {
        router.add(actor.clone())?;
    }
    actors[0].tell(Who)?;
    assert!(router.choose().ok_or("two are there")? == actors[1]);
    actors[1].tell(Who)?;
    actors[1].tell(Who)?;
    assert!(router.choose().ok_or("two are there")? == actors[0]);
    Ok(())
}

#[test]
fn a_key_stays_with_its_actor_and_the_end_of_another_moves_no_other_keys() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let router = Router::new(Routing::RoundRobin);
        let mut actors = BTreeMap::new();
        for number in 1..=4 {
            let actor = worker(&stage, number)?;
            router.add(actor.callee::<Who, _>())?;
            actors.insert(number, actor);
        }
        let owner = |key: u32| stage.answer(router.ask_keyed(&key, Who));
        let before: Vec<_> = (0..100).map(owner).collect();
        let lost = before[0];
        stage.wait(actors[&lost].close())??;
        for (key, before) in (0..100).zip(before) {
            let after = owner(key);
            assert_eq!(after == before, before != lost, "key {key}");
        }
        assert_eq!(router.all().len(), 3);
    }
    Ok(())
}

#[test]
fn pools_are_chosen_among_too_and_places_are_given_back_and_bounded() -> Outcome {
    let stage = Stage::fifo();
    let router = Router::new(Routing::LeastLoaded);
    let (first, second) = (workers(stage.system()).0, workers(stage.system()).0);
    let (first, second) = (first.fixed(1).build()?, second.fixed(1).build()?);
    router.add(first.clone())?;
    let id = router.add(second.clone())?;
    let held = block(&first);
    stage.run();
    first.tell(Who)?;
    assert_eq!(stage.answer(router.choose().ok_or("there")?.ask_within(Who, SECOND)), 1);
    assert_eq!((first.queue_len(), second.queue_len()), (1, 0));
    release(&stage, held);
    assert!(router.remove(id));
    assert!(!router.remove(id));
    for _ in 1..ROUTEES_MAX {
        router.add(first.clone())?;
    }
    assert_eq!(router.add(first.clone()), Err(RouterFull));
    drop((router, first, second));
    stage.assert_empty();
    Ok(())
}
