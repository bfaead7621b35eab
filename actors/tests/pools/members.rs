//! Pools: routing, growing and shrinking.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::Duration;

use turnwheel_actors::intercept::{Call, Interceptor};
use turnwheel_actors::pool::{PoolError, POOL_MEMBERS_MAX};
use turnwheel_actors::{
    AskError, AsyncContext, AsyncHandler, Context, Handler, InterleavedHandler, Pool, Routing,
    System, Topic, TopicOverflow,
};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{
    Completion, Failure, Group, Mailbox, Pinning, SpawnErrorKind, SubmitErrorKind,
};

use crate::workers::{block, release, workers, Outcome, Who, Worker, SECOND, SEEDS};

/// As `Block`, beside other messages.
struct Overlap(Completion<()>);

impl InterleavedHandler<Overlap> for Worker {
    type Reply = u64;

    fn handle(
        &mut self,
        Overlap(go): Overlap,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = u64> + Send + 'static {
        let number = self.number;
        async move {
            go.await.expect("the test lets go");
            number
        }
    }
}

struct CloseYourself;

impl Handler<CloseYourself> for Worker {
    type Reply = u64;

    fn handle(&mut self, _: CloseYourself, cx: &mut Context<'_, Self>) -> u64 {
        cx.close();
        self.number
    }
}

/// Calls its own pool from within.
struct CallOthers(Pool<Worker>);

impl AsyncHandler<CallOthers> for Worker {
    type Reply = Result<u64, Vec<String>>;

    async fn handle(
        &mut self,
        CallOthers(pool): CallOthers,
        _: AsyncContext<Self>,
    ) -> Result<u64, Vec<String>> {
        match pool.ask(Who).await {
            Ok(number) => Ok(number),
            Err(AskError::Cycle { chain, message: Some(Who) }) => Err(chain),
            Err(error) => panic!("{error}"),
        }
    }
}

// O-T101
#[test]
fn sequential_calls_use_one_member() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, made) = workers(stage.system());
        let pool = pool.growing(0, 8).build()?;
        assert_eq!(pool.size(), 0, "none before the first message");
        for _ in 0..50 {
            assert_eq!(stage.answer(pool.ask(Who)), 1);
            let held = block(&pool);
            stage.run();
            assert_eq!(release(&stage, held), 1);
            pool.tell(Who)?;
            stage.run();
        }
        assert_eq!((pool.size(), made.load(Ordering::Relaxed)), (1, 1));
        drop(pool);
        stage.assert_empty();
    }
    Ok(())
}

// O-T102
#[test]
fn blocked_calls_make_one_member_after_the_other_up_to_the_limit() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, made) = workers(stage.system());
        let pool = pool.growing(0, 4).build()?;
        let mut held = Vec::new();
        for size in 1..=4 {
            held.push(block(&pool));
            assert_eq!(pool.size(), size);
            // Whether the members have begun or not makes no difference.
            if seed % 2 == 0 {
                stage.run();
            }
        }
        stage.run();
        for _ in 0..8 {
            held.push(block(&pool));
        }
        assert_eq!(pool.size(), 4, "not one above the limit");
        stage.run();
        let loads: Vec<_> = pool.members().iter().map(|member| member.in_flight).collect();
        assert_eq!(loads, [3, 3, 3, 3], "the shortest queue gets the next");
        for (_, go) in &held {
            go.complete(()).map_err(|_| "once")?;
        }
        let mut answers: Vec<_> = held.into_iter().map(|(ask, _)| stage.answer(ask)).collect();
        answers.sort_unstable();
        assert_eq!(answers, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
        assert_eq!(made.load(Ordering::Relaxed), 4);
        assert!(pool.members().iter().all(|member| member.in_flight == 0));
    }
    Ok(())
}

