//! Deadlines of calls: on every executor, for piped answers, shrinking along a chain, under one
//! timer, and reported with the place where the time went.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poll1, Poll, Waker};
use std::time::Duration;

use turnwheel_actors::{
    Actor, Address, Ask, AskError, AsyncContext, AsyncHandler, Context, Handler, ReplyHandler,
    ReplyTo, System, TimeSpent,
};
use turnwheel_extras::OffsetClock;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

/// Keeps its callers waiting.
#[derive(Default)]
struct Silent {
    kept: Vec<ReplyTo<u32>>,
}

impl Actor for Silent {
    type Error = Infallible;
}

struct Question;

impl ReplyHandler<Question> for Silent {
    type Reply = u32;

    fn handle(&mut self, _: Question, reply: ReplyTo<u32>, _: &mut Context<'_, Self>) {
        self.kept.push(reply);
    }
}

/// Answers waiting calls; returns the number of calls left.
struct Answer(u32);

impl Handler<Answer> for Silent {
    type Reply = usize;

    fn handle(&mut self, Answer(with): Answer, _: &mut Context<'_, Self>) -> usize {
        let waiting = self.kept.iter().filter(|reply| !reply.is_abandoned()).count();
        self.kept.drain(..).for_each(|reply| reply.send(with));
        waiting
    }
}

/// Asks a silent actor, once or many times, in different ways.
struct Asker {
    silent: Address<Silent>,
    heard: Vec<bool>,
}

impl Actor for Asker {
    type Error = Infallible;
}

type Heard = Result<u32, AskError<Question>>;

struct Pipe(Duration);

impl Handler<Pipe> for Asker {
    type Reply = ();

    fn handle(&mut self, Pipe(limit): Pipe, cx: &mut Context<'_, Self>) {
        let asked = self.silent.ask_within(Question, limit);
        cx.pipe(asked, Piped);
    }
}

struct Piped(Heard);

impl Handler<Piped> for Asker {
    type Reply = ();

    fn handle(&mut self, Piped(heard): Piped, _: &mut Context<'_, Self>) {
        self.heard.push(heard.is_err_and(|error| error.is_timed_out()));
    }
}

struct HeardSoFar;

impl Handler<HeardSoFar> for Asker {
    type Reply = Vec<bool>;

    fn handle(&mut self, _: HeardSoFar, _: &mut Context<'_, Self>) -> Vec<bool> {
        self.heard.clone()
    }
}

/// Awaits the question exclusively, and says how long it was given.
struct Await(Duration);

impl AsyncHandler<Await> for Asker {
    type Reply = Option<TimeSpent>;

    async fn handle(&mut self, Await(limit): Await, _: AsyncContext<Self>) -> Self::Reply {
        match self.silent.ask_within(Question, limit).await {
            Err(AskError::TimedOut(spent)) => Some(spent),
            _ => None,
        }
    }
}

fn poll<M, R>(ask: &mut Ask<M, R>) -> Poll<Result<R, AskError<M>>> {
    Pin::new(ask).poll(&mut Poll1::from_waker(Waker::noop()))
}

#[test]
fn a_plain_thread_that_waits_is_told_of_the_deadline() -> Outcome {
    let group = Group::builder("deadlines").workers(2).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let silent = system.spawn(Silent::default())?;
    let error = silent.ask_within(Question, Duration::from_millis(200)).wait();
    let AskError::TimedOut(spent) = error.expect_err("it keeps silent") else {
        panic!("another error");
    };
    let running = spent.running.ok_or("it was handled")?;
    let total = spent.hops + spent.queued + running;
    assert!(spent.hops.is_zero());
    assert!(
        total <= Duration::from_millis(200),
        "no more than the limit is accounted for: {total:?}"
    );
    assert_eq!(silent.ask(Answer(1)).wait()?, 0, "nobody waits any more");
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_piped_call_hears_of_its_deadline_and_one_in_time_of_its_answer() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let silent = system.spawn(Silent::default())?;
        let asker = system.spawn(Asker { silent: silent.clone(), heard: Vec::new() })?;
        asker.tell(Pipe(Duration::from_secs(1)))?;
        asker.tell(Pipe(Duration::from_secs(3)))?;
        sim.run_until_idle();
        sim.advance(Duration::from_millis(999));
        assert!(sim.block_on(asker.ask(HeardSoFar))??.is_empty(), "seed {seed}");
        sim.advance(Duration::from_millis(1));
        assert_eq!(sim.block_on(asker.ask(HeardSoFar))??, [true], "seed {seed}");
        assert_eq!(sim.block_on(silent.ask(Answer(1)))??, 1, "the other waits; seed {seed}");
        sim.run_until_idle();
        assert_eq!(sim.block_on(asker.ask(HeardSoFar))??, [true, false], "seed {seed}");
    }
    Ok(())
}

