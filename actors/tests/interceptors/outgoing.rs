//! Interceptors around the sending of messages: their view of a call until its answer, refusals,
//! and repeated calls.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::intercept::{Call, Direction, Interceptor, MessageInfo, Outcome};
use turnwheel_actors::{
    Actor, Address, AskError, AsyncContext, AsyncHandler, Context, Entities, Handler, ReplyHandler,
    ReplyTo, RequestContext, System,
};
use turnwheel_interceptors::Retry;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Backoff, Failure, Group, Mailbox, SubmitErrorKind};

use crate::intercepted::*;

fn sending(group: &Group, interceptor: impl Interceptor) -> System {
    System::builder(group).intercept_outgoing(interceptor).build()
}

fn refusing() -> impl Interceptor {
    before(|call| {
        assert_eq!(call.direction(), Direction::Outgoing);
        match call.message::<Sum>() {
            Some(_) => Ok(()),
            None => Err(Failure::Refused("not out of here")),
        }
    })
}

const SECOND: Duration = Duration::from_secs(1);

// O-T071
#[test]
fn what_is_sent_passes_the_outgoing_ones_and_then_the_incoming_ones() -> Tested {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let notes = notes(&journal);
    let system = System::builder(&sim.group("cpu"))
        .intercept_outgoing(notes("out a"))
        .intercept_outgoing(notes("out b"))
        .intercept(notes("in"))
        .build();
    let adder = system.spawn(Adder::default())?;
    assert_eq!(sim.block_on(adder.ask(Plain(2)))??, 2);
    let order = [
        "out a begins Plain",
        "out b begins Plain",
        "out a goes in",
        "out b goes in",
        "out b comes out",
        "out a comes out",
        "in begins Plain",
        "in goes in",
        "in comes out",
        "in ends Some(2)",
        "out b ends Some(2)",
        "out a ends Some(2)",
    ];
    assert_eq!(taken(&journal), order);
    adder.tell(Plain(1))?;
    let told = taken(&journal);
    assert_eq!(told.last().map(String::as_str), Some("out a ends open"), "it does not wait");
    sim.run_until_idle();
    assert_eq!(taken(&journal).last().map(String::as_str), Some("in ends Some(3)"));
    Ok(())
}

/// Sends in every available way.
struct Sends(Address<Adder>);

struct Go;

impl Actor for Sends {
    type Error = Infallible;
}

impl Handler<Go> for Sends {
    type Reply = ();

    fn handle(&mut self, _: Go, cx: &mut Context<'_, Self>) {
        drop(self.0.tell(Plain(1)));
        drop(self.0.tell_urgent(Plain(1)));
        let asked = self.0.ask(Plain(1));
        cx.pipe(asked, |_| Done);
        cx.tell_self(Done).expect("nobody refuses it");
        self.0.tell_after(SECOND, Plain(1)).expect("there is room for a timer");
        let adder = self.0.clone();
        let whole = async move { drop(adder.reserve().await.map(|place| place.tell(Plain(1)))) };
        cx.pipe(whole, |()| Done);
    }
}

struct Done;

impl Handler<Done> for Sends {
    type Reply = ();

    fn handle(&mut self, _: Done, _: &mut Context<'_, Self>) {}
}

impl ReplyHandler<Plain> for Sends {
    type Reply = u64;

