//! Calls that are answered with a stream: order, batches, slow and lost takers, failures, ends.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context as Poll1, Wake, Waker};
use std::time::Duration;

use futures_core::Stream;
use turnwheel_actors::{
    Actor, Address, AnswerSink, Answers, AskError, AsyncContext, AsyncHandler, Context, Directive,
    Entities, Entity, Handler, RequestContext, System, ASK_LIMIT_DEFAULT,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, Group};

type Outcome = Result<(), Box<dyn Error>>;

/// Counts the made answers, and the live ones.
#[derive(Clone, Default)]
struct Counts {
    made: Arc<AtomicUsize>,
    open: Arc<()>,
}

impl Counts {
    fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Makers under way.
    fn open(&self) -> usize {
        Arc::strong_count(&self.open) - 1
    }
}

struct Maker;

impl Actor for Maker {
    type Error = Infallible;

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        Directive::Resume
    }
}

impl Entity for Maker {
    type Key = String;
    const IDLE: Duration = Duration::from_secs(10);

    fn create(_: &String) -> Self {
        Self
    }
}

/// The end of the stream after the last answer.
#[derive(Clone, Copy, PartialEq)]
enum End {
    InOrder,
    Fails,
    Panics,
}

struct Count {
    to: usize,
    bound: usize,
    pause: Duration,
    end: End,
    counts: Counts,
}

impl Count {
    fn to(to: usize, counts: &Counts) -> Self {
        let counts = counts.clone();
        Self { to, bound: 4, pause: Duration::ZERO, end: End::InOrder, counts }
    }
}

async fn count(count: Count, group: Group, mut sink: AnswerSink<usize>) -> Result<(), Failure> {
    let Count { to, pause, end, counts, .. } = count;
    let _open = Arc::clone(&counts.open);
    for number in 0..to {
        if !pause.is_zero() {
            group.sleep(pause).await?;
        }
        if sink.send(number).await.is_err() {
            return Ok(());
        }
        counts.made.fetch_add(1, Ordering::Relaxed);
    }
    match end {
        End::InOrder => Ok(()),
        End::Fails => Err(Failure::message("no more paper")),
        End::Panics => panic!("on purpose"),
    }
}

impl Handler<Count> for Maker {
    type Reply = Answers<usize>;

    fn handle(&mut self, message: Count, cx: &mut Context<'_, Self>) -> Answers<usize> {
        let group = cx.group();
        cx.answers(message.bound, |sink| count(message, group, sink))
    }
}

/// Something else that it does.
struct Ping;

impl Handler<Ping> for Maker {
    type Reply = ();

    fn handle(&mut self, _: Ping, _: &mut Context<'_, Self>) {}
}

fn maker(sim: &Sim) -> Result<Address<Maker>, Box<dyn Error>> {
    Ok(System::new(&sim.group("cpu")).spawn(Maker)?)
}

/// All answers, and how they ended.
async fn all(mut answers: Answers<usize>) -> (Vec<usize>, Option<Failure>) {
    let mut taken = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(number) => taken.push(number),
            Err(failure) => {
                assert!(answers.next().await.is_none(), "a failure is the last");
                return (taken, Some(failure));
            }
        }
    }
    (taken, None)
}

// O-T100
#[test]
fn answers_come_in_order_one_by_one_and_in_batches() -> Outcome {
    for seed in 0..20 {
        for bound in [0, 1, 7, 1_000] {
            let sim = Sim::new(seed);
            let maker = maker(&sim)?;
            let counts = Counts::default();
            let answers = sim.block_on(maker.ask(Count { bound, ..Count::to(100, &counts) }))??;
            sim.run_until_idle();
            assert_eq!(counts.made(), bound.clamp(1, 100), "no more than agreed");
            sim.block_on(maker.ask(Ping))??;
            let (taken, failure) = sim.block_on(all(answers))?;
            assert!(taken.into_iter().eq(0..100) && failure.is_none());
            let mut answers =
                sim.block_on(maker.ask(Count { bound, ..Count::to(100, &counts) }))??;
            sim.run_until_idle();
            let first = sim.block_on(answers.next_batch(5))??;
            assert!(!first.is_empty() && first.len() <= 5, "{first:?}");
            let mut taken = first;
            loop {
                let batch = sim.block_on(answers.next_batch(10))??;
                if batch.is_empty() {
                    break;
                }
                assert!(batch.len() <= 10);
                taken.extend(batch);
            }
            assert!(taken.into_iter().eq(0..100));
            sim.run_until_idle();
            assert_eq!(counts.open(), 0);
        }
    }
    Ok(())
}

