//! Names: registration, look-up, and when a name is free again.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use turnwheel_actors::registry::{LookupError, RegisterError, NAME_BYTES_MAX, NAME_WAITERS_MAX};
use turnwheel_actors::{Actor, Address, Callee, Context, Handler, Pool, Recipient, System};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::{Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

const SEEDS: u64 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

struct Echo;

impl Actor for Echo {
    type Error = Infallible;
}

struct Say(u32);

impl Handler<Say> for Echo {
    type Reply = u32;

    fn handle(&mut self, Say(value): Say, _: &mut Context<'_, Self>) -> u32 {
        value
    }
}

struct Other;

impl Actor for Other {
    type Error = Infallible;
}

fn named(stage: &Stage<'_>, name: &str) -> Result<Address<Echo>, Box<dyn Error>> {
    Ok(stage.system().actor(Echo).name(name).spawn()?)
}

#[test]
fn a_name_is_given_found_taken_away_and_found_no_more() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (system, echo) = (stage.system(), named(&stage, "e")?);
        let unknown = LookupError::Unknown { name: "echo".to_owned() };
        assert_eq!(system.lookup::<Address<Echo>>("echo").err(), Some(unknown.clone()));
        system.register("echo", &echo)?;
        assert!(system.lookup::<Address<Echo>>("echo")? == echo);
        assert!(system.unregister("echo"));
        assert!(!system.unregister("echo"));
        assert_eq!(system.lookup::<Address<Echo>>("echo").err(), Some(unknown));
        assert_eq!(stage.answer(echo.ask(Say(1))), 1, "the actor lives on");
        drop(echo);
        stage.assert_empty();
    }
    Ok(())
}

#[test]
fn a_name_that_is_taken_is_refused_and_the_error_names_the_holder() -> Outcome {
    let stage = Stage::fifo();
    let (system, first) = (stage.system(), named(&stage, "first")?);
    system.register("echo", &first)?;
    let error = system.register("echo", &named(&stage, "second")?).expect_err("taken");
    let RegisterError::Taken { holder, type_name, .. } = &error else {
        return Err(error.into());
    };
    assert_eq!(holder, "first");
    assert!(type_name.contains("Address") && type_name.contains("Echo"));
    assert!(error.to_string().contains("\"echo\" belongs to the actor first"), "{error}");
    assert!(system.register("echo", &first).is_err(), "also for the holder itself");
    system.register("also", &first)?;
    let listed: Vec<_> = system.registered().into_iter().map(|one| (one.name, one.actor)).collect();
    let pair = |name: &str| (name.to_owned(), "first".to_owned());
    assert_eq!(listed, [pair("also"), pair("echo")]);
    Ok(())
}

#[test]
fn a_look_up_by_another_type_says_both() -> Outcome {
    let stage = Stage::fifo();
    let system = stage.system();
    system.register("echo", &named(&stage, "e")?)?;
    let error = system.lookup::<Address<Other>>("echo").expect_err("another type");
    let LookupError::WrongType { registered, wanted, .. } = &error else {
        return Err(error.into());
    };
    assert!(registered.contains("Echo") && wanted.contains("Other"), "{error}");
    assert!(matches!(system.lookup::<Recipient<Say>>("echo"), Err(LookupError::WrongType { .. })));
    let waiting = system.lookup_within::<Address<Other>>("echo", SECOND);
    assert!(matches!(stage.wait(waiting)?, Err(LookupError::WrongType { .. })));
    Ok(())
}

#[test]
fn recipients_callees_and_pools_have_names_too() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (system, echo) = (stage.system(), named(&stage, "e")?);
        system.register("recipient", &echo.recipient::<Say, _>())?;
        system.register("callee", &echo.callee::<Say, _>())?;
        let pool = system.pool(|| Echo).fixed(2).build()?;
        system.register("pool", &pool)?;
        system.lookup::<Recipient<Say>>("recipient")?.tell(Say(1))?;
        let callee: Callee<Say, u32> = system.lookup("callee")?;
        assert_eq!(stage.answer(callee.ask(Say(2))), 2);
        let found: Pool<Echo> = system.lookup("pool")?;
        assert_eq!(stage.answer(found.ask(Say(3))), 3);
        drop((pool, found, callee));
        stage.run();
        let pool: Pool<Echo> = system.lookup("pool")?;
        assert_eq!(stage.answer(pool.ask(Say(4))), 4, "its name keeps it");
        stage.wait(pool.close())??;
        assert!(system.lookup::<Pool<Echo>>("pool").is_err());
        assert!(system.unregister("recipient") && system.unregister("callee"));
        drop((pool, echo));
        stage.assert_empty();
    }
    Ok(())
}

#[test]
fn the_end_of_an_actor_frees_its_names() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (system, first) = (stage.system(), named(&stage, "first")?);
        system.register("a", &first)?;
        system.register("b", &first.recipient::<Say, _>())?;
        if seed % 2 == 0 {
            stage.wait(first.close())??;
        } else {
            assert!(stage.wait(first.kill())?.is_err());
        }
        assert!(system.registered().is_empty());
        assert!(system.lookup::<Address<Echo>>("a").is_err());
        assert!(!system.unregister("b"));
        let ended = system.register("a", &first).expect_err("it has ended");
        assert!(matches!(ended, RegisterError::Ended { .. }), "{ended}");
        // The end of the former holder takes nothing from the next.
        let second = named(&stage, "second")?;
        system.register("a", &second)?;
        stage.run();
        assert!(system.lookup::<Address<Echo>>("a")? == second);
        assert!(system.unregister("a"));
        // Nor does an end after the name was passed on.
        let third = named(&stage, "third")?;
        system.register("a", &third)?;
        stage.wait(second.close())??;
        assert!(system.lookup::<Address<Echo>>("a")? == third);
        stage.wait(third.close())??;
        drop((first, second, third));
        stage.assert_empty();
    }
    Ok(())
}

