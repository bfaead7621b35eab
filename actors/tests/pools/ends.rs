//! Pools: failed members, and pools that give up, close or are dropped.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_actors::intercept::{Call, Interceptor};
use turnwheel_actors::pool::PoolFailure;
use turnwheel_actors::{Context, Handler, Restart, Routing, System};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, Group, SubmitErrorKind};

use crate::workers::{block, release, workers, Outcome, Who, Worker, SECOND, SEEDS};

struct Panic;

impl Handler<Panic> for Worker {
    type Reply = ();

    fn handle(&mut self, _: Panic, _: &mut Context<'_, Self>) {
        panic!("on purpose");
    }
}

#[test]
fn a_pool_made_or_closed_when_mailboxes_hold_all_they_may_is_looked_after() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.build(Group::builder("pool").memory_budget(200))?;
    let system = System::new(&group);
    let other = group.spawn(())?;
    let fill = || while other.submit(|(), _| ()).is_ok() {};
    let (pool, _) = workers(&system);
    fill();
    let pool = pool.fixed(2).restart(Restart::limited(0, SECOND)).build()?;
    sim.run_until_idle();
    assert_eq!(pool.size(), 2);
    fill();
    let closed = pool.close();
    sim.run_until_idle();
    assert!(closed.is_done(), "its supervisor closes after its members");
    Ok(())
}

#[test]
fn a_member_that_fails_begins_anew_with_its_mailbox_and_its_keys() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, made) = workers(stage.system());
        let pool = pool.fixed(3).build()?;
        stage.run();
        let owner = stage.answer(pool.ask_keyed("a", Who));
        let panicked = pool.ask_keyed("a", Panic);
        let queued = pool.ask_keyed("a", Who);
        assert!(stage.wait(panicked)?.is_err());
        assert_eq!(stage.answer(queued), 4, "a fresh one in the place of {owner}");
        assert_eq!((pool.size(), made.load(Ordering::Relaxed)), (3, 4));
        assert!(pool.members().iter().all(|member| member.in_flight == 0));
    }
    Ok(())
}

#[test]
fn a_member_that_is_lost_for_good_is_replaced_and_the_others_keep_their_keys() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, _) = workers(stage.system());
        // No restart in place: each failure ends a member.
        let policy = Restart::limited(3, 3600 * SECOND);
        let pool = pool.fixed(3).restart(policy).build()?;
        stage.run();
        let keys = 0..60_u32;
        let before: Vec<_> =
            keys.clone().map(|key| stage.answer(pool.ask_keyed(&key, Who))).collect();
        let lost = stage.answer(pool.ask_keyed(&0_u32, Who));
        let (victim, asked) = (pool.members(), block(&pool));
        assert_eq!(victim.len(), 3);
        release(&stage, asked);
        let killed = stage.wait(pool.ask_keyed(&0_u32, Kill))?;
        assert!(killed.is_err());
        stage.run();
        assert_eq!(pool.size(), 3, "replaced without a message that needs it");
        for (key, before) in keys.zip(before) {
            let after = stage.answer(pool.ask_keyed(&key, Who));
            assert_eq!(after == before, before != lost, "key {key}");
        }
    }
    Ok(())
}

/// Ends the member for good.
struct Kill;

impl Handler<Kill> for Worker {
    type Reply = u64;

    fn handle(&mut self, _: Kill, cx: &mut Context<'_, Self>) -> u64 {
        cx.myself().kill().detach();
        panic!("on purpose");
    }
}