    fn handle(&mut self, message: Plain, reply: ReplyTo<u64>, _: &mut Context<'_, Self>) {
        drop(self.0.forward(message, reply));
    }
}

#[test]
fn every_way_of_sending_is_surrounded() -> Tested {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let system = sending(&sim.group("cpu"), notes(&journal)("out"));
    let adder = system.spawn(Adder::default())?;
    let sends = system.spawn(Sends(adder.clone()))?;
    sends.tell(Go)?;
    sim.advance(2 * SECOND);
    adder.recipient::<Plain, _>().tell(Plain(1))?;
    let asked = adder.callee::<Plain, _>().ask(Plain(1));
    assert_eq!(sim.block_on(asked)??, 7);
    assert_eq!(sim.block_on(sends.ask(Plain(1)))??, 8);
    let begun = |name: &str| {
        let line = format!("out begins {name}");
        journal.lock().iter().filter(|known| **known == line).count()
    };
    // Five by the handler, one later, two outside, and one forwarded, which counts twice.
    assert_eq!((begun("Go"), begun("Done"), begun("Plain")), (1, 1, 9));
    let ended = journal.lock().iter().filter(|line| line.starts_with("out ends")).count();
    assert_eq!(ended, 1 + 1 + 9);

    let pool = system.pool(Adder::default).fixed(2).build()?;
    pool.tell(Plain(1))?;
    pool.tell_urgent(Plain(1))?;
    assert_eq!(pool.broadcast(&Plain(1)).delivered, 2);
    sim.block_on(pool.ask(Plain(1)))??;
    assert_eq!(begun("Plain"), 9 + 5);
    let entities = Entities::new(&system);
    entities.get::<Adder>("1").tell(Plain(1))?;
    assert_eq!(sim.block_on(entities.get::<Adder>("1").ask(Plain(1)))??, 2);
    assert_eq!(begun("Plain"), 9 + 5 + 2);
    Ok(())
}

#[test]
fn what_is_refused_is_not_sent_and_comes_back() -> Tested {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let system = sending(&group, refusing());
    let adder = system.spawn(Adder::default())?;
    let Err(AskError::Intercepted { failure, message: Plain(7) }) =
        sim.block_on(adder.ask(Plain(7)))?
    else {
        return Err("it was sent".into());
    };
    assert_eq!(failure.to_string(), "refused: not out of here");
    assert_eq!(system.dead_letters(), 0, "whoever asks is told");
    let error = adder.tell(Plain(8)).expect_err("it is refused");
    assert_eq!((error.kind, error.message.0), (SubmitErrorKind::Refused, 8));
    assert_eq!(adder.tell_urgent(Plain(8)).map_err(|error| error.kind), Err(error.kind));
    assert_eq!(system.dead_letters(), 2);
    let entity = Entities::new(&system).get::<Adder>("1");
    assert_eq!(entity.tell(Plain(8)).map_err(|error| error.kind), Err(error.kind));
    let asked = sim.block_on(entity.ask(Plain(7)))?;
    assert_eq!(asked.expect_err("it is refused").into_message().map(|message| message.0), Some(7));
    assert!(!entity.is_active(), "nothing has reached it");
    // A caller whose answer was to come from another actor gets the reason of its absence.
    let desk = System::new(&group).spawn(Sends(adder.clone()))?;
    let error = sim.block_on(desk.ask(Plain(1)))?.map_err(|error| error.to_string());
    assert!(error.as_ref().is_err_and(|error| error.contains("not out of here")), "{error:?}");
    assert_eq!(sim.block_on(adder.ask(Sum))??, 0);
    Ok(())
}

#[test]
fn they_see_the_target_and_change_message_request_and_answer() -> Tested {
    let sim = Sim::fifo();
    let seen = Journal::default();
    let names = Arc::clone(&seen);
    let system = System::builder(&sim.group("cpu"))
        .intercept_outgoing(before(move |call| {
            names.lock().push(format!("{} {} {}", call.actor(), call.class(), call.is_ask()));
            if let Some(Plain(by)) = call.message_mut() {
                *by += 10;
            }
            let request = call.request().clone().with("via", "desk");
            call.set_request(request);
            Ok(())
        }))
        .intercept_outgoing(after(|_, outcome| {
            if let Some(reply) = outcome.reply_mut::<u64>() {
                *reply *= 2;
            }
            if outcome.error().is_some_and(|error| !error.is_closed()) {
                outcome.answer(404_u64);
            }
        }))
        .build();
    let via = before(|call| match call.request().get("via") {
        Some("desk") => Ok(()),
        _ => Err(Failure::Refused("by no desk")),
    });
    let adder =
        system.actor(Adder::default()).name("sum").class("adders").intercept(via).spawn()?;
    assert_eq!(sim.block_on(adder.ask(Plain(1)))??, 22);
    adder.tell(Plain(1))?;
    assert_eq!(sim.block_on(adder.ask(Sum))??, 44);
    assert_eq!(sim.block_on(adder.ask(Fall))??, 404, "an error was translated");
    let [ask, tell, ..] = &taken(&seen)[..] else { return Err("two were sent".into()) };
    assert_eq!((ask.as_str(), tell.as_str()), ("sum adders true", "sum adders false"));
    assert!(RequestContext::current().is_empty());
    sim.block_on(adder.kill())?.ok();
    let error = sim.block_on(adder.ask(Plain(1)))?.expect_err("it has ended");
    assert_eq!(error.into_message().map(|message| message.0), Some(11), "as it was to be sent");
    Ok(())
}

#[test]
fn a_call_that_is_given_up_ends_its_interceptors() -> Tested {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let adder = sending(&sim.group("cpu"), notes(&journal)("out")).spawn(Adder::default())?;
    let asked = adder.ask(Plain(1));
    assert_eq!(journal.lock().len(), 3);
    sim.run_until_idle();
    drop(asked);
    let last = taken(&journal).pop();
    assert!(last.as_ref().is_some_and(|line| line.contains("cancelled")), "{last:?}");
    assert_eq!(sim.block_on(adder.ask(Sum))??, 1, "it was sent at once");
    Ok(())
}

/// Answers after a number of calls.
struct Shaky {
    needs: u32,
    asked: u32,
    at: Vec<Duration>,
}

impl Actor for Shaky {
    type Error = Infallible;

