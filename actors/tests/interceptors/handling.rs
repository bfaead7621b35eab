//! Interceptors around the handling of messages: their order, the calls that they see, refuse and
//! change, for all kinds of handlers and all kinds of sends.

use std::convert::Infallible;
use std::panic::panic_any;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::intercept::{Call, Direction, Interceptor};
use turnwheel_actors::{
    Actor, Address, AskError, AsyncContext, AsyncHandler, Context, DeadLetterReason, Entities,
    Entity, Handler, RequestContext, System,
};
use turnwheel_channel::Channel;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, Late};

use crate::intercepted::*;

// O-T071
#[test]
fn interceptors_are_nested_in_their_order_the_systems_outside() -> Tested {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let notes = notes(&journal);
    let system =
        System::builder(&sim.group("cpu")).intercept(notes("a")).intercept(notes("b")).build();
    let adder = system.actor(Adder::default()).intercept(notes("c")).spawn()?;
    assert_eq!(sim.block_on(adder.ask(Plain(2)))??, 2);
    let order = [
        "a begins Plain",
        "b begins Plain",
        "c begins Plain",
        "a goes in",
        "b goes in",
        "c goes in",
        "c comes out",
        "b comes out",
        "a comes out",
        "c ends Some(2)",
        "b ends Some(2)",
        "a ends Some(2)",
    ];
    assert_eq!(taken(&journal), order);
    // Another actor of the system has only the system's.
    let other = system.spawn(Adder::default())?;
    assert_eq!(sim.block_on(other.ask(Plain(2)))??, 2);
    assert_eq!(taken(&journal).iter().filter(|line| line.contains("begins")).count(), 2);
    Ok(())
}

#[test]
fn each_kind_of_handler_is_surrounded_as_a_whole() -> Tested {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let adder = adder(&sim, notes(&journal)("a"))?;
    assert_eq!(sim.block_on(adder.ask(ByHand(1)))??, 1);
    let by_hand = ["a begins ByHand", "a goes in", "a comes out", "a ends open"];
    assert_eq!(taken(&journal), by_hand);
    let asked = adder.ask(Exclusive(2));
    sim.run_until_idle();
    // Its future waits: begun, polled once, not ended.
    let begun = ["a begins Exclusive", "a goes in", "a comes out"];
    assert_eq!(taken(&journal), begun);
    sim.advance(Duration::from_secs(1));
    assert_eq!(sim.block_on(asked)??, 3);
    assert_eq!(taken(&journal), ["a goes in", "a comes out", "a ends Some(3)"]);
    let asked = adder.ask(Shared(5));
    sim.run_until_idle();
    // Once around the call of the handler, once around the first poll.
    assert_eq!(taken(&journal).len(), 1 + 2 + 2);
    sim.advance(Duration::from_secs(1));
    assert_eq!(sim.block_on(asked)??, 5);
    assert_eq!(taken(&journal), ["a goes in", "a comes out", "a ends Some(5)"]);
    Ok(())
}

#[test]
fn one_that_refuses_keeps_the_message_from_what_is_inside_it() -> Tested {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let notes = notes(&journal);
    let letters = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&letters);
    let system = System::builder(&sim.group("cpu"))
        .on_dead_letter(move |letter| kept.lock().push((letter.message, letter.reason)))
        .intercept(notes("outer"))
        .intercept(before(|call| match call.message_type() {
            other if other.ends_with("Sum") => Ok(()),
            _ => Err(Failure::Refused("no writing today")),
        }))
        .intercept(notes("inner"))
        .build();
    let adder = system.spawn(Adder::default())?;
    let errors = [
        sim.block_on(adder.ask(Plain(1)))?.map_err(|error| error.to_string()),
        sim.block_on(adder.ask(Exclusive(1)))?.map_err(|error| error.to_string()),
        sim.block_on(adder.ask(Shared(1)))?.map_err(|error| error.to_string()),
        sim.block_on(adder.ask(ByHand(1)))?.map_err(|error| error.to_string()),
    ];
    let why = "the actor did not answer: refused: no writing today";
    assert!(
        errors.iter().all(|error| error.as_ref().is_err_and(|error| error == why)),
        "{errors:?}"
    );
    let begun = ["Plain", "Exclusive", "Shared", "ByHand"];
    let seen = begun.map(|name| [format!("outer begins {name}"), format!("outer ends {why}")]);
    assert_eq!(taken(&journal), seen.concat());
    assert_eq!(system.dead_letters(), 0, "whoever asks is told");
    adder.tell(Plain(1))?;
    adder.tell(Exclusive(1))?;
    sim.run_until_idle();
    let reasons: Vec<_> = letters.lock().iter().map(|(_, reason)| *reason).collect();
    assert_eq!(reasons, [DeadLetterReason::Intercepted; 2]);
    journal.lock().clear();
    assert_eq!(sim.block_on(adder.ask(Sum))??, 0, "nothing was handled, and the actor goes on");
    Ok(())
}

