//! Channels that tasks consume, and lists of conditions that are signalled together.

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use turnwheel_channel::{Channel, ChannelErrorKind, Consumer, Listeners};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{
    Completion, Condition, ConditionMode, Context, Failure, Group, Lifecycle, Phase, Pinning, Task,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn group(workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("t").workers(workers).pinning(Pinning::None).build()?)
}

/// Makes the task collect items.
fn collect(task: &Task<Vec<u32>>, channel: &Channel<u32>) -> Result<Consumer, Failure> {
    let channel = channel.clone();
    let push = |items: &mut Vec<u32>, _: &mut Context<'_, Vec<u32>>, item| items.push(item);
    task.call(move |_, cx| channel.consume(cx, push)).wait()
}

fn items(task: &Task<Vec<u32>>) -> Result<Vec<u32>, Failure> {
    task.call(|items, _| items.clone()).wait()
}

#[test]
fn items_are_consumed_in_the_order_sent() -> Outcome {
    let group = group(1)?;
    let channel = Channel::bounded(1_000);
    channel.send(0)?;
    let task = group.spawn(Vec::new())?;
    let consumer = collect(&task, &channel)?;
    for item in 1..1_000 {
        channel.send(item)?;
    }
    channel.drained().wait()?;
    assert_eq!(items(&task)?, (0..1_000).collect::<Vec<_>>());
    drop(consumer);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_full_or_closed_channel_gives_the_item_back() -> Outcome {
    let channel = Channel::bounded(2);
    channel.send('a')?;
    channel.send('b')?;
    let full = channel.send('c').expect_err("there is no room");
    assert_eq!((full.kind, full.item), (ChannelErrorKind::Full, 'c'));
    assert_eq!(full.to_string(), "the channel is full");
    assert_eq!(channel.try_take(), Some('a'));
    channel.send('c')?;
    channel.close();
    let closed = channel.send('d').expect_err("it is closed");
    assert_eq!((closed.kind, closed.item), (ChannelErrorKind::Closed, 'd'));
    assert!(channel.is_closed() && channel.len() == 2);
    assert_eq!((channel.try_take(), channel.try_take()), (Some('b'), Some('c')));
    assert_eq!(channel.try_take(), None);
    // Zero would refuse everything.
    assert!(Channel::bounded(0).send(()).is_ok());
    Ok(())
}

#[test]
fn a_flood_of_items_does_not_starve_the_tasks_other_work() -> Outcome {
    const ITEMS: u32 = 10_000;
    let group = group(1)?;
    let channel = Channel::bounded(ITEMS as usize);
    for item in 0..ITEMS {
        channel.send(item)?;
    }
    let task = group.spawn(Vec::new())?;
    let flood = channel.clone();
    let other = task.clone();
    let (seen, at) = mpsc::channel();
    let consumer = task.call(move |_, cx| {
        flood.consume(cx, move |items: &mut Vec<u32>, _, item| {
            if item == 0 {
                // Submitted while thousands of items wait.
                let seen = seen.clone();
                other
                    .submit(move |items, _| {
                        seen.send(items.len()).expect("the test listens");
                    })
                    .expect("there is room");
            }
            items.push(item);
        })
    });
    let consumer = consumer.wait()?;
    assert_eq!(at.recv_timeout(PATIENCE)?, 1, "it ran between the first two items");
    channel.drained().wait()?;
    drop(consumer);
    group.shutdown()?;
    Ok(())
}

#[test]
fn several_consumers_share_the_items_and_none_is_lost_or_doubled() -> Outcome {
    const PRODUCERS: u32 = 4;
    const ITEMS: u32 = 2_000;
    let group = group(2)?;
    let channel = Channel::bounded(64);
    let tasks: Vec<_> = (0..3).map(|_| group.spawn(Vec::new())).collect::<Result<_, _>>()?;
    let mut consumers = Vec::new();
    for task in &tasks {
        consumers.push(collect(task, &channel)?);
    }
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let channel = channel.clone();
            scope.spawn(move || {
                for number in 0..ITEMS {
                    let mut item = producer * ITEMS + number;
                    while let Err(full) = channel.send(item) {
                        assert_eq!(full.kind, ChannelErrorKind::Full);
                        item = full.item;
                        std::thread::yield_now();
                    }
                }
            });
        }
        // One consumer goes while the items arrive: the others take the rest.
        drop(consumers.pop());
    });
    channel.drained().wait()?;
    let mut all = Vec::new();
    for task in &tasks {
        let items = items(task)?;
        for producer in 0..PRODUCERS {
            let own: Vec<_> = items.iter().filter(|item| **item / ITEMS == producer).collect();
            assert!(own.is_sorted(), "items of one producer keep their order");
        }
        all.extend(items);
    }
    all.sort_unstable();
    assert_eq!(all, (0..PRODUCERS * ITEMS).collect::<Vec<_>>());
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_panicking_job_loses_its_item_only() -> Outcome {
    let group = group(1)?;
    let channel = Channel::bounded(8);
    let task = group.spawn(Vec::new())?;
    let panicking = channel.clone();
    let consumer = task.call(move |_, cx| {
        panicking.consume(cx, |items: &mut Vec<u32>, _, item| {
            assert_ne!(item, 2, "no such luck");
            items.push(item);
        })
    });
    let consumer = consumer.wait()?;
    for item in 1..=4 {
        channel.send(item)?;
    }
    channel.drained().wait()?;
    assert_eq!(items(&task)?, [1, 3, 4]);
    drop(consumer);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_cancelled_consumer_leaves_the_rest() -> Outcome {
    let group = group(1)?;
    let channel = Channel::bounded(8);
    let task = group.spawn(Vec::new())?;
    let consumer = collect(&task, &channel)?;
    channel.send(1)?;
    channel.drained().wait()?;
    consumer.cancel();
    channel.send(2)?;
    assert_eq!(items(&task)?, [1]);
    assert_eq!(channel.len(), 1);
    let _other = collect(&task, &channel)?;
    channel.drained().wait()?;
    assert_eq!(items(&task)?, [1, 2]);
    group.shutdown()?;
    Ok(())
}

#[test]
fn waiters_of_a_dropped_channel_are_told() -> Outcome {
    let channel = Channel::bounded(1);
    channel.send(())?;
    let drained = channel.drained();
    drop(channel);
    assert!(drained.wait().expect_err("nobody will take it").is_closed());
    Ok(())
}

/// Consumes from the starting hook on, and holds a phase until told.
struct Consumes {
    channel: Channel<u32>,
    held: Phase,
    hold: Option<Completion<()>>,
    consumer: Option<Consumer>,
    reached: mpsc::Sender<Phase>,
}

impl Consumes {
    fn pass(&mut self, cx: &mut Context<'_, Vec<u32>>) {
        if cx.phase() == self.held {
            if let Some(hold) = self.hold.take() {
                cx.on_completion_holding(hold, |_, _, _| ());
            }
        }
        self.reached.send(cx.phase()).expect("the test listens");
    }
}

impl Lifecycle<Vec<u32>> for Consumes {
    fn starting(
        &mut self,
        _: &mut Vec<u32>,
        cx: &mut Context<'_, Vec<u32>>,
    ) -> Result<(), Failure> {
        let push = |items: &mut Vec<u32>, cx: &mut Context<'_, Vec<u32>>, item| {
            assert_eq!(cx.phase(), Phase::Started);
            items.push(item);
        };
        self.consumer = Some(self.channel.consume(cx, push));
        self.pass(cx);
        Ok(())
    }

    fn close_requested(
        &mut self,
        _: &mut Vec<u32>,
        cx: &mut Context<'_, Vec<u32>>,
    ) -> Result<(), Failure> {
        self.pass(cx);
        Ok(())
    }

    fn closing(&mut self, _: &mut Vec<u32>, cx: &mut Context<'_, Vec<u32>>) -> Result<(), Failure> {
        self.pass(cx);
        Ok(())
    }
}

