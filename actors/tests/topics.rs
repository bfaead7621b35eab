//! Topics: who gets a message, in which order, and what becomes of those who cannot take it.

use std::convert::Infallible;
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use turnwheel_actors::{Actor, Address, Context, Handler, System, Topic, TopicOverflow};
use turnwheel_runtime::{Group, Mailbox, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Log(Vec<u32>);

impl Actor for Log {
    type Error = Infallible;
}

#[derive(Clone)]
struct Note(u32);

impl Handler<Note> for Log {
    type Reply = ();

    fn handle(&mut self, Note(value): Note, _: &mut Context<'_, Self>) {
        self.0.push(value);
    }
}

/// Holds the actor's turn until the test lets it go.
struct Hold(mpsc::Sender<()>, mpsc::Receiver<()>);

impl Handler<Hold> for Log {
    type Reply = ();

    fn handle(&mut self, Hold(begun, go): Hold, _: &mut Context<'_, Self>) {
        begun.send(()).expect("the test listens");
        go.recv_timeout(PATIENCE).expect("the test lets go");
    }
}

fn hold(log: &Address<Log>) -> Result<mpsc::Sender<()>, Box<dyn Error>> {
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    log.tell(Hold(begun, may_go)).map_err(|error| error.to_string())?;
    has_begun.recv_timeout(PATIENCE)?;
    Ok(go)
}

fn notes(log: &Address<Log>) -> Result<Vec<u32>, Box<dyn Error>> {
    let notes = log.with(|log, _| log.0.clone()).wait();
    Ok(notes.map_err(|error| error.to_string())?)
}

#[test]
fn each_subscriber_gets_all_in_the_order_published() -> Outcome {
    for workers in [1, 2, 4] {
        let group = Group::builder("topic").workers(workers).pinning(Pinning::None).build()?;
        let system = System::new(&group);
        let logs = [system.spawn(Log::default())?, system.spawn(Log::default())?];
        let topic = Topic::new();
        for log in &logs {
            topic.subscribe(log.recipient(), TopicOverflow::Reject);
        }
        for value in 0..100 {
            assert_eq!(topic.publish(&Note(value)).delivered, 2);
        }
        for log in &logs {
            assert_eq!(notes(log)?, (0..100).collect::<Vec<_>>());
        }
        group.shutdown()?;
    }
    Ok(())
}

#[test]
fn a_full_subscriber_misses_it_or_is_removed_and_the_others_get_it() -> Outcome {
    for overflow in [TopicOverflow::Reject, TopicOverflow::Unsubscribe] {
        let group = Group::builder("topic").workers(2).pinning(Pinning::None).build()?;
        let system = System::new(&group);
        let slow = system.actor(Log::default()).mailbox(Mailbox::bounded(1)).spawn()?;
        let quick = system.spawn(Log::default())?;
        let topic = Topic::new();
        topic.subscribe(slow.recipient(), overflow);
        topic.subscribe(quick.recipient(), TopicOverflow::Reject);
        let go = hold(&slow)?;
        let mut missed = 0;
        for value in 0..10 {
            let published = topic.publish(&Note(value));
            missed += published.rejected + published.removed;
        }
        go.send(())?;
        assert_eq!(notes(&quick)?, (0..10).collect::<Vec<_>>());
        if overflow == TopicOverflow::Reject {
            assert!(missed >= 8, "one place and ten messages, {missed} missed");
            assert_eq!(topic.rejected(), u64::try_from(missed)?);
            assert_eq!(topic.subscribers(), 2);
        } else {
            assert_eq!((missed, topic.rejected(), topic.subscribers()), (1, 0, 1));
        }
        group.shutdown()?;
    }
    Ok(())
}

#[test]
fn a_subscriber_that_has_ended_or_left_is_gone() -> Outcome {
    let group = Group::builder("topic").workers(1).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let (ended, left) = (system.spawn(Log::default())?, system.spawn(Log::default())?);
    let topic = Topic::new();
    topic.subscribe(ended.recipient(), TopicOverflow::Reject);
    let id = topic.subscribe(left.recipient(), TopicOverflow::Reject);
    assert!(topic.unsubscribe(id));
    assert!(!topic.unsubscribe(id));
    ended.close().wait()?;
    let published = topic.publish(&Note(1));
    assert_eq!((published.delivered, published.removed), (0, 1));
    assert_eq!(topic.subscribers(), 0);
    assert!(notes(&left)?.is_empty());
    group.shutdown()?;
    Ok(())
}
