//! Topics: delivery, order, and subscribers without room.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Context as Poll1, Poll, Wake, Waker};
use std::time::Duration;

use turnwheel_actors::{
    Actor, Address, AsyncContext, AsyncHandler, Context, DeadLetterReason, Handler, SubscriptionId,
    System, Topic, TopicOverflow, TOPIC_KEPT_MAX,
};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Completer, Completion, Group, Mailbox, Overflow, Pinning};

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

// O-T166
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

// O-T166
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
            assert_eq!(topic.missed(), u64::try_from(missed)?);
            assert_eq!(topic.subscribers(), 2);
        } else {
            assert_eq!((missed, topic.missed(), topic.subscribers()), (1, 1, 1));
        }
        group.shutdown()?;
    }
    Ok(())
}

#[test]
fn a_subscriber_stays_when_the_mailboxes_of_the_group_hold_all_they_may() -> Outcome {
    for overflow in [TopicOverflow::Wait, TopicOverflow::Coalesce] {
        let sim = Sim::fifo();
        let group = sim.build(Group::builder("topic").memory_budget(200))?;
        let log = System::new(&group).spawn(Log::default())?;
        sim.run_until_idle();
        let topic = Topic::new();
        topic.subscribe(log.recipient(), overflow);
        while log.tell(Note(0)).is_ok() {}
        let published = topic.publish(&Note(7));
        assert_eq!((published.deferred, published.removed), (1, 0), "{overflow:?}");
        sim.run_until_idle();
        assert_eq!((topic.subscribers(), topic.missed()), (1, 0), "{overflow:?}");
        let notes = sim.block_on(log.with(|log, _| log.0.clone()))?;
        let notes = notes.map_err(|error| error.to_string())?;
        assert_eq!(notes.last(), Some(&7), "{overflow:?}");
    }
    Ok(())
}

// O-T166
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
    assert_eq!((published.delivered, published.removed), (0, 1), "{published:?}");
    assert_eq!(topic.subscribers(), 0);
    assert!(notes(&left)?.is_empty());
    group.shutdown()?;
    Ok(())
}

const SEEDS: u64 = 20;

/// Holds the actor until the test lets it go; its mailbox fills meanwhile.
struct Block(Completion<()>);

impl AsyncHandler<Block> for Log {
    type Reply = ();

    async fn handle(&mut self, Block(go): Block, _: AsyncContext<Self>) {
        // The test may let go by dropping its end.
        let _ = go.await;
    }
}

/// A slow subscriber with so many places, which is held.
fn slow(stage: &Stage<'_>, places: u64) -> Result<(Address<Log>, Completer<()>), Box<dyn Error>> {
    let mailbox = Mailbox::bounded(places);
    let log = stage.system().actor(Log::default()).name("slow").mailbox(mailbox).spawn()?;
    let (go, waiting) = completion();
    log.tell(Block(waiting)).map_err(|error| error.to_string())?;
    stage.run();
    Ok((log, go))
}

fn read(stage: &Stage<'_>, log: &Address<Log>) -> Vec<u32> {
    stage.run();
    stage.answer(log.with(|log, _| log.0.clone()))
}