#[test]
fn a_pool_whose_members_fail_too_often_gives_up_and_says_why() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, made) = workers(stage.system());
        let policy = Restart::limited(2, 3600 * SECOND);
        let pool = pool.fixed(2).restart(policy).build()?;
        let mut failures = 0;
        while !pool.is_closed() {
            failures += 1;
            assert!(failures < 100, "it gives up");
            if pool.tell(Panic).is_err() {
                break;
            }
            stage.run();
        }
        // Two members restart twice each and fail once more; so do their replacements.
        assert!(made.load(Ordering::Relaxed) >= 8, "{made:?}");
        let error = pool.tell(Who).expect_err("it is closed");
        assert_eq!(error.kind, SubmitErrorKind::Closed);
        let ended = stage.wait(pool.closed())?.expect_err("it has failed");
        let failure = ended.downcast_ref::<PoolFailure>().ok_or("typed")?;
        assert_eq!(failure.pool, "workers");
        assert!(failure.to_string().contains("on purpose"), "{failure}");
        assert_eq!(pool.size(), 0);
    }
    Ok(())
}

#[test]
fn a_pool_closes_in_order_and_a_drain_says_what_was_left() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, _) = workers(stage.system());
        let pool = pool.fixed(3).build()?;
        let calls: Vec<_> = (0..30).map(|_| pool.ask(Who)).collect();
        let closed = pool.close();
        let refused = pool.tell(Who).map_err(|error| error.kind);
        assert_eq!(refused, Err(SubmitErrorKind::Closed));
        stage.wait(closed)??;
        for call in calls {
            stage.answer(call);
        }
        assert!(stage.wait(pool.close())?.is_ok(), "once more changes nothing");

        let (pool, _) = workers(stage.system());
        let pool = pool.fixed(3).build()?;
        let held: Vec<_> = (0..3).map(|_| block(&pool)).collect();
        let queued: Vec<_> = (0..6).map(|_| pool.ask(Who)).collect();
        stage.run();
        let drained = stage.wait(pool.drain(2 * SECOND))?;
        assert_eq!((drained.stopped, drained.left), (3, 6), "{drained:?}");
        assert!(!drained.is_complete());
        for call in queued {
            assert!(stage.wait(call)?.is_err());
        }
        drop(held);

        let (pool, _) = workers(stage.system());
        let pool = pool.fixed(3).build()?;
        pool.tell(Who)?;
        let drained = stage.wait(pool.drain(SECOND))?;
        assert_eq!((drained.complete, drained.is_complete()), (3, true));
        drop(pool);
        stage.assert_empty();
    }
    Ok(())
}

#[test]
fn without_a_handle_the_members_finish_and_close() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, _) = workers(stage.system());
        let pool = pool.growing(0, 4).build()?;
        let calls: Vec<_> = (0..8).map(|_| pool.ask(Who)).collect();
        drop(pool);
        for call in calls {
            stage.answer(call);
        }
        stage.assert_empty();
    }
    Ok(())
}

#[test]
fn a_factory_that_panics_is_a_failure_of_the_pool_and_callers_are_told() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let pool = stage.system().pool(|| -> Worker { panic!("no worker") }).growing(0, 2);
        let pool = pool.restart(Restart::limited(3, 3600 * SECOND)).build()?;
        for _ in 0..10 {
            assert!(stage.wait(pool.ask(Who))?.is_err());
        }
        assert!(pool.is_closed());
        let ended = stage.wait(pool.closed())?.expect_err("it has failed");
        assert!(ended.to_string().contains("no worker"), "{ended}");
    }
    Ok(())
}

/// Notes for each message whether it has a caller.
struct Asked(Arc<Mutex<Vec<bool>>>);

impl Interceptor for Asked {
    type State = ();

    fn begin(&self, call: &mut Call<'_>) -> Result<(), Failure> {
        self.0.lock().push(call.is_ask());
        Ok(())
    }
}

#[test]
fn interceptors_are_around_what_members_handle_and_tell_a_tell_from_a_call() -> Outcome {
    for routing in [Routing::RoundRobin, Routing::LeastLoaded] {
        let stage = Stage::fifo();
        let seen = Arc::default();
        let (pool, _) = workers(stage.system());
        let pool = pool.fixed(2).routing(routing).intercept(Asked(Arc::clone(&seen))).build()?;
        pool.tell(Who)?;
        stage.run();
        stage.answer(pool.ask(Who));
        assert_eq!(*seen.lock(), [false, true]);
    }
    Ok(())
}