    fn on_failure(
        &mut self,
        _: &Failure,
        _: &mut Context<'_, Self>,
    ) -> turnwheel_actors::Directive {
        turnwheel_actors::Directive::Resume
    }
}

#[derive(Clone)]
struct Try;

#[derive(Clone)]
struct Lose;

impl Handler<Try> for Shaky {
    type Reply = (u32, Vec<Duration>);

    fn handle(&mut self, _: Try, cx: &mut Context<'_, Self>) -> Self::Reply {
        self.asked += 1;
        self.at.push(Duration::from_nanos(cx.now_ns()));
        if self.asked < self.needs {
            Failure::Refused("not yet").raise();
        }
        (self.asked, self.at.clone())
    }
}

impl AsyncHandler<Lose> for Shaky {
    type Reply = u32;

    async fn handle(&mut self, _: Lose, cx: AsyncContext<Self>) -> u32 {
        self.asked += 1;
        if self.asked < self.needs {
            cx.sleep(10 * SECOND).await.expect("there is room for a timer");
        }
        self.asked
    }
}

fn shaky(needs: u32) -> Shaky {
    Shaky { needs, asked: 0, at: Vec::new() }
}

// O-T071
#[test]
fn an_idempotent_call_is_made_again_with_pauses_up_to_its_limit() -> Tested {
    let sim = Sim::fifo();
    let pauses = Backoff::exponential(SECOND, 60 * SECOND);
    let system = sending(&sim.group("cpu"), Retry::new(4, pauses).of::<Try>());
    let begun = sim.now();
    let asked = system.spawn(shaky(4))?.ask(Try);
    sim.advance(20 * SECOND);
    let mut asked = std::pin::pin!(asked);
    let mut answer = None;
    for _ in 0..20 {
        if let Ok(done) = sim.block_on(asked.as_mut()) {
            answer = Some(done?);
            break;
        }
        sim.advance(SECOND);
    }
    let (times, at) = answer.ok_or("no answer")?;
    assert_eq!((times, at.len()), (4, 4));
    let between: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(between[1] >= 2 * SECOND && between[2] >= 4 * SECOND, "{between:?} from {begun:?}");

    // One more attempt is needed than it makes: the last error is returned.
    let asked = system.spawn(shaky(5))?.ask(Try);
    let mut asked = std::pin::pin!(asked);
    let error = loop {
        if let Ok(done) = sim.block_on(asked.as_mut()) {
            break done.map_err(|error| error.to_string());
        }
        sim.advance(SECOND);
    };
    assert!(error.is_err_and(|error| error.contains("not yet")));
    Ok(())
}

#[test]
fn other_messages_and_those_that_are_told_are_sent_once() -> Tested {
    let sim = Sim::fifo();
    let quick = Backoff::constant(Duration::ZERO);
    let system = sending(&sim.group("cpu"), Retry::new(9, quick).of::<Sum>());
    let adder = system.spawn(shaky(9))?;
    assert!(sim.block_on(adder.ask(Try))?.is_err());
    let system = sending(&sim.group("cpu"), Retry::new(9, quick).of::<Try>());
    let shaky = system.spawn(shaky(3))?;
    shaky.tell(Try)?;
    sim.run_until_idle();
    assert_eq!(sim.block_on(shaky.with(|shaky, _| shaky.asked))??, 1);
    // Errors that no attempt changes.
    shaky.close();
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&attempts);
    let counting = before(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let system = System::builder(&sim.group("cpu"))
        .intercept_outgoing(Retry::new(9, quick).of::<Plain>())
        .intercept_outgoing(counting)
        .build();
    let adder = system.spawn(Adder::default())?;
    sim.block_on(adder.close())?.ok();
    let error = sim.block_on(adder.ask(Plain(3)))?.expect_err("it has ended");
    assert!(error.is_closed());
    assert_eq!(error.into_message().map(|message| message.0), Some(3));
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn those_inside_a_retry_see_each_attempt_and_those_outside_see_the_call() -> Tested {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let notes = notes(&journal);
    let attempts = Arc::new(AtomicU32::new(0));
    let last = Arc::clone(&attempts);
    let system = System::builder(&sim.group("cpu"))
        .intercept_outgoing(notes("outer"))
        .intercept_outgoing(Retry::new(3, Backoff::constant(Duration::ZERO)).of::<Try>())
        .intercept_outgoing(notes("inner"))
        .intercept_outgoing(before(move |call| {
            last.store(call.attempt(), Ordering::Relaxed);
            Ok(())
        }))
        .build();
    let shaky = system.spawn(shaky(3))?;
    assert_eq!(sim.block_on(shaky.ask(Try))??.0, 3);
    let count = |what: &str| journal.lock().iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("outer begins"), count("outer ends")), (1, 1));
    assert_eq!((count("inner begins"), count("inner ends")), (3, 3));
    assert_eq!(attempts.load(Ordering::Relaxed), 2, "the third has two before it");
    Ok(())
}