#[test]
fn the_oldest_kept_are_dropped_and_the_order_stays() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (log, go) = slow(&stage, 2)?;
        let quick = stage.spawn(Log::default());
        let topic = Topic::new();
        let id = topic.subscribe(log.recipient(), TopicOverflow::DropOldest { keep: 3 });
        topic.subscribe(quick.recipient(), TopicOverflow::Reject);
        let mut sums = (0, 0);
        for value in 0..10 {
            let published = topic.publish(&Note(value));
            sums.0 += published.delivered;
            sums.1 += published.deferred;
            assert_eq!((published.rejected, published.removed), (0, 0));
        }
        assert_eq!(sums, (12, 8), "two places, and the quick one");
        let info = &topic.subscriptions()[0];
        assert_eq!((info.id, info.missed, info.kept), (id, 5, 3), "{info:?}");
        assert_eq!((topic.missed(), stage.dead_letters().len()), (5, 5));
        assert_eq!(stage.dead_letters()[0].recipient, "slow");
        assert_eq!(stage.dead_letters()[0].reason, DeadLetterReason::Dropped);
        assert_eq!(read(&stage, &quick), (0..10).collect::<Vec<_>>());
        go.complete(()).map_err(|_| "once")?;
        assert_eq!(read(&stage, &log), [0, 1, 7, 8, 9]);
        // With room again nothing is kept.
        assert_eq!(topic.publish(&Note(10)).delivered, 2);
        assert_eq!(read(&stage, &log), [0, 1, 7, 8, 9, 10]);
        assert_eq!(topic.subscriptions()[0].kept, 0);
        drop((topic, log, quick));
        stage.assert_empty();
    }
    Ok(())
}

#[test]
fn the_latest_replaces_the_one_before() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (log, go) = slow(&stage, 1)?;
        let topic = Topic::new();
        topic.subscribe(log.recipient(), TopicOverflow::Coalesce);
        for value in 0..100 {
            topic.publish(&Note(value));
            // Kept messages may change while the topic waits for room.
            if seed % 2 == 0 {
                stage.run();
            }
        }
        assert_eq!((topic.missed(), topic.subscriptions()[0].kept), (98, 1));
        go.complete(()).map_err(|_| "once")?;
        assert_eq!(read(&stage, &log), [0, 99]);
    }
    Ok(())
}

#[test]
fn a_publisher_that_waits_is_told_when_all_have_accepted() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (first, first_go) = slow(&stage, 1)?;
        let (second, second_go) = slow(&stage, 2)?;
        let (careless, careless_go) = slow(&stage, 1)?;
        let topic = Topic::new();
        topic.subscribe(first.recipient(), TopicOverflow::Wait);
        topic.subscribe(second.recipient(), TopicOverflow::Wait);
        topic.subscribe(careless.recipient(), TopicOverflow::Reject);
        let mut accepted: Vec<_> =
            (0..3).map(|value| topic.publish_accepted(&Note(value))).collect();
        stage.run();
        let published = accepted[0].try_take().ok_or("all have room for the first")??;
        assert_eq!((published.delivered, published.rejected), (3, 0));
        assert!(!accepted[1].is_done(), "the first subscriber has no room");
        first_go.complete(()).map_err(|_| "once")?;
        stage.run();
        let published = accepted[1].try_take().ok_or("now it has")??;
        assert_eq!((published.delivered, published.rejected), (2, 1));
        assert!(!accepted[2].is_done(), "the second has no room for the third");
        second_go.complete(()).map_err(|_| "once")?;
        stage.run();
        assert!(accepted[2].is_done());
        for log in [&first, &second] {
            assert_eq!(read(&stage, log), [0, 1, 2]);
        }
        careless_go.complete(()).map_err(|_| "once")?;
        assert_eq!(read(&stage, &careless), [0]);
    }
    Ok(())
}

#[test]
fn a_kept_message_of_a_subscriber_that_ends_or_leaves_is_counted_and_its_publisher_told() -> Outcome
{
    for seed in 0..SEEDS {
        for leaves in [false, true] {
            let stage = Stage::new(seed);
            let (log, go) = slow(&stage, 1)?;
            let topic = Topic::new();
            let id = topic.subscribe(log.recipient(), TopicOverflow::Wait);
            let mut accepted: Vec<_> =
                (0..4).map(|value| topic.publish_accepted(&Note(value))).collect();
            stage.run();
            if leaves {
                assert!(topic.unsubscribe(id));
            } else {
                assert!(stage.wait(log.kill())?.is_err());
            }
            stage.run();
            for completion in &mut accepted[1..] {
                let published = completion.try_take().ok_or("told")??;
                assert_eq!((published.delivered, published.removed), (0, 1));
            }
            assert_eq!((topic.missed(), topic.subscribers()), (3, 0));
            let pumps = stage.group().tasks().into_iter().filter(|task| task.class == "topic");
            assert_eq!(pumps.count(), 0, "nothing waits for room, though there is none");
            assert_eq!(topic.publish(&Note(9)).delivered, 0);
            drop((topic, go, log));
            stage.assert_empty();
        }
    }
    Ok(())
}