/// One member handles one call at a time, unless its handler lets others in.
// O-T029, O-T030
#[test]
fn calls_overlap_in_one_member_only_if_its_handler_admits_others() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, _) = workers(stage.system());
        let pool = pool.growing(0, 1).build()?;
        let (first, second) = (completion(), completion());
        let ask = pool.ask(Overlap(first.1));
        let later = pool.ask(Overlap(second.1));
        second.0.complete(()).map_err(|_| "once")?;
        assert_eq!(stage.answer(later), 1, "the second ends while the first waits");
        first.0.complete(()).map_err(|_| "once")?;
        assert_eq!(stage.answer(ask), 1);

        let (ask, go) = block(&pool);
        let (later, later_go) = block(&pool);
        later_go.complete(()).map_err(|_| "once")?;
        stage.run();
        assert_eq!(pool.members()[0].in_flight, 2, "the second waits for the first");
        go.complete(()).map_err(|_| "once")?;
        assert_eq!((stage.answer(ask), stage.answer(later)), (1, 1));
    }
    Ok(())
}

#[test]
fn members_above_the_least_number_end_when_idle_and_busy_ones_stay() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, made) = workers(stage.system());
        let pool = pool.growing(1, 4).idle_limit(10 * SECOND).build()?;
        let mut held: Vec<_> = (0..4).map(|_| block(&pool)).collect();
        stage.advance(60 * SECOND);
        assert_eq!(pool.size(), 4, "all are busy, for however long");
        let busy = held.split_off(2);
        for one in held {
            release(&stage, one);
        }
        stage.advance(9 * SECOND);
        assert_eq!(pool.size(), 4);
        stage.advance(2 * SECOND);
        assert_eq!(pool.size(), 2);
        for one in busy {
            release(&stage, one);
        }
        stage.advance(60 * SECOND);
        assert_eq!(pool.size(), 1, "the least number stays");
        assert_eq!(made.load(Ordering::Relaxed), 4);
        assert_eq!(stage.left().len(), 2, "the member and the supervisor");
    }
    Ok(())
}

// O-T106
#[test]
fn a_late_message_and_a_fresh_call_find_the_one_successor() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, made) = workers(stage.system());
        let pool = pool.growing(0, 1).idle_limit(SECOND).build()?;
        assert_eq!(stage.answer(pool.ask(Who)), 1);
        // It ends while the pool still lists it: the messages below are late deliveries to it.
        let ended = pool.ask(CloseYourself);
        while pool.members().iter().any(|member| !member.phase.is_over()) {
            assert!(stage.sim().run_one(), "it ends");
        }
        assert_eq!(stage.answer(ended), 1);
        pool.tell(Who)?;
        let fresh = pool.ask(Who);
        assert_eq!(stage.answer(fresh), 2);
        assert_eq!(made.load(Ordering::Relaxed), 2, "one successor for both");

        // The last one ends of idleness, and nothing is left of it.
        stage.advance(10 * SECOND);
        assert_eq!(pool.size(), 0);
        assert_eq!(stage.left().len(), 1, "the supervisor alone");
        let (late, fresh) = (pool.ask(Who), pool.ask(Who));
        assert_eq!((stage.answer(late), stage.answer(fresh)), (3, 3));
        assert!(stage.dead_letters().is_empty());
        drop(pool);
        stage.assert_empty();
    }
    Ok(())
}

#[test]
fn members_that_close_themselves_under_load_lose_nothing() -> Outcome {
    const SENDERS: u64 = 4;
    const CALLS: u64 = 500;
    for workers_count in [1, 2, 4] {
        let group = Group::builder("pool").workers(workers_count).pinning(Pinning::None).build()?;
        let system = System::new(&group);
        let (pool, _) = workers(&system);
        let pool = pool.growing(0, 3).build()?;
        let answered: u64 = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..SENDERS)
                .map(|sender| {
                    let pool = &pool;
                    scope.spawn(move || {
                        let mut answered = 0;
                        for call in 0..CALLS {
                            let answer = if (call + sender) % 10 == 0 {
                                pool.ask(CloseYourself).wait().ok()
                            } else {
                                pool.ask(Who).wait().ok()
                            };
                            answered += u64::from(answer.is_some());
                        }
                        answered
                    })
                })
                .collect();
            senders.into_iter().map(|sender| sender.join().expect("it does not panic")).sum()
        });
        assert_eq!(answered, SENDERS * CALLS);
        assert_eq!(system.dead_letters(), 0);
        pool.close().wait()?;
        group.shutdown()?;
    }
    Ok(())
}

