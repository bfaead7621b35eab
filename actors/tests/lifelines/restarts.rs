//! Restarts of one actor, and panics in its hooks.

use crate::nodes::{Fault, Journal, Node, Note, Outcome, Panic, Scene, SECOND, SEEDS};
use turnwheel_actors::{Restart, System};
use turnwheel_runtime::{Backoff, Failure, Group};

#[test]
fn a_restart_keeps_the_mailbox_and_messages_wait_out_the_pause() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let journal = scene.journal.clone();
        let policy = Restart::limited(1, 60 * SECOND).backoff(Backoff::constant(SECOND));
        let make = move || Node::new("r", &journal);
        let node = scene.system.actor(make()).restart(policy, make).spawn()?;
        node.tell(Panic)?;
        node.tell(Note(1))?;
        node.tell(Note(2))?;
        scene.sim.advance(SECOND / 2);
        assert_eq!(scene.journal.take(), ["start r", "failed r"]);
        scene.sim.advance(SECOND);
        assert_eq!(scene.journal.take(), ["start r", "1 r", "2 r"]);
        node.tell(Panic)?;
        let failure = scene.sim.block_on(node.closed())?.expect_err("once too often");
        assert!(matches!(failure, Failure::Panicked(_)));
    }
    Ok(())
}

#[test]
fn an_actor_without_a_factory_stops_at_its_first_panic() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let node = scene.system.spawn(scene.node("r"))?;
        node.tell(Panic)?;
        node.tell(Note(1))?;
        scene.sim.block_on(node.closed())?.expect("it stops, and does not fail");
        assert_eq!(
            scene.journal.take(),
            ["start r", "closing r", "closed r"],
            "Note is not handled"
        );
    }
    Ok(())
}

#[test]
fn a_stop_in_the_pause_does_not_wait_for_it() -> Outcome {
    let scene = Scene::new(2);
    let journal = scene.journal.clone();
    let policy = Restart::endless().backoff(Backoff::constant(3_600 * SECOND));
    let make = move || Node::new("r", &journal);
    let node = scene.system.actor(make()).restart(policy, make).spawn()?;
    node.tell(Panic)?;
    scene.sim.run_until_idle();
    let stopped = node.stop();
    scene.sim.run_until_idle();
    assert!(stopped.is_done());
    assert_eq!(scene.journal.take(), ["start r", "failed r"]);
    Ok(())
}

#[test]
fn a_restart_that_does_not_succeed_fails_the_actor() -> Outcome {
    for fault in [Fault::StartError, Fault::StartPanic] {
        let scene = Scene::new(4);
        let journal = scene.journal.clone();
        let make = move || Node::new("r", &journal).fault(fault);
        let restarted = scene.system.actor(scene.node("r")).restart(Restart::default(), make);
        let node = restarted.spawn()?;
        node.tell(Panic)?;
        node.tell(Note(1))?;
        assert!(scene.sim.block_on(node.closed())?.is_err(), "{fault:?}");
        assert!(!scene.journal.take().contains(&"1 r".to_owned()));
    }
    let scene = Scene::new(4);
    let node = scene.system.actor(scene.node("r"));
    let node = node.restart(Restart::default(), || panic!("no factory")).spawn()?;
    node.tell(Panic)?;
    assert!(scene.sim.block_on(node.closed())?.is_err());
    Ok(())
}

#[test]
fn a_panic_in_any_hook_ends_that_actor_and_no_other() -> Outcome {
    let faults = [
        (Fault::StartError, false),
        (Fault::StartPanic, false),
        (Fault::CloseError, false),
        (Fault::ClosePanic, false),
        (Fault::EndPanic, false),
        (Fault::PolicyPanic, true),
    ];
    for workers in [1, 2, 4] {
        let group = Group::builder("hooks").workers(workers).build()?;
        let system = System::new(&group);
        let journal = Journal::default();
        let bystander = system.spawn(Node::new("by", &journal))?;
        for (fault, panics) in faults {
            let parent = system.spawn(Node::new("p", &journal).fault(fault).brood(&["a"]))?;
            if panics {
                parent.tell(Panic)?;
            }
            let outcome = parent.close().wait();
            assert!(outcome.is_err(), "{fault:?} went unseen");
        }
        bystander.ask(Note(1)).wait()?;
        bystander.close().wait()?;
        // Children whose parent could not wait for them are gone too.
        group.shutdown()?;
        let journal = journal.take();
        let count = |what: &str| journal.iter().filter(|entry| *entry == what).count();
        assert_eq!(count("start a"), count("closed a"));
        assert!(count("start a") >= 4);
    }
    Ok(())
}

#[test]
fn pauses_longer_than_the_quiet_time_grow_too() -> Outcome {
    let scene = Scene::new(5);
    let journal = scene.journal.clone();
    let policy = Restart::endless().backoff(Backoff::exponential(30 * SECOND, 3_600 * SECOND));
    let make = move || Node::new("r", &journal);
    let node = scene.system.actor(make()).restart(policy, make).spawn()?;
    for pause in [30, 60, 120, 240, 480] {
        node.tell(Panic)?;
        scene.sim.run_until_idle();
        scene.journal.take();
        scene.sim.advance((pause - 1) * SECOND);
        assert!(scene.journal.take().is_empty(), "{pause} s");
        scene.sim.advance(SECOND);
        assert_eq!(scene.journal.take(), ["start r"], "{pause} s");
    }
    // A quiet time, and they begin anew.
    scene.sim.advance(60 * SECOND);
    node.tell(Panic)?;
    scene.sim.advance(30 * SECOND);
    assert_eq!(scene.journal.take(), ["failed r", "start r"]);
    Ok(())
}

#[test]
fn urgent_messages_come_first_after_a_restart_too() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let journal = scene.journal.clone();
        let policy = Restart::endless().backoff(Backoff::constant(SECOND));
        let make = move || Node::new("r", &journal);
        let node = scene.system.actor(make()).restart(policy, make).spawn()?;
        node.tell(Panic)?;
        node.tell(Note(1))?;
        scene.sim.run_until_idle();
        node.tell_urgent(Note(8))?;
        node.tell_urgent(Note(9))?;
        scene.sim.run_until_idle();
        assert_eq!(scene.journal.take(), ["start r", "failed r"]);
        scene.sim.advance(SECOND);
        assert_eq!(scene.journal.take(), ["start r", "8 r", "9 r", "1 r"], "seed {seed}");
    }
    Ok(())
}