// O-T071
#[test]
fn arguments_and_answers_are_read_and_changed() -> Tested {
    let sim = Sim::fifo();
    let doubling = before(|call| {
        if let Some(Plain(by)) = call.message_mut() {
            *by *= 2;
        }
        assert!(call.message::<Sum>().is_none() || call.message_type().ends_with("Sum"));
        Ok(())
    });
    let system = System::builder(&sim.group("cpu"))
        .intercept(doubling)
        .intercept(after(|_, outcome| {
            if let Some(reply) = outcome.reply_mut::<u64>() {
                *reply += 1_000;
            }
            assert!(outcome.reply::<String>().is_none());
        }))
        .build();
    let adder = system.spawn(Adder::default())?;
    assert_eq!(sim.block_on(adder.ask(Plain(3)))??, 1_006);
    let asked = adder.ask(Exclusive(1));
    sim.advance(Duration::from_secs(1));
    assert_eq!(sim.block_on(asked)??, 1_007);
    Ok(())
}

// O-T071
#[test]
fn an_answer_of_the_wrong_type_and_one_that_does_not_go_on_are_told_to_the_caller() -> Tested {
    let sim = Sim::fifo();
    let wrong = adder(&sim, after(|_, outcome| outcome.answer("a text".to_owned())))?;
    let error = sim.block_on(wrong.ask(Plain(1)))?.map_err(|error| error.to_string());
    let error = error.expect_err("a text is no number");
    assert!(error.contains("`alloc::string::String` instead of a `u64`"), "{error}");

    /// Does not call `run` for plain messages and replies by hand, and calls it twice for all
    /// others.
    struct Lazy;
    impl Interceptor for Lazy {
        type State = bool;
        fn begin(&self, call: &mut Call<'_>) -> Result<bool, Failure> {
            Ok(call.message::<Sum>().is_some())
        }
        fn within(&self, goes_on: &mut bool, run: &mut dyn FnMut()) {
            if *goes_on {
                run();
                run();
            }
        }
    }
    let lazy = adder(&sim, Lazy)?;
    let errors = [
        sim.block_on(lazy.ask(Plain(1)))?.map_err(|error| error.to_string()),
        sim.block_on(lazy.ask(ByHand(1)))?.map_err(|error| error.to_string()),
        sim.block_on(lazy.ask(Exclusive(1)))?.map_err(|error| error.to_string()),
        sim.block_on(lazy.ask(Shared(1)))?.map_err(|error| error.to_string()),
    ];
    for error in errors {
        assert!(error.as_ref().is_err_and(|error| error.contains("did not go on")), "{error:?}");
    }
    assert_eq!(sim.block_on(lazy.ask(Sum))??, 0, "the actor came home and nothing was added");
    assert_eq!(lazy.system().dead_letters(), 0, "whoever asks is told");
    lazy.tell(Plain(1))?;
    lazy.tell(ByHand(1))?;
    sim.run_until_idle();
    assert_eq!(lazy.system().dead_letters(), 2);
    Ok(())
}

// O-T071
#[test]
fn a_panic_is_seen_and_may_be_translated_and_one_of_an_interceptor_fails_the_message_only() -> Tested
{
    let sim = Sim::fifo();
    let journal = Journal::default();
    let seen = adder(&sim, notes(&journal)("a"))?;
    let error = sim.block_on(seen.ask(Fall))?.map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("fell over")));
    assert!(taken(&journal).last().is_some_and(|line| line.contains("fell over")));

    let translated = adder(
        &sim,
        after(|_, outcome| {
            if outcome.error().is_some() {
                outcome.answer(99_u64);
            }
        }),
    )?;
    assert_eq!(sim.block_on(translated.ask(Fall))??, 99);

    let begins = adder(
        &sim,
        before(|call| match call.message_type().ends_with("Sum") {
            true => Ok(()),
            false => panic_any("at the begin"),
        }),
    )?;
    let error = sim.block_on(begins.ask(Plain(1)))?.map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("at the begin")));
    assert_eq!(sim.block_on(begins.ask(Sum))??, 0);

    let ends = adder(
        &sim,
        after(|info, _| {
            assert!(info.message_type().ends_with("Sum"), "at the end");
        }),
    )?;
    let error = sim.block_on(ends.ask(Plain(1)))?.map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("at the end")));
    assert_eq!(sim.block_on(ends.ask(Sum))??, 1, "it was handled, its answer lost");
    Ok(())
}