#[test]
fn look_ups_that_were_given_up_make_room_for_others() -> Outcome {
    let stage = Stage::new(1);
    let look_up = || stage.system().lookup_within::<Address<Echo>>("echo", 10 * SECOND);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut waiting = Vec::new();
    for _ in 0..NAME_WAITERS_MAX {
        let mut one = Box::pin(look_up());
        assert!(one.as_mut().poll(&mut cx).is_pending());
        waiting.push(one);
    }
    let error = stage.wait(look_up())?.err();
    assert_eq!(error, Some(LookupError::TooManyWaiting { name: "echo".to_owned() }));
    drop(waiting);
    let error = stage.wait(look_up())?.err();
    assert!(matches!(error, Some(LookupError::TimedOut { .. })), "it may wait: {error:?}");
    Ok(())
}

#[test]
fn a_look_up_waits_for_a_name_up_to_its_limit() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let system = stage.system();
        let late = stage.wait(system.lookup_within::<Address<Echo>>("echo", 3 * SECOND))?;
        let limit = 3 * SECOND;
        assert_eq!(late.err(), Some(LookupError::TimedOut { name: "echo".to_owned(), limit }));
        assert_eq!(stage.now(), 3 * SECOND);

        // A handler that starts before the service that it needs.
        let probe = stage.probe::<bool>("seeker");
        let seeking = system.lookup_within::<Address<Echo>>("echo", 10 * SECOND);
        let found = probe.address().with(move |_, cx| {
            cx.pipe(seeking, |found| found.is_ok());
        });
        stage.answer(found);
        probe.expect_none();
        system.register("another", &named(&stage, "n")?)?;
        probe.expect_none();
        let echo = named(&stage, "e")?;
        system.register("echo", &echo)?;
        probe.expect(|found| *found);
        let at_once = system.lookup_within::<Address<Echo>>("echo", Duration::ZERO);
        assert!(stage.wait(at_once)?? == echo);
    }
    Ok(())
}

#[test]
fn look_up_in_a_group_that_has_ended_is_over_at_once() -> Outcome {
    let group = Group::builder("names").workers(1).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let before = system.lookup_within::<Address<Echo>>("echo", 10 * PATIENCE);
    group.shutdown()?;
    let after = system.lookup_within::<Address<Echo>>("echo", 10 * PATIENCE);
    let (tell, told) = std::sync::mpsc::channel();
    // On a thread of its own: a look-up that never ends fails the test and does not hang it.
    std::thread::spawn(move || {
        for look_up in [before, after] {
            let _ = tell.send(block_on(look_up).map(Result::err));
        }
    });
    for _ in 0..2 {
        let error = told.recv_timeout(PATIENCE)??;
        assert!(matches!(error, Some(LookupError::TimedOut { .. })), "{error:?}");
    }
    Ok(())
}

#[test]
fn names_without_or_with_too_many_letters_are_refused() -> Outcome {
    let stage = Stage::fifo();
    let (system, echo) = (stage.system(), named(&stage, "e")?);
    for name in [String::new(), "n".repeat(NAME_BYTES_MAX + 1)] {
        let bytes = name.len();
        let refused = Some(RegisterError::NameLength { bytes });
        assert_eq!(system.register(&name, &echo).err(), refused);
    }
    system.register(&"n".repeat(NAME_BYTES_MAX), &echo)?;
    Ok(())
}

#[test]
fn of_many_that_want_a_name_one_gets_it_and_names_follow_ends_on_all_threads() -> Outcome {
    const ROUNDS: usize = 200;
    for workers in [1, 2, 4] {
        let group = Group::builder("names").workers(workers).pinning(Pinning::None).build()?;
        let system = System::new(&group);
        for _ in 0..ROUNDS {
            let winners: Vec<_> = std::thread::scope(|scope| {
                let wanting: Vec<_> = (0..3)
                    .map(|_| {
                        let system = &system;
                        scope.spawn(move || {
                            let echo = system.spawn(Echo).expect("the group is open");
                            system.register("one", &echo).is_ok().then_some(echo)
                        })
                    })
                    .collect();
                let joined = wanting.into_iter().map(|one| one.join().expect("no panic"));
                joined.flatten().collect()
            });
            assert_eq!(winners.len(), 1);
            assert!(system.lookup::<Address<Echo>>("one")? == winners[0]);
            winners[0].close().wait_timeout(PATIENCE)?;
        }
        let last = system.spawn(Echo)?;
        system.register("one", &last)?;
        // The registry keeps it, until the group ends.
        drop(last);
        let found: Address<Echo> = system.lookup("one")?;
        assert_eq!(found.ask(Say(5)).wait()?, 5);
        group.shutdown()?;
        assert!(system.registered().is_empty());
    }
    Ok(())
}