// O-T100
#[test]
fn whoever_stops_early_ends_the_maker_whatever_it_waits_for() -> Outcome {
    let sim = Sim::fifo();
    let maker = maker(&sim)?;
    for pause in [Duration::ZERO, Duration::from_secs(5)] {
        let counts = Counts::default();
        let count = Count { pause, ..Count::to(100, &counts) };
        let mut answers = sim.block_on(maker.ask(count))??;
        sim.run_until_idle();
        sim.advance(pause);
        assert_eq!(sim.block_on(answers.next())?.transpose()?, Some(0));
        assert_ne!(counts.open(), 0, "it goes on");
        drop(answers);
        sim.run_until_idle();
        assert_eq!(counts.open(), 0, "with a pause of {pause:?}");
    }
    Ok(())
}

// O-T100
#[test]
fn whoever_gives_the_call_up_ends_the_maker_before_its_first_answer() -> Outcome {
    let sim = Sim::fifo();
    let maker = maker(&sim)?;
    let counts = Counts::default();
    let early = maker.ask(Count::to(100, &counts));
    drop(early);
    let late = maker.ask(Count::to(100, &counts));
    sim.run_until_idle();
    drop(late);
    sim.run_until_idle();
    assert_eq!(counts.open(), 0);
    assert!(sim.failures().is_empty());
    Ok(())
}

// O-T100
#[test]
fn a_failure_is_told_after_the_answers_before_it() -> Outcome {
    let sim = Sim::fifo();
    let maker = maker(&sim)?;
    for to in [0, 1, 9] {
        let counts = Counts::default();
        let count = Count { end: End::Fails, ..Count::to(to, &counts) };
        let (taken, failure) = sim.block_on(all(sim.block_on(maker.ask(count))??))?;
        assert!(taken.into_iter().eq(0..to));
        assert_eq!(failure.ok_or("no failure")?.to_string(), "no more paper");
        let count = Count { end: End::Panics, ..Count::to(to, &counts) };
        let (taken, failure) = sim.block_on(all(sim.block_on(maker.ask(count))??))?;
        assert!(taken.into_iter().eq(0..to));
        assert!(matches!(failure, Some(Failure::Panicked(_))), "{failure:?}");
    }
    assert_eq!(sim.failures().len(), 3, "the panics are known to the policy");
    sim.block_on(maker.ask(Ping))??;
    Ok(())
}

// O-T100
#[test]
fn a_slow_taker_is_kept_and_a_lost_one_is_not() -> Outcome {
    let sim = Sim::fifo();
    let maker = maker(&sim)?;
    let counts = Counts::default();
    let mut answers = sim.block_on(maker.ask(Count::to(20, &counts)))??;
    for number in 0..10 {
        sim.run_until_idle();
        sim.advance(ASK_LIMIT_DEFAULT - Duration::from_secs(1));
        assert_eq!(sim.block_on(answers.next())?.transpose()?, Some(number));
    }
    sim.run_until_idle();
    sim.advance(2 * ASK_LIMIT_DEFAULT);
    sim.run_until_idle();
    assert_eq!(counts.open(), 0, "it has gone without a word");
    let (taken, failure) = sim.block_on(all(answers))?;
    assert_eq!(taken, [10, 11, 12, 13]);
    assert!(failure.ok_or("no failure")?.to_string().contains("no answer of the stream was taken"));
    Ok(())
}

// O-T100
#[test]
fn a_maker_may_be_slow_and_keeps_its_entity() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let entities = Entities::builder(&system).build();
    let entity = entities.get::<Maker>("a".to_owned());
    let counts = Counts::default();
    let count = Count { pause: Duration::from_secs(60), ..Count::to(3, &counts) };
    let mut answers = sim.block_on(entity.ask(count))??;
    for number in 0..3 {
        for _ in 0..60 {
            sim.run_until_idle();
            sim.advance(Duration::from_secs(1));
        }
        assert!(entity.is_active(), "it is not idle");
        assert_eq!(sim.block_on(answers.next())?.transpose()?, Some(number));
    }
    assert!(sim.block_on(answers.next())?.is_none());
    for _ in 0..30 {
        sim.run_until_idle();
        sim.advance(Duration::from_secs(1));
    }
    assert!(!entity.is_active(), "now it is");
    Ok(())
}