#[test]
fn a_state_whose_destructor_panics_fails_the_message_and_not_the_actor() -> Tested {
    struct Falls;
    impl Drop for Falls {
        fn drop(&mut self) {
            panic!("at the very end");
        }
    }
    struct Stateful;
    impl Interceptor for Stateful {
        type State = Falls;
        fn begin(&self, _: &mut Call<'_>) -> Result<Falls, Failure> {
            Ok(Falls)
        }
    }
    let sim = Sim::fifo();
    let adder = adder(&sim, Stateful)?;
    let error = sim.block_on(adder.ask(Plain(1)))?.expect_err("its interceptor has failed");
    assert!(error.to_string().contains("at the very end"), "{error}");
    assert!(!adder.phase().is_over(), "the actor goes on");
    let system = System::builder(&sim.group("cpu")).intercept_outgoing(Stateful).build();
    let other = system.spawn(Adder::default())?;
    let error = sim.block_on(other.ask(Plain(1)))?.expect_err("its interceptor has failed");
    assert!(error.to_string().contains("at the very end"), "{error}");
    Ok(())
}

#[test]
fn the_failure_of_one_that_refuses_reaches_the_caller_with_its_type() -> Tested {
    #[derive(Debug, thiserror::Error)]
    #[error("{0} may not")]
    struct Forbidden(String);

    let sim = Sim::fifo();
    let guarded = adder(
        &sim,
        before(|call| match call.request().get("user") {
            Some("ada") => Ok(()),
            user => Err(Failure::error(Forbidden(user.unwrap_or("nobody").to_owned()))),
        }),
    )?;
    let as_user = |name| RequestContext::new().with("user", name);
    let asked = as_user("ada").scope(|| guarded.ask(Plain(1)));
    assert_eq!(sim.block_on(asked)??, 1);
    let asked = as_user("bob").scope(|| guarded.ask(Plain(1)));
    let Err(AskError::Unanswered(failure)) = sim.block_on(asked)? else {
        return Err("bob was let through".into());
    };
    assert_eq!(failure.downcast_ref::<Forbidden>().map(|by| by.0.as_str()), Some("bob"));
    Ok(())
}

#[test]
fn one_may_change_the_request_context_of_the_handler_and_of_what_it_sends() -> Tested {
    struct Asks(Address<Tells>);
    struct Tells;
    struct Who;
    impl Actor for Asks {
        type Error = Infallible;
    }
    impl Actor for Tells {
        type Error = Infallible;
    }
    impl Handler<Who> for Tells {
        type Reply = Option<String>;
        fn handle(&mut self, _: Who, _: &mut Context<'_, Self>) -> Option<String> {
            RequestContext::current().get("tenant").map(str::to_owned)
        }
    }
    impl AsyncHandler<Who> for Asks {
        type Reply = (Option<String>, Option<String>);
        async fn handle(&mut self, _: Who, cx: AsyncContext<Self>) -> Self::Reply {
            cx.sleep(Duration::from_secs(1)).await.expect("there is room for a timer");
            let own = RequestContext::current().get("tenant").map(str::to_owned);
            (own, self.0.ask(Who).await.expect("it lives"))
        }
    }
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let entering = before(|call| {
        assert!(call.request().is_empty());
        call.set_request(RequestContext::new().with("tenant", "acme"));
        assert!(RequestContext::current().is_empty(), "it is for what follows");
        Ok(())
    });
    let tells = system.spawn(Tells)?;
    let asks = system.actor(Asks(tells)).intercept(entering).spawn()?;
    let asked = asks.ask(Who);
    sim.advance(Duration::from_secs(1));
    let acme = Some("acme".to_owned());
    assert_eq!(sim.block_on(asked)??, (acme.clone(), acme));
    Ok(())
}

