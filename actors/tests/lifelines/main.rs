//! Ends that concern others: children, watchers, links, drains.

mod backlog;
mod entities;
mod nodes;
mod pauses;
mod restarts;
mod supervision;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use nodes::{
    Fault, Hang, Node, Note, OnPurpose, Outcome, Panic, Scene, Told, WatchIt, SECOND, SEEDS,
};
use parking_lot::Mutex;
use turnwheel_actors::supervise::{LinkBroken, DRAIN_GRACE};
use turnwheel_actors::{Actor, Address, Context, Exit, Handler, Restart};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, Phase};

#[test]
fn children_close_in_reverse_order_before_their_parent() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        for is_stop in [false, true] {
            let parent = scene.spawn(scene.node("p").brood(&["a", "b", "c"]));
            scene.journal.take();
            let closed = if is_stop { parent.stop() } else { parent.close() };
            scene.sim.block_on(closed)??;
            let expected = [
                "closing c",
                "closed c",
                "closing b",
                "closed b",
                "closing a",
                "closed a",
                "closing p",
                "closed p",
            ];
            assert_eq!(scene.journal.take(), expected, "seed {seed}");
        }
    }
    Ok(())
}

#[test]
fn children_of_a_parent_that_fails_or_does_not_start_end_too() -> Outcome {
    let ends = ["closing b", "closed b", "closing a", "closed a"];
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let parent = scene.spawn(scene.node("p").brood(&["a", "b"]));
        scene.journal.take();
        assert!(scene.sim.block_on(parent.kill())?.is_err());
        scene.sim.run_until_idle();
        let journal = scene.journal.take();
        assert!(journal.contains(&"failed p".to_owned()));
        let children: Vec<_> = journal.into_iter().filter(|entry| !entry.ends_with('p')).collect();
        assert_eq!(children, ends);

        let late = scene.spawn(scene.node("p").brood(&["a", "b"]).fault(Fault::StartError));
        assert_eq!(late.phase(), Phase::Failed);
        let journal = scene.journal.take();
        for name in ["a", "b"] {
            assert!(journal.contains(&format!("closed {name}")), "{journal:?}");
        }
    }
    Ok(())
}

#[test]
fn a_child_that_hangs_is_stopped_at_its_limit() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let child = scene.spawn(scene.node("a"));
        child.tell(Hang)?;
        child.tell(Note(1))?;
        let parent = scene.spawn(scene.node("p"));
        let adopted = child.clone();
        scene.sim.block_on(parent.with(move |_, cx| cx.adopt(&adopted, 3 * SECOND)))??;
        let closed = parent.close();
        scene.sim.advance(2 * SECOND);
        assert!(!closed.is_done(), "the child has its limit");
        scene.sim.advance(SECOND + DRAIN_GRACE);
        assert!(closed.is_done());
        let journal = scene.journal.take();
        assert!(!journal.contains(&"1 a".to_owned()), "skipped: {journal:?}");
        assert_eq!(journal.last().map(String::as_str), Some("closed p"));
    }
    Ok(())
}

#[test]
fn a_restarted_parent_ends_the_children_of_the_former() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let journal = scene.journal.clone();
        let make = move || Node::new("p", &journal).brood(&["a"]);
        let parent = scene.system.actor(make()).restart(Restart::default(), make).spawn()?;
        scene.sim.run_until_idle();
        scene.journal.take();
        parent.tell(Panic)?;
        parent.tell(Note(7))?;
        scene.sim.run_until_idle();
        let journal = scene.journal.take();
        assert_eq!(&journal[..4], ["failed p", "closing a", "closed a", "start p"]);
        let rest = &journal[4..];
        assert!(rest.contains(&"7 p".to_owned()) && rest.contains(&"start a".to_owned()));
    }
    Ok(())
}

#[test]
fn a_watcher_is_told_once_also_of_what_is_over() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let watcher = scene.spawn(scene.node("w"));
        let (closes, fails) = (scene.spawn(scene.node("c")), scene.spawn(scene.node("f")));
        watcher.tell(WatchIt("c", closes.clone()))?;
        watcher.tell(WatchIt("f", fails.clone()))?;
        scene.sim.run_until_idle();
        scene.journal.take();
        scene.sim.block_on(closes.close())??;
        assert!(scene.sim.block_on(fails.kill())?.is_err());
        watcher.tell(WatchIt("late", fails.clone()))?;
        scene.sim.run_until_idle();
        let told: Vec<_> =
            scene.journal.take().into_iter().filter(|entry| entry.ends_with(": w")).collect();
        let mut sorted = told.clone();
        sorted.sort();
        assert_eq!(sorted, ["c closed: w", "f failed: w", "late failed: w"], "{told:?}");
        assert_eq!(watcher.phase(), Phase::Started);
    }
    Ok(())
}

