//! Messages that were given up, and are sent again when somebody asks for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use turnwheel_engine::{MemoryStore, Store, StoreError};
use turnwheel_journeys::{Channels, JourneyError, JourneysOptions, Message, Unsent, UserView};
use turnwheel_testkit::FaultStore;

use super::common::{open_with, Stage, P, SECOND};

const TEXT: &str = "
journey: two
platform: P
elements:
  go: { start: { on: go }, then: first }
  first: { send: { channel: chat, with: { text: one } }, then: second }
  second: { send: { channel: chat, with: { text: two } }, then: wait }
  wait: { wait: { on: x, for: P30D }, then: end, otherwise: end }
";

type Attempts = Arc<Mutex<Vec<(String, u32)>>>;

/// A stage whose channel refuses messages until it is told to take them, and its attempts.
fn stage(store: impl Store) -> (Stage, Attempts, Arc<AtomicBool>) {
    let mut stage = Stage::over(store, 7);
    stage.put(TEXT);
    stage.journeys.end();
    let (attempts, takes) = (Attempts::default(), Arc::new(AtomicBool::new(false)));
    let (noted, is_open) = (Arc::clone(&attempts), Arc::clone(&takes));
    let chat = move |message: &Message| {
        let is_taken = is_open.load(Ordering::SeqCst);
        noted.lock().expect("no panic before").push((message.key.clone(), message.attempt));
        if is_taken {
            Ok(())
        } else {
            Err(Unsent::Never("no such mailbox".to_owned()))
        }
    };
    let options = JourneysOptions::new(Channels::new().with("chat", chat));
    stage.journeys = open_with(&stage.sim, &stage.world, options);
    (stage, attempts, takes)
}

fn resend(stage: &Stage, key: Option<&str>) -> Result<UserView, JourneyError> {
    let asked = stage.wait(stage.journeys.resend(P, "u", key));
    stage.sim.run_until_idle();
    asked
}

fn keys(attempts: &Attempts) -> Vec<(String, u32)> {
    std::mem::take(&mut *attempts.lock().expect("no panic before"))
}

fn lost(stage: &Stage) -> Vec<String> {
    stage.user("u").lost.into_iter().map(|message| message.key).collect()
}

fn of(number: u32) -> String {
    format!("P/u/1/1/{number}")
}

#[test]
fn message_that_was_given_up_is_sent_again_with_its_key() {
    let (stage, attempts, takes) = stage(MemoryStore::new());
    stage.happen("u", "go", Value::Null);
    assert_eq!(keys(&attempts), [(of(1), 1), (of(2), 1)]);
    assert_eq!(lost(&stage), [of(1), of(2)]);
    let user = resend(&stage, Some(&of(2))).expect("it is lost");
    assert_eq!((user.lost.len(), user.outbox.len()), (1, 1), "it waits when this is durable");
    assert_eq!(keys(&attempts), [(of(2), 1)], "its attempts begin anew");
    assert_eq!(lost(&stage), [of(1), of(2)], "it was refused again");
    takes.store(true, Ordering::SeqCst);
    resend(&stage, None).expect("two are lost");
    assert_eq!(keys(&attempts), [(of(1), 1), (of(2), 1)], "in the order of their pass");
    assert!(lost(&stage).is_empty() && stage.user("u").outbox.is_empty());
    for key in [None, Some(of(1)), Some("other".to_owned())] {
        let refused = resend(&stage, key.as_deref());
        assert!(matches!(&refused, Err(JourneyError::NotLost { .. })), "{refused:?}");
    }
    assert!(keys(&attempts).is_empty());
}