#[test]
fn what_is_sent_while_idle_members_are_ended_arrives() -> Outcome {
    const SENDERS: u64 = 4;
    const CALLS: u64 = 2_000;
    for workers_count in [1, 2, 4] {
        let group = Group::builder("pool").workers(workers_count).pinning(Pinning::None).build()?;
        let system = System::new(&group);
        let (pool, _) = workers(&system);
        // Idle at once: each look of the pool ends all that have nothing to do at that moment.
        let pool = pool.growing(0, 8).idle_limit(Duration::ZERO).build()?;
        std::thread::scope(|scope| {
            for _ in 0..SENDERS {
                scope.spawn(|| {
                    for _ in 0..CALLS {
                        pool.ask(Who).wait().expect("some member answers");
                        pool.tell(Who).expect("some member takes it");
                    }
                });
            }
        });
        pool.close().wait()?;
        assert_eq!(system.dead_letters(), 0);
        group.shutdown()?;
    }
    Ok(())
}

#[test]
fn round_robin_goes_around_passes_over_who_is_full_and_gives_back_what_nobody_takes() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, _) = workers(stage.system());
        let pool = pool.fixed(3).routing(Routing::RoundRobin).mailbox(Mailbox::bounded(2));
        let pool = pool.build()?;
        let mut numbers = BTreeSet::new();
        let calls: Vec<_> = (0..3).map(|_| pool.ask(Who)).collect();
        for call in calls {
            numbers.insert(stage.answer(call));
        }
        assert_eq!(numbers.len(), 3, "each one once");
        for _ in 0..6 {
            pool.tell(Who)?;
        }
        assert_eq!(pool.tell(Who).map_err(|error| error.kind), Err(SubmitErrorKind::Full));
        let refused = stage.wait(pool.ask(Who))?;
        assert!(refused.is_err_and(|error| error.is_full() && error.into_message().is_some()));
        assert_eq!(stage.dead_letters().len(), 2, "a member that is passed over loses nothing");
        assert!(stage.dead_letters().iter().all(|letter| letter.recipient == "workers"));
        stage.run();
        pool.tell_urgent(Who)?;
        let broadcast = pool.broadcast(&Who);
        assert_eq!((broadcast.delivered, broadcast.refused), (3, 0));
    }
    Ok(())
}

#[test]
fn a_key_stays_with_its_member_and_few_move_when_there_is_one_more() -> Outcome {
    const KEYS: u32 = 400;
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, _) = workers(stage.system());
        let pool = pool.growing(4, 5).idle_limit(Duration::MAX).build()?;
        // Not the numbers of the workers: they are made in any order.
        let spread = || -> Vec<u64> {
            (0..KEYS).map(|key| stage.answer(pool.ask_keyed(&key, Who))).collect()
        };
        let before = spread();
        assert_eq!(spread(), before);
        for number in 1..=4 {
            let share = before.iter().filter(|member| **member == number).count();
            assert!((50..=150).contains(&share), "member {number} has {share} of {KEYS}");
        }
        let held: Vec<_> = (0..5).map(|_| block(&pool)).collect();
        assert_eq!(pool.size(), 5);
        for one in held {
            release(&stage, one);
        }
        let after = spread();
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        let moved: Vec<_> = moved.map(|(_, after)| *after).collect();
        assert!(moved.iter().all(|member| *member == 5), "keys move to the new one only");
        assert!((40..=140).contains(&moved.len()), "{} of {KEYS} moved", moved.len());
        // Text and its owned form are one key.
        let (text, owned) = (pool.ask_keyed("a", Who), pool.ask_keyed(&"a".to_owned(), Who));
        assert_eq!(stage.answer(text), stage.answer(owned));
    }
    Ok(())
}

#[test]
fn a_member_that_is_full_does_not_hand_its_keys_on() -> Outcome {
    let stage = Stage::fifo();
    let (pool, _) = workers(stage.system());
    let pool = pool.fixed(4).mailbox(Mailbox::bounded(1)).build()?;
    pool.tell_keyed("a", Who)?;
    let refused = pool.tell_keyed("a", Who).map_err(|error| error.kind);
    assert_eq!(refused, Err(SubmitErrorKind::Full));
    Ok(())
}