// O-T071
#[test]
fn timers_streams_continuations_and_closures_pass_through_too() -> Tested {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let adder = adder(&sim, notes(&journal)("a"))?;
    let channel = Channel::bounded(4);
    adder.attach_channel(&channel)?;
    let mut asked = adder.with(|_, cx| {
        cx.tell_after(Duration::from_secs(1), Plain(1)).expect("there is room for a timer");
        cx.tell_every(Duration::from_secs(2), Late::Skip, || Plain(10)).expect("there is room");
        cx.pipe(std::future::ready(100), Plain);
        cx.tell_self(Plain(1_000)).expect("there is room in the mailbox");
    });
    sim.block_on(&mut asked)??;
    channel.send(Plain(10_000)).map_err(|_| "the channel is full")?;
    sim.advance(Duration::from_secs(3));
    assert_eq!(sim.block_on(adder.ask(Sum))??, 11_111);
    let begun = |name: &str| {
        let line = format!("a begins {name}");
        journal.lock().iter().filter(|known| known.starts_with(&line)).count()
    };
    assert_eq!((begun("Plain"), begun("Sum")), (5, 1));
    let closures = journal.lock().iter().filter(|line| line.contains("{{closure}}")).count();
    assert_eq!(closures, 1, "{:?}", journal.lock());
    Ok(())
}

#[test]
fn interceptors_of_a_type_of_entity_are_told_type_and_key() -> Tested {
    struct Other;
    impl Actor for Other {
        type Error = Infallible;
    }
    impl Entity for Other {
        type Key = u64;
        fn create(_: &u64) -> Self {
            Self
        }
    }
    impl Handler<Sum> for Other {
        type Reply = u64;
        fn handle(&mut self, _: Sum, _: &mut Context<'_, Self>) -> u64 {
            0
        }
    }
    let sim = Sim::fifo();
    let seen = Journal::default();
    let names = |seen: &Journal, prefix: &'static str| {
        let seen = Arc::clone(seen);
        before(move |call| {
            assert_eq!(call.direction(), Direction::Incoming);
            seen.lock().push(format!("{prefix} {} {}", short(call.actor()), short(call.class())));
            Ok(())
        })
    };
    let system = System::builder(&sim.group("cpu")).intercept(names(&seen, "system")).build();
    let entities = Entities::builder(&system).intercept::<Adder>(names(&seen, "type")).build();
    for round in 1..3 {
        assert_eq!(sim.block_on(entities.get::<Adder>("42").ask(Plain(1)))??, round);
        assert_eq!(taken(&seen), ["system Adder «42» Adder", "type Adder «42» Adder"]);
    }
    sim.block_on(entities.get::<Other>(7_u64).ask(Sum))??;
    assert_eq!(taken(&seen), ["system Other «7» Other"]);
    // A new activation has them too.
    sim.block_on(entities.get::<Adder>("42").passivate())??;
    assert_eq!(sim.block_on(entities.get::<Adder>("42").ask(Plain(1)))??, 1);
    assert_eq!(taken(&seen).len(), 2);
    Ok(())
}

#[test]
fn a_future_that_is_dropped_ends_its_interceptors() -> Tested {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let adder = adder(&sim, notes(&journal)("a"))?;
    let asked = adder.ask(Exclusive(1));
    sim.run_until_idle();
    sim.block_on(adder.kill())?.ok();
    assert!(sim.block_on(asked)?.is_err());
    let last = taken(&journal).pop();
    assert!(last.as_ref().is_some_and(|line| line.starts_with("a ends")), "{last:?}");
    Ok(())
}

#[test]
fn admission_holds_for_intercepted_actors_as_for_others() -> Tested {
    let sim = Sim::fifo();
    let adder = adder(&sim, before(|_| Ok(())))?;
    let reading = adder.ask(Shared(1));
    sim.run_until_idle();
    let writing = adder.ask(Plain(5));
    let exclusive = adder.ask(Exclusive(1));
    sim.run_until_idle();
    sim.advance(Duration::from_secs(3));
    assert_eq!(sim.block_on(reading)??, 1);
    assert_eq!(sim.block_on(writing)??, 5);
    assert_eq!(sim.block_on(exclusive)??, 6);
    Ok(())
}