/// Polls many calls, each only when it was woken itself, as a set of futures does.
struct Woken<M, R> {
    asks: Vec<(Ask<M, R>, std::sync::Arc<Flag>)>,
    timed_out: usize,
}

#[derive(Default)]
struct Flag(std::sync::atomic::AtomicBool, std::sync::Mutex<Option<Waker>>);

impl std::task::Wake for Flag {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::Release);
        let parent = self.1.lock().expect("nobody panics here").clone();
        if let Some(parent) = parent {
            parent.wake();
        }
    }
}

impl<M, R> Future for Woken<M, R> {
    type Output = usize;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Poll1<'_>) -> Poll<usize> {
        let this = &mut *self;
        let mut timed_out = 0;
        this.asks.retain_mut(|(ask, flag)| {
            *flag.1.lock().expect("nobody panics here") = Some(cx.waker().clone());
            if !flag.0.swap(false, std::sync::atomic::Ordering::AcqRel) {
                return true;
            }
            let waker = Waker::from(std::sync::Arc::clone(flag));
            match Pin::new(ask).poll(&mut Poll1::from_waker(&waker)) {
                Poll::Pending => true,
                Poll::Ready(answer) => {
                    timed_out += usize::from(answer.is_err_and(|error| error.is_timed_out()));
                    false
                }
            }
        });
        this.timed_out += timed_out;
        if this.asks.is_empty() {
            Poll::Ready(this.timed_out)
        } else {
            Poll::Pending
        }
    }
}

/// Awaits many calls at once inside one handler.
struct AwaitMany(u32);

impl AsyncHandler<AwaitMany> for Asker {
    type Reply = usize;

    async fn handle(&mut self, AwaitMany(count): AwaitMany, _: AsyncContext<Self>) -> usize {
        let ask = |number| {
            let flag = std::sync::Arc::new(Flag::default());
            flag.0.store(true, std::sync::atomic::Ordering::Release);
            let limit = Duration::from_millis(10 * u64::from(number + 1));
            (self.silent.ask_within(Question, limit), flag)
        };
        Woken { asks: (0..count).map(ask).collect(), timed_out: 0 }.await
    }
}

#[test]
fn each_of_many_calls_of_one_handler_is_woken_at_its_own_deadline() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let silent = system.spawn(Silent::default())?;
    let asker = system.spawn(Asker { silent: silent.clone(), heard: Vec::new() })?;
    let mut many = asker.ask(AwaitMany(10));
    sim.run_until_idle();
    for _ in 0..5 {
        sim.advance(Duration::from_millis(10));
    }
    assert!(poll(&mut many).is_pending());
    assert_eq!(sim.block_on(silent.ask(Answer(1)))??, 5, "half of them still wait");
    assert_eq!(sim.block_on(many)??, 5, "the others have timed out");
    Ok(())
}