#[test]
fn message_to_a_user_who_has_opted_out_is_not_sent_again() {
    let (stage, attempts, takes) = stage(MemoryStore::new());
    stage.happen("u", "go", Value::Null);
    takes.store(true, Ordering::SeqCst);
    stage.wait(stage.journeys.opt_out(P, "u", true)).expect("it is noted");
    let refused = resend(&stage, None).expect_err("the user wants none");
    assert_eq!(refused.to_string(), "message: the user has opted out");
    assert_eq!(keys(&attempts).len(), 2);
    stage.wait(stage.journeys.opt_out(P, "u", false)).expect("it is noted");
    resend(&stage, None).expect("the user wants them again");
    assert_eq!(keys(&attempts).len(), 2);
}

#[test]
fn messages_of_essential_journeys_alone_are_sent_again_to_a_user_who_has_opted_out() {
    let (stage, attempts, takes) = stage(MemoryStore::new());
    stage.put(
        "journey: bill\nplatform: P\nessential: true\nelements:\n  go: { start: { on: go }, then: \
         ask }\n  ask: { send: { channel: chat }, then: end }\n",
    );
    stage.happen("u", "go", Value::Null);
    assert_eq!(keys(&attempts).len(), 3);
    let all = lost(&stage);
    let (others, bill): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|key| key.starts_with("P/u/1/"));
    assert_eq!((others.len(), bill.len()), (2, 1));
    takes.store(true, Ordering::SeqCst);
    stage.wait(stage.journeys.opt_out(P, "u", true)).expect("it is noted");
    let refused = || resend(&stage, Some(&others[0])).expect_err("the user wants none").to_string();
    assert_eq!(refused(), "message: the user has opted out");
    resend(&stage, None).expect("one is wanted");
    let sent: Vec<String> = keys(&attempts).into_iter().map(|(key, _)| key).collect();
    assert_eq!((sent, lost(&stage)), (bill, others.clone()));
    resend(&stage, None).expect_err("those that are left are not wanted");
    assert_eq!((refused().as_str(), keys(&attempts).len()), ("message: the user has opted out", 0));
}

#[test]
fn message_that_a_command_beside_no_server_sends_again_leaves_when_one_runs() {
    let (mut stage, attempts, takes) = stage(MemoryStore::new());
    stage.happen("u", "go", Value::Null);
    assert_eq!(keys(&attempts).len(), 2);
    takes.store(true, Ordering::SeqCst);
    stage.journeys.end();
    let resting = stage.second(false);
    stage.wait(resting.resend(P, "u", Some(&of(1)))).expect("it is lost");
    stage.sim.run_until_idle();
    assert!(keys(&attempts).is_empty());
    resting.end();
    stage.outage(SECOND);
    assert_eq!(stage.messages(), ["first"]);
    assert_eq!(lost(&stage), [of(2)]);
}

#[test]
fn message_is_sent_again_or_lost_as_before_whichever_commit_is_the_last_one() {
    let mut outcomes = [0, 0];
    for last in 1..5 {
        let case = format!("killed at commit {last}");
        let memory = MemoryStore::new();
        let store = FaultStore::new(memory.clone());
        let (one, attempts, takes) = stage(store.clone());
        one.happen("u", "go", Value::Null);
        keys(&attempts);
        takes.store(true, Ordering::SeqCst);
        let commit = store.commits() + last;
        (0..99).for_each(|later| {
            store.fail_at(commit + later, StoreError::Failed("the process is gone".to_owned()));
        });
        let answer = resend(&one, None);
        let before = keys(&attempts);
        let two = Stage::over(memory.copied(), 6);
        two.sim.advance(15 * SECOND);
        let after = two.messages();
        match lost(&two).len() {
            0 => {
                let left = |number, text: &str| {
                    let key = of(number);
                    before.iter().any(|(sent, _)| *sent == key) || after.iter().any(|it| it == text)
                };
                assert!(left(1, "first") && left(2, "second"), "{case}: {before:?} {after:?}");
                outcomes[0] += 1;
            }
            2 => {
                assert!(answer.is_err() && before.is_empty() && after.is_empty(), "{case}");
                outcomes[1] += 1;
            }
            other => panic!("{case}: {other} are lost"),
        }
        assert!(two.user("u").outbox.is_empty(), "{case}");
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}