/// Watches another from its starting hook.
struct Early(Address<Node>, Arc<Mutex<u32>>);

impl Actor for Early {
    type Error = OnPurpose;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), OnPurpose> {
        let other = self.0.clone();
        cx.watch(&other, |exit| Told("other", exit));
        Ok(())
    }
}

impl Handler<Told> for Early {
    type Reply = ();

    fn handle(&mut self, _: Told, _: &mut Context<'_, Self>) {
        *self.1.lock() += 1;
    }
}

#[test]
fn a_watch_from_the_starting_hook_does_not_hold_the_start() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let other = scene.spawn(scene.node("o"));
        let told = Arc::new(Mutex::new(0));
        let early = scene.system.spawn(Early(other.clone(), Arc::clone(&told)))?;
        scene.sim.block_on(early.started())??;
        scene.sim.block_on(other.close())??;
        scene.sim.run_until_idle();
        assert_eq!(*told.lock(), 1);
        scene.sim.block_on(early.close())??;
    }
    Ok(())
}

#[test]
fn a_link_takes_a_failure_over_both_ways_but_no_orderly_end() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        for first_fails in [true, false] {
            let (one, two) = (scene.spawn(scene.node("1")), scene.spawn(scene.node("2")));
            drop(one.link(&two));
            let (killed, other) = if first_fails { (&one, &two) } else { (&two, &one) };
            killed.kill().detach();
            let failure = scene.sim.block_on(other.closed())?.expect_err("linked");
            let broken = failure.downcast_ref::<LinkBroken>().ok_or("another failure")?;
            assert!(matches!(broken.failure, Failure::Killed));
            // An actor that is over fails the other at once.
            let third = scene.spawn(scene.node("3"));
            drop(third.link(killed));
            assert!(scene.sim.block_on(third.closed())?.is_err());
        }
        let (one, two) = (scene.spawn(scene.node("1")), scene.spawn(scene.node("2")));
        drop(one.link(&two));
        scene.sim.block_on(one.close())??;
        scene.sim.run_until_idle();
        assert_eq!(two.phase(), Phase::Started, "an orderly end is no failure");
        let three = scene.spawn(scene.node("3"));
        two.link(&three).unlink();
        assert!(scene.sim.block_on(two.kill())?.is_err());
        scene.sim.run_until_idle();
        assert_eq!(three.phase(), Phase::Started, "the link was cut");
    }
    Ok(())
}

#[test]
fn a_ring_of_links_fails_as_one() -> Outcome {
    const RING: usize = 50;
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let ring: Vec<_> = (0..RING).map(|at| scene.spawn(scene.node(&at.to_string()))).collect();
        for at in 0..RING {
            drop(ring[at].link(&ring[(at + 1) % RING]));
        }
        ring[7].kill().detach();
        scene.sim.run_until_idle();
        assert!(ring.iter().all(|node| node.phase() == Phase::Failed));
    }
    Ok(())
}

/// Lets time pass until the future is done.
fn finish<F: Future>(sim: &Sim, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        match sim.block_on(future.as_mut()) {
            Ok(output) => return output,
            Err(stuck) => assert!(sim.advance_to_next_timer(), "{stuck}"),
        }
    }
}

#[test]
fn a_drain_says_what_was_left() -> Outcome {
    for seed in 0..SEEDS {
        let scene = Scene::new(seed);
        let quick = scene.spawn(scene.node("q"));
        for number in 0..10 {
            quick.tell(Note(number))?;
        }
        let drained = scene.sim.block_on(quick.drain(SECOND))?;
        assert!(drained.is_complete(), "{drained:?}");
        assert!(quick.tell(Note(11)).is_err());

        let hung = scene.spawn(scene.node("h"));
        hung.tell(Hang)?;
        for number in 0..3 {
            hung.tell(Note(number))?;
        }
        scene.journal.take();
        let drained = finish(&scene.sim, hung.drain(SECOND));
        assert!(!drained.is_complete());
        assert_eq!(drained.left, 3, "{drained:?}");
        assert!(matches!(drained.exit, Some(Exit::Closed)) && !drained.was_killed);
        assert_eq!(scene.journal.take(), ["closing h", "closed h"]);

        let stuck = scene.spawn(scene.node("s").fault(Fault::CloseHang));
        let drained = finish(&scene.sim, stuck.drain(SECOND));
        assert!(drained.was_stopped && !drained.is_complete(), "{drained:?}");
        assert_eq!(drained.left, 0);
    }
    Ok(())
}