#[test]
fn a_deadline_shrinks_along_a_chain_of_calls() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let silent = system.spawn(Silent::default())?;
    let asker = system.spawn(Asker { silent, heard: Vec::new() })?;
    let outer = asker.ask_within(Await(Duration::from_secs(60)), Duration::from_secs(2));
    let inner = asker.ask_within(Await(Duration::from_secs(1)), Duration::from_secs(60));
    sim.run_until_idle();
    sim.advance(Duration::from_secs(2));
    sim.run_until_idle();
    // Its call ended with it, and not after a minute; either failure may be reported first.
    match sim.block_on(outer)? {
        Ok(spent) => assert!(spent.is_some(), "the inner call has timed out"),
        Err(error) => assert!(error.is_timed_out()),
    }
    sim.advance(Duration::from_secs(1));
    let spent = sim.block_on(inner)??.ok_or("the inner call has timed out")?;
    assert_eq!((spent.depth, spent.running), (1, Some(Duration::from_secs(1) - spent.queued)));
    Ok(())
}

#[test]
fn answered_calls_leave_one_timer_behind_and_no_more() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let system = System::new(&group);
    let silent = system.spawn(Silent::default())?;
    for _ in 0..1_000 {
        let mut asked = silent.ask(Question);
        sim.run_until_idle();
        assert!(poll(&mut asked).is_pending());
        sim.block_on(silent.ask(Answer(7)))??;
        assert_eq!(sim.block_on(asked)??, 7);
    }
    assert_eq!(sim.quiescence().timers, 1);
    sim.advance(Duration::from_secs(31));
    assert_eq!(sim.quiescence().timers, 0, "nothing waits, so nothing is armed");
    let mut late = silent.ask(Question);
    sim.run_until_idle();
    assert!(poll(&mut late).is_pending());
    sim.advance(Duration::from_secs(30));
    assert!(sim.block_on(late)?.is_err_and(|error| error.is_timed_out()), "armed again");
    Ok(())
}

/// Hands its questions on after a while.
struct Desk(Address<Silent>);

impl Actor for Desk {
    type Error = Infallible;
}

impl ReplyHandler<Question> for Desk {
    type Reply = u32;

    fn handle(&mut self, _: Question, reply: ReplyTo<u32>, cx: &mut Context<'_, Self>) {
        let mut reply = Some(reply);
        let after = cx.tell_after(Duration::from_secs(1), HandOn(reply.take()));
        after.expect("there is room for a timer");
    }
}

struct HandOn(Option<ReplyTo<u32>>);

impl Handler<HandOn> for Desk {
    type Reply = ();

    fn handle(&mut self, HandOn(reply): HandOn, _: &mut Context<'_, Self>) {
        let reply = reply.expect("it was put in");
        self.0.forward(Question, reply).expect("the silent one lives");
    }
}

#[test]
fn the_time_until_a_call_was_forwarded_is_told_apart() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let silent = system.spawn(Silent::default())?;
    let desk = system.spawn(Desk(silent.clone()))?;
    let mut asked = desk.ask_within(Question, Duration::from_secs(3));
    sim.run_until_idle();
    assert!(poll(&mut asked).is_pending());
    sim.advance(Duration::from_secs(3));
    let AskError::TimedOut(spent) = sim.block_on(asked)?.expect_err("nobody answers") else {
        panic!("another error");
    };
    assert_eq!(spent.hops, Duration::from_secs(1));
    assert_eq!(spent.queued + spent.running.unwrap_or_default(), Duration::from_secs(2));
    let mut asked = desk.ask(Question);
    sim.run_until_idle();
    assert!(poll(&mut asked).is_pending());
    sim.advance(Duration::from_secs(1));
    sim.block_on(silent.ask(Answer(5)))??;
    assert_eq!(sim.block_on(asked)??, 5, "whoever answers, the caller hears it");
    Ok(())
}