#[test]
fn items_are_consumed_in_phase_started_only() -> Outcome {
    let group = group(1)?;
    for held in [Phase::Starting, Phase::CloseRequested, Phase::Closing] {
        let channel = Channel::bounded(8);
        let (release, hold) = completion();
        let (reached, phases) = mpsc::channel();
        let (hold, consumer) = (Some(hold), None);
        let hooks = Consumes { channel: channel.clone(), held, hold, consumer, reached };
        let task = group.task(Vec::new()).lifecycle(hooks).spawn()?;
        if held == Phase::Starting {
            while phases.recv_timeout(PATIENCE)? != held {}
            channel.send(1)?;
            // Turns of other tasks on the only worker, so the consumer had its chance to run.
            group.spawn(())?.call(|(), _| ()).wait()?;
            assert_eq!(channel.len(), 1, "not while starting is held");
            release.complete(())?;
            task.started().wait()?;
            channel.drained().wait()?;
            assert_eq!(items(&task)?, [1], "once started");
        } else {
            task.started().wait()?;
            channel.send(1)?;
            channel.drained().wait()?;
            let closed = task.close();
            while phases.recv_timeout(PATIENCE)? != held {}
            channel.send(2)?;
            group.spawn(())?.call(|(), _| ()).wait()?;
            assert_eq!(channel.len(), 1, "not in phase {held:?}");
            release.complete(())?;
            closed.wait()?;
            channel.send(3)?;
            assert_eq!(channel.len(), 2, "not when closed");
        }
    }
    group.shutdown()?;
    Ok(())
}