// O-T100
#[test]
fn the_end_of_its_actor_or_activation_is_told() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let entities = Entities::builder(&system).build();
    let entity = entities.get::<Maker>("a".to_owned());
    let counts = Counts::default();
    let answers = sim.block_on(entity.ask(Count::to(100, &counts)))??;
    sim.run_until_idle();
    sim.wait(entity.passivate())?;
    let (taken, failure) = sim.block_on(all(answers))?;
    assert_eq!(taken, [0, 1, 2, 3]);
    assert!(failure.is_some_and(|failure| failure.is_closed()));
    let again = sim.block_on(entity.ask(Count::to(2, &counts)))??;
    assert_eq!(sim.block_on(all(again))?.0, [0, 1], "a fresh one answers anew");

    let maker = system.spawn(Maker)?;
    let answers = sim.block_on(maker.ask(Count::to(100, &counts)))??;
    sim.run_until_idle();
    assert!(sim.wait(maker.kill()).is_err());
    let (_, failure) = sim.block_on(all(answers))?;
    assert!(failure.is_some_and(|failure| failure.is_closed()));
    assert_eq!(counts.open(), 0);
    Ok(())
}

/// Sums up the streamed answers of another actor.
struct Sum(Address<Maker>, Counts);

impl AsyncHandler<Sum> for Maker {
    type Reply = usize;

    async fn handle(&mut self, Sum(maker, counts): Sum, _: AsyncContext<Self>) -> usize {
        let mut answers = maker.ask(Count::to(100, &counts)).await.expect("it answers");
        let mut sum = 0;
        while let Some(number) = answers.next().await {
            sum += number.expect("it ends in order");
        }
        sum
    }
}

#[test]
fn an_actor_takes_the_answers_of_another() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let (first, second) = (system.spawn(Maker)?, system.spawn(Maker)?);
        let sum = sim.block_on(first.ask(Sum(second, Counts::default())))??;
        assert_eq!(sum, 4_950);
    }
    Ok(())
}

/// The user of the request, as the maker sees it at each answer.
struct Users;

impl Handler<Users> for Maker {
    type Reply = Answers<Option<String>>;

    fn handle(&mut self, _: Users, cx: &mut Context<'_, Self>) -> Self::Reply {
        let group = cx.group();
        cx.answers(1, move |mut sink| async move {
            for _ in 0..3 {
                group.sleep(Duration::from_secs(40)).await?;
                let user = RequestContext::current().get("user").map(str::to_owned);
                if sink.send(user).await.is_err() {
                    break;
                }
            }
            Ok(())
        })
    }
}

#[test]
fn each_answer_is_made_with_the_values_of_the_request_and_without_its_deadline() -> Outcome {
    let sim = Sim::fifo();
    let maker = maker(&sim)?;
    let asked = RequestContext::new()
        .with("user", "ada")
        .scope(|| maker.ask_within(Users, Duration::from_secs(1)));
    let mut answers = match sim.block_on(asked)? {
        Err(AskError::TimedOut(_)) => return Err("the beginning is not late".into()),
        asked => asked?,
    };
    for _ in 0..3 {
        sim.run_until_idle();
        sim.advance(Duration::from_secs(40));
        let user = sim.block_on(answers.next())?.transpose()?;
        assert_eq!(user.flatten().as_deref(), Some("ada"));
    }
    assert!(sim.block_on(answers.next())?.is_none());
    Ok(())
}

/// A waker that looks at its stream when it is dropped.
struct Looks(Arc<AnswerSink<u32>>, Arc<AtomicU32>);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Looks {
    fn drop(&mut self) {
        // Takes the lock of the stream.
        let _ = self.0.is_abandoned();
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn waker_of_a_stream_is_dropped_without_a_lock_when_it_is_replaced_or_given_up() {
    let (sink, mut answers) = Answers::<u32>::bounded(1);
    let (sink, dropped) = (Arc::new(sink), Arc::new(AtomicU32::new(0)));
    for _ in 0..3 {
        let waker = Waker::from(Arc::new(Looks(Arc::clone(&sink), Arc::clone(&dropped))));
        let polled = Pin::new(&mut answers).poll_next(&mut Poll1::from_waker(&waker));
        assert!(polled.is_pending());
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 2, "the last one waits");
    // The waker holds the other end: nothing else would ever free the two.
    drop(answers);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
    assert!(sink.is_abandoned());
}

/// Panics when it wakes.
struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn waker_of_a_receiver_that_panics_does_not_fail_the_sender() -> Outcome {
    let (mut sink, mut answers) = Answers::bounded(2);
    let waker = Waker::from(Arc::new(BadWaker));
    let mut cx = Poll1::from_waker(&waker);
    assert!(pin!(answers.next()).poll(&mut cx).is_pending());
    assert!(sink.try_send("first").is_ok());
    assert_eq!(answers.wait_next()?, Some("first"));
    assert!(pin!(answers.next()).poll(&mut cx).is_pending());
    sink.end(Ok(()));
    assert_eq!(answers.wait_next()?, None);
    Ok(())
}