#[test]
fn a_deadline_holds_across_groups_whose_clocks_began_at_different_times() -> Outcome {
    let ahead = Arc::new(OffsetClock::new());
    ahead.advance(Duration::from_secs(3_600));
    let early = Group::builder("early").workers(1).pinning(Pinning::None).clock(ahead).build()?;
    let late = Group::builder("late").workers(1).pinning(Pinning::None).build()?;
    for (home, other) in [(&early, &late), (&late, &early)] {
        let system = System::new(home);
        let silent = system.actor(Silent::default()).on(other).spawn()?;
        let limit = Duration::from_millis(200);
        let error = silent.ask_within(Question, limit).wait().expect_err("it keeps silent");
        let AskError::TimedOut(spent) = error else { panic!("another error") };
        assert!(spent.running.is_some(), "handled, and not taken for late: {spent:?}");
    }
    assert!(early.shutdown()?.is_clean());
    assert!(late.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn calls_to_another_group_fail_at_the_end_of_the_group_that_keeps_their_deadlines() -> Outcome {
    let home = Group::builder("home").workers(1).pinning(Pinning::None).build()?;
    let other = Group::builder("other").workers(1).pinning(Pinning::None).build()?;
    let system = System::new(&home);
    let silent = system.actor(Silent::default()).on(&other).spawn()?;
    let far = Duration::from_secs(3_600);
    let before = silent.ask_within(Question, far);
    assert!(home.shutdown()?.is_clean());
    let after = silent.ask_within(Question, far);
    for call in [before, after] {
        let error = call.wait().expect_err("it keeps silent");
        assert!(matches!(error, AskError::Unanswered(Failure::Abandoned)), "{error}");
    }
    assert!(other.shutdown()?.is_clean());
    Ok(())
}

/// Asks two actors one after the other to answer its caller.
struct TwoSteps(Address<Desk>, Address<Silent>);

impl ReplyHandler<TwoSteps> for Asker {
    type Reply = u32;

    fn handle(
        &mut self,
        TwoSteps(quick, silent): TwoSteps,
        reply: ReplyTo<u32>,
        cx: &mut Context<'_, Self>,
    ) {
        let steps = async move {
            quick.ask(Now).await.expect("it answers at once");
            silent.ask_within(Question, Duration::from_secs(60)).await
        };
        cx.pipe(steps, |heard| {
            // The caller waits no longer.
            drop(reply);
            Piped(heard)
        });
    }
}

struct Now;

impl Handler<Now> for Desk {
    type Reply = ();

    fn handle(&mut self, _: Now, _: &mut Context<'_, Self>) {}
}

#[test]
fn a_deadline_holds_for_later_calls_of_a_piped_future_too() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let silent = system.spawn(Silent::default())?;
    let quick = system.spawn(Desk(silent.clone()))?;
    let asker = system.spawn(Asker { silent: silent.clone(), heard: Vec::new() })?;
    let asked = asker.ask_within(TwoSteps(quick, silent), Duration::from_secs(2));
    sim.run_until_idle();
    sim.advance(Duration::from_secs(1));
    assert!(sim.block_on(asker.ask(HeardSoFar))??.is_empty());
    sim.advance(Duration::from_secs(1));
    assert_eq!(
        sim.block_on(asker.ask(HeardSoFar))??,
        [true],
        "with the caller, not a minute later"
    );
    assert!(sim.block_on(asked)?.is_err());
    Ok(())
}

/// Computes for longer than the limit of the call that follows.
struct Compute;

impl AsyncHandler<Compute> for Asker {
    type Reply = Result<usize, String>;

    async fn handle(&mut self, _: Compute, cx: AsyncContext<Self>) -> Self::Reply {
        let group = cx.system().group().clone();
        let end_ns = group.now_ns() + 300_000_000;
        while group.now_ns() < end_ns {
            std::hint::spin_loop();
        }
        let asked = self.silent.ask_within(Answer(1), Duration::from_millis(250));
        asked.await.map_err(|error| error.to_string())
    }
}

#[test]
fn a_limit_counts_from_the_call_and_not_from_the_begin_of_a_long_turn() -> Outcome {
    let group = Group::builder("long").workers(2).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let silent = system.spawn(Silent::default())?;
    let asker = system.spawn(Asker { silent, heard: Vec::new() })?;
    assert_eq!(asker.ask(Compute).wait()?, Ok(0));
    assert!(group.shutdown()?.is_clean());
    Ok(())
}