/// A condition that sends its name.
fn named(
    task: &Task<()>,
    name: &'static str,
    to: &mpsc::Sender<&'static str>,
) -> Result<Condition, Failure> {
    let to = to.clone();
    let tell = move |(): &mut (), _: &mut Context<'_, ()>| {
        to.send(name).expect("the test listens");
    };
    task.call(move |(), cx| cx.condition(ConditionMode::Counting, tell)).wait()
}

#[test]
fn a_signal_reaches_everybody_in_the_list_and_nobody_else() -> Outcome {
    let group = group(1)?;
    let task = group.spawn(())?;
    let (to, signals) = mpsc::channel();
    let names = ["first", "middle", "last"];
    let conditions: Vec<_> =
        names.iter().map(|name| named(&task, name, &to)).collect::<Result<_, _>>()?;
    let listeners = Listeners::new();
    listeners.signal();
    // The removed listener, and the remaining ones in the order in which they were added.
    let cases: [(Option<usize>, &[&str]); 4] = [
        (None, &names),
        (Some(0), &["middle", "last"]),
        (Some(1), &["first", "last"]),
        (Some(2), &["first", "middle"]),
    ];
    for (removed, expected) in cases {
        let mut places: Vec<_> =
            conditions.iter().map(|condition| Some(listeners.add(condition))).collect();
        if let Some(index) = removed {
            places[index] = None;
        }
        assert_eq!(listeners.len(), expected.len());
        listeners.signal();
        for name in expected {
            assert_eq!(signals.recv_timeout(PATIENCE)?, *name);
        }
        drop(places);
        assert!(listeners.is_empty());
    }
    // A single listener, and the same one in two lists: leaving one list keeps the other.
    let other = Listeners::new();
    let alone = listeners.add(&conditions[0]);
    let elsewhere = other.add(&conditions[0]);
    drop(elsewhere);
    other.signal();
    listeners.signal();
    assert_eq!(signals.recv_timeout(PATIENCE)?, "first");
    drop(alone);
    group.shutdown()?;
    drop((conditions, to));
    assert!(signals.recv().is_err(), "nothing else was signalled");
    Ok(())
}