#[test]
fn an_attempt_has_its_own_limit_and_all_together_the_callers() -> Tested {
    let sim = Sim::fifo();
    let retry = Retry::new(100, Backoff::constant(SECOND)).of::<Lose>().attempt_limit(2 * SECOND);
    let system = sending(&sim.group("cpu"), retry);
    // The second attempt waits for the first one's handler, and is lost too; a later one is answered.
    let shaky_one = system.spawn(shaky(2))?;
    let asked = shaky_one.ask_within(Lose, 60 * SECOND);
    let mut asked = std::pin::pin!(asked);
    let begun = sim.now();
    let answer = loop {
        if let Ok(done) = sim.block_on(asked.as_mut()) {
            break done;
        }
        assert!(sim.now() - begun < 100 * SECOND, "it hangs");
        sim.advance(SECOND / 2);
    };
    assert_eq!(answer?, 2);
    assert!(sim.now() - begun < 20 * SECOND);

    // The caller's time is the end of all attempts.
    let never = system.spawn(shaky(u32::MAX))?;
    let begun = sim.now();
    let asked = never.ask_within(Lose, 7 * SECOND);
    let mut asked = std::pin::pin!(asked);
    let answer = loop {
        if let Ok(done) = sim.block_on(asked.as_mut()) {
            break done;
        }
        sim.advance(SECOND / 2);
    };
    assert!(answer.is_err_and(|error| error.is_timed_out()));
    assert!(sim.now() - begun <= 8 * SECOND, "{:?}", sim.now() - begun);
    Ok(())
}

#[test]
fn a_full_mailbox_is_tried_again_and_a_cycle_is_not() -> Tested {
    struct Loops(Option<Address<Loops>>);
    impl Actor for Loops {
        type Error = Infallible;
    }
    impl AsyncHandler<Try> for Loops {
        type Reply = bool;
        async fn handle(&mut self, _: Try, cx: AsyncContext<Self>) -> bool {
            let target = self.0.clone().unwrap_or_else(|| cx.myself().clone());
            target.ask(Try).await.is_err_and(|error| error.is_cycle())
        }
    }
    let sim = Sim::fifo();
    let retry = Retry::new(5, Backoff::constant(SECOND)).of::<Sum>().of::<Try>();
    let system = sending(&sim.group("cpu"), retry);
    let adder = system.actor(Adder::default()).mailbox(Mailbox::bounded(1)).spawn()?;
    adder.tell(Plain(1))?;
    let asked = adder.ask(Sum);
    let mut asked = std::pin::pin!(asked);
    assert!(sim.block_on(asked.as_mut()).is_err(), "refused, and waiting for its second attempt");
    sim.advance(SECOND);
    assert_eq!(sim.block_on(asked)??, 1);
    let begun = sim.now();
    assert!(sim.block_on(system.spawn(Loops(None))?.ask(Try))??);
    assert_eq!(sim.now(), begun);
    Ok(())
}

/// Tries once more without a look at anything.
struct Again;

impl Interceptor for Again {
    type State = u32;

    fn begin(&self, _: &mut Call<'_>) -> Result<u32, Failure> {
        Ok(0)
    }

    fn end(&self, tried: &mut u32, info: &MessageInfo, outcome: &mut Outcome<'_>) {
        *tried += 1;
        if *tried == 1 && info.message_type().ends_with("Plain") {
            // Of the wrong type, then in vain or not.
            assert!(outcome.retry("no number", Duration::ZERO).is_err());
            let is_made = outcome.retry(Plain(100), Duration::ZERO).is_ok();
            assert_eq!(is_made, info.direction() == Direction::Outgoing && info.is_ask());
        }
    }
}

#[test]
fn only_an_outgoing_call_is_made_again_also_after_an_answer() -> Tested {
    let sim = Sim::fifo();
    let system =
        System::builder(&sim.group("cpu")).intercept_outgoing(Again).intercept(Again).build();
    let adder = system.spawn(Adder::default())?;
    assert_eq!(sim.block_on(adder.ask(Plain(1)))??, 101, "the answer of the second attempt");
    adder.tell(Plain(1))?;
    sim.run_until_idle();
    assert_eq!(sim.block_on(adder.with(|adder, _| adder.sum))??, 102);
    Ok(())
}