#[test]
fn what_is_kept_is_bounded() -> Outcome {
    let stage = Stage::fifo();
    let (log, go) = slow(&stage, 1)?;
    let topic = Topic::new();
    topic.subscribe(log.recipient(), TopicOverflow::Wait);
    let keep = usize::MAX;
    topic.subscribe(log.recipient(), TopicOverflow::DropOldest { keep });
    for value in 0..u32::try_from(TOPIC_KEPT_MAX)? + 10 {
        topic.publish(&Note(value));
    }
    let kept: Vec<_> = topic.subscriptions().iter().map(|one| one.kept).collect();
    assert_eq!(kept, [TOPIC_KEPT_MAX, TOPIC_KEPT_MAX]);
    let published = topic.publish_accepted(&Note(0));
    let published = stage.wait(published)??;
    assert_eq!(
        (published.rejected, published.deferred),
        (1, 1),
        "one waits no more, one displaces"
    );
    drop(go);
    Ok(())
}

#[test]
fn a_mailbox_that_promises_no_places_misses_what_it_has_no_room_for() -> Outcome {
    let stage = Stage::fifo();
    let mailbox = Mailbox::bounded(1).overflow(Overflow::CoalesceByKey);
    let log = stage.system().actor(Log::default()).mailbox(mailbox).spawn()?;
    let (go, waiting) = completion();
    log.tell(Block(waiting)).map_err(|error| error.to_string())?;
    stage.run();
    let topic = Topic::new();
    topic.subscribe(log.recipient(), TopicOverflow::Wait);
    let accepted: Vec<_> = (0..3).map(|value| topic.publish_accepted(&Note(value))).collect();
    let mut ends = Vec::new();
    for completion in accepted {
        let published = stage.wait(completion)??;
        ends.push((published.delivered, published.rejected));
    }
    assert_eq!(ends, [(1, 0), (0, 1), (0, 1)]);
    assert_eq!((topic.missed(), topic.subscribers()), (2, 1));
    go.complete(()).map_err(|_| "once")?;
    assert_eq!(read(&stage, &log), [0]);
    Ok(())
}

/// A note of one of several publishers.
#[derive(Clone)]
struct From(usize, u32);

#[derive(Default)]
struct Ledger(Vec<(usize, u32)>);

impl Actor for Ledger {
    type Error = Infallible;
}

impl Handler<From> for Ledger {
    type Reply = ();

    fn handle(&mut self, From(publisher, value): From, _: &mut Context<'_, Self>) {
        self.0.push((publisher, value));
    }
}