#[test]
fn a_call_of_a_member_goes_to_the_others_and_is_a_cycle_if_there_is_none() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        for routing in [Routing::RoundRobin, Routing::LeastLoaded] {
            let (pool, _) = workers(stage.system());
            let pool = pool.fixed(2).routing(routing).build()?;
            for _ in 0..4 {
                assert!(stage.answer(pool.ask(CallOthers(pool.clone()))).is_ok());
            }
            let (alone, _) = workers(stage.system());
            let alone = alone.fixed(1).routing(routing).build()?;
            let chain = stage.answer(alone.ask(CallOthers(alone.clone())));
            assert_eq!(chain, Err(vec!["workers#0".to_owned(), "workers".to_owned()]));
            assert_eq!(stage.answer(alone.ask(Who)), 1);
            assert_eq!(alone.members()[0].in_flight, 0);
        }
    }
    Ok(())
}

#[test]
fn a_pool_subscribes_to_a_topic_and_waits_for_a_place_at_any_member() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (pool, _) = workers(stage.system());
        let pool = pool.fixed(2).mailbox(Mailbox::bounded(1)).build()?;
        let topic = Topic::new();
        topic.subscribe(pool.recipient(), TopicOverflow::Wait);
        let held: Vec<_> = (0..2).map(|_| block(&pool)).collect();
        stage.run();
        let accepted: Vec<_> = (0..5).map(|_| topic.publish_accepted(&Who)).collect();
        stage.run();
        let done = accepted.iter().filter(|one| one.is_done()).count();
        assert_eq!(done, 2, "each member has one place");
        for one in held {
            release(&stage, one);
        }
        for one in accepted {
            assert_eq!(stage.wait(one)??.delivered, 1);
        }
        stage.run();
        assert!(pool.members().iter().all(|member| member.in_flight == 0));
        assert_eq!(topic.missed(), 0);
        assert!(stage.wait(pool.callee().ask(Who))?.is_ok());
    }
    Ok(())
}

#[test]
fn sizes_that_cannot_be_are_refused() -> Outcome {
    let stage = Stage::fifo();
    let pool = || workers(stage.system()).0;
    let name = || "workers".to_owned();
    assert_eq!(pool().fixed(0).build().err(), Some(PoolError::NoMembers { name: name() }));
    let max = POOL_MEMBERS_MAX + 1;
    let too_many = Some(PoolError::TooManyMembers { name: name(), max });
    assert_eq!(pool().fixed(max).build().err(), too_many);
    let (min, max) = (3, 2);
    let inverted = Some(PoolError::LeastAboveMost { name: name(), min, max });
    assert_eq!(pool().growing(min, max).build().err(), inverted);
    let error = pool().growing(0, 2).mailbox(Mailbox::bounded(0)).build().err().ok_or("refused")?;
    let kind = SpawnErrorKind::NoMailbox;
    assert_eq!(error, PoolError::NotSpawned { name: name(), kind });
    assert!(error.to_string().contains("workers"));

    // By default one for each worker of the group.
    let sim = Sim::builder().workers(3).build();
    let stage = Stage::on(&sim);
    let pool = workers(stage.system()).0.build()?;
    let held: Vec<_> = (0..9).map(|_| block(&pool)).collect();
    assert_eq!(pool.size(), 3);
    drop(held);

    let group = Group::builder("ended").workers(1).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let pool = workers(&system).0.fixed(1).build()?;
    group.shutdown()?;
    let refused = pool.tell(Who).map_err(|error| error.kind);
    assert_eq!(refused, Err(SubmitErrorKind::Closed));
    assert!(workers(&system).0.fixed(1).build().is_err());
    Ok(())
}

/// Looks at outgoing messages, and lets them pass.
struct Look;

impl Interceptor for Look {
    type State = ();

    fn begin(&self, _: &mut Call<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn a_member_that_calls_its_pool_of_one_is_told_the_cycle_also_with_interceptors() -> Outcome {
    let sim = Sim::fifo();
    let system = System::builder(&sim.group("cpu")).intercept_outgoing(Look).build();
    let (pool, _) = workers(&system);
    let pool = pool.fixed(1).build()?;
    let chain = sim.block_on(pool.ask(CallOthers(pool.clone())))??.expect_err("a cycle");
    assert_eq!(chain, ["workers#0", "workers"]);
    assert_eq!(sim.now(), Duration::ZERO);
    Ok(())
}