#[test]
fn the_order_of_each_publisher_stays_under_every_policy() -> Outcome {
    const PUBLISHERS: usize = 3;
    const NOTES: u32 = 2_000;
    let policies = [
        TopicOverflow::Reject,
        TopicOverflow::DropOldest { keep: 5 },
        TopicOverflow::Coalesce,
        TopicOverflow::Wait,
    ];
    for workers in [1, 2, 4] {
        let group = Group::builder("topic").workers(workers).pinning(Pinning::None).build()?;
        let system = System::new(&group);
        let topic = Topic::new();
        let mut ledgers = Vec::new();
        for policy in policies {
            let ledger = system.actor(Ledger::default()).mailbox(Mailbox::bounded(4)).spawn()?;
            topic.subscribe(ledger.recipient(), policy);
            ledgers.push(ledger);
        }
        std::thread::scope(|scope| {
            for publisher in 0..PUBLISHERS {
                let topic = topic.clone();
                scope.spawn(move || {
                    for value in 0..NOTES {
                        let accepted = topic.publish_accepted(&From(publisher, value));
                        accepted.wait_timeout(PATIENCE).expect("all accept");
                    }
                });
            }
        });
        // The pump moves kept messages while publishers go on: each ledger is complete when none is
        // kept.
        let kept = || topic.subscriptions().iter().map(|one| one.kept).sum::<usize>();
        let end = std::time::Instant::now() + PATIENCE;
        while kept() > 0 {
            assert!(std::time::Instant::now() < end, "it is moved");
            std::thread::yield_now();
        }
        let infos = topic.subscriptions();
        assert_eq!(infos.iter().map(|one| one.missed).sum::<u64>(), topic.missed());
        assert_eq!(infos[3].missed, 0, "with publishers that wait nothing is missed");
        drop(topic);
        for (ledger, info) in ledgers.into_iter().zip(infos) {
            // The last of the kept may be on its way, and its mailbox full.
            let all = loop {
                assert!(std::time::Instant::now() < end, "all has arrived or is counted: {info:?}");
                let all = match ledger.with(|ledger, _| ledger.0.clone()).wait() {
                    Err(error) if error.is_full() => continue,
                    all => all.map_err(|error| error.to_string())?,
                };
                if all.len() as u64 + info.missed == PUBLISHERS as u64 * u64::from(NOTES) {
                    break all;
                }
            };
            for publisher in 0..PUBLISHERS {
                let values = all.iter().filter(|(from, _)| *from == publisher);
                assert!(values.map(|(_, value)| value).is_sorted(), "{:?}", info.overflow);
            }
        }
        group.shutdown()?;
    }
    Ok(())
}

#[test]
fn a_topic_outlives_the_group_of_its_subscribers() -> Outcome {
    let group = Group::builder("topic").workers(1).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let log = system.actor(Log::default()).mailbox(Mailbox::bounded(1)).spawn()?;
    let topic = Topic::new();
    topic.subscribe(log.recipient(), TopicOverflow::Wait);
    let go = hold(&log)?;
    let accepted: Vec<_> = (0..4).map(|value| topic.publish_accepted(&Note(value))).collect();
    drop(log);
    go.send(())?;
    group.shutdown()?;
    for completion in accepted {
        completion.wait_timeout(PATIENCE)?;
    }
    let published = topic.publish_accepted(&Note(9)).wait_timeout(PATIENCE)?;
    assert_eq!((published.delivered, published.removed), (0, 1));
    assert_eq!(topic.subscribers(), 0);
    Ok(())
}

/// Uses the topic that it is woken by.
struct Reenter(Topic<Note>, SubscriptionId, Mutex<Option<bool>>);

impl Wake for Reenter {
    fn wake(self: Arc<Self>) {
        let was_there = self.0.unsubscribe(self.1);
        let published = self.0.publish(&Note(9));
        assert_eq!((published.delivered, self.0.subscriptions().len()), (0, 0));
        *self.2.lock().expect("it is woken once") = Some(was_there);
    }
}

#[test]
fn waker_of_a_publication_may_use_its_topic() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let log = system.actor(Log::default()).mailbox(Mailbox::bounded(1)).spawn()?;
    let topic = Topic::new();
    let id = topic.subscribe(log.recipient(), TopicOverflow::Wait);
    assert_eq!(topic.publish(&Note(1)).delivered, 1);
    let mut published = topic.publish_accepted(&Note(2));
    let woken = Arc::new(Reenter(topic, id, Mutex::new(None)));
    let waker = Waker::from(Arc::clone(&woken));
    let polled = Pin::new(&mut published).poll(&mut Poll1::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending), "there is no room yet");
    sim.run_until_idle();
    assert_eq!(*woken.2.lock().expect("it is woken once"), Some(true));
    assert_eq!(sim.wait(published)?.delivered, 1);
    assert_eq!(sim.block_on(log.with(|log, _| log.0.clone()))??, [1, 2]);
    Ok(())
}
