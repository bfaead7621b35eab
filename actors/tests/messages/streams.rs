//! Streams of messages in: pulled at the actor's pace, between its other messages, with its life.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Poll1, Poll, Waker};

use futures_core::Stream;
use turnwheel_actors::{
    Actor, Admits, Context, Directive, Handler, InterleavedHandler, RequestContext, System,
};
use turnwheel_channel::Channel;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Completion, Failure, Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

/// Counts up as fast as it is polled; pends first if requested.
struct Counting {
    next: u32,
    end: u32,
    pulled: Arc<AtomicU32>,
}

impl Counting {
    fn to(end: u32) -> (Self, Arc<AtomicU32>) {
        let pulled = Arc::new(AtomicU32::new(0));
        (Self { next: 0, end, pulled: Arc::clone(&pulled) }, pulled)
    }
}

impl Stream for Counting {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Poll1<'_>) -> Poll<Option<Item>> {
        if self.next == self.end {
            return Poll::Ready(None);
        }
        // Every third poll pends, and wakes at once.
        if self.pulled.fetch_add(1, Ordering::AcqRel) % 3 == 2 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.next += 1;
        Poll::Ready(Some(Item(self.next - 1)))
    }
}

/// A stream that a test feeds by hand.
#[derive(Clone, Default)]
struct Fed(Arc<Mutex<(Vec<Item>, Option<Waker>)>>);

impl Fed {
    fn feed(&self, item: u32) {
        let waker = {
            let mut inside = self.0.lock().expect("nobody panics here");
            inside.0.insert(0, Item(item));
            inside.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Stream for Fed {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Poll1<'_>) -> Poll<Option<Item>> {
        let mut inside = self.0.lock().expect("nobody panics here");
        match inside.0.pop() {
            Some(item) => Poll::Ready(Some(item)),
            None => {
                inside.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

struct Item(u32);

#[derive(Default)]
struct Sink {
    seen: Vec<u32>,
    users: Vec<Option<String>>,
}

impl Actor for Sink {
    type Error = Infallible;

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        Directive::Resume
    }
}

impl Handler<Item> for Sink {
    type Reply = ();

    fn handle(&mut self, Item(value): Item, _: &mut Context<'_, Self>) {
        assert_ne!(value, 13, "on purpose");
        self.seen.push(value);
        self.users.push(RequestContext::current().get("user").map(str::to_owned));
    }
}

struct Seen;

impl Handler<Seen> for Sink {
    type Reply = Vec<u32>;

    fn handle(&mut self, _: Seen, _: &mut Context<'_, Self>) -> Vec<u32> {
        self.seen.clone()
    }
}

struct Users;

impl Handler<Users> for Sink {
    type Reply = Vec<Option<String>>;

    fn handle(&mut self, _: Users, _: &mut Context<'_, Self>) -> Vec<Option<String>> {
        self.users.clone()
    }
}

/// Keeps messages out until the gate opens.
struct Busy(Completion<()>);

impl InterleavedHandler<Busy> for Sink {
    type Reply = ();
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        Busy(gate): Busy,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let name = cx.name().to_owned();
        async move { gate.await.unwrap_or_else(|failure| panic!("{name}: {failure}")) }
    }
}

/// Lets further readers in until the gate opens.
struct Reads(Completion<()>);

impl InterleavedHandler<Reads> for Sink {
    type Reply = ();
    const ADMITS: Admits = Admits::Readers;

    fn handle(
        &mut self,
        Reads(gate): Reads,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let name = cx.name().to_owned();
        async move { gate.await.unwrap_or_else(|failure| panic!("{name}: {failure}")) }
    }
}

#[test]
fn every_item_is_handled_once_and_in_order_and_the_end_is_told() -> Outcome {
    let group = Group::builder("streams").workers(2).pinning(Pinning::None).build()?;
    let sink = System::new(&group).spawn(Sink::default())?;
    let (stream, _) = Counting::to(12);
    let attached = sink.attach(stream)?;
    attached.ended().wait()?;
    assert_eq!(sink.ask(Seen).wait()?, (0..12).collect::<Vec<_>>());
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_stream_that_always_has_an_item_starves_no_message() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let sink = System::new(&sim.group("cpu")).spawn(Sink::default())?;
        let (stream, pulled) = Counting::to(u32::MAX);
        let attached = sink.attach(stream)?;
        for _ in 0..10 {
            // Each answer needs a turn while the stream never ends; 13 panics, and the next follow.
            sim.block_on(sink.ask(Seen))??;
        }
        let before = pulled.load(Ordering::Acquire);
        attached.cancel();
        sim.run_until_idle();
        assert!(pulled.load(Ordering::Acquire) <= before + 1, "pulled on; seed {seed}");
        assert!(matches!(sim.wait(attached.ended()), Err(Failure::Abandoned)));
    }
    Ok(())
}

#[test]
fn an_actor_that_keeps_messages_out_pulls_nothing_until_it_takes_some_again() -> Outcome {
    let sim = Sim::fifo();
    let sink = System::new(&sim.group("cpu")).spawn(Sink::default())?;
    let (open, gate) = completion();
    let busy = sink.ask(Busy(gate));
    sim.run_until_idle();
    let (stream, pulled) = Counting::to(5);
    let attached = sink.attach(stream)?;
    sim.run_until_idle();
    assert_eq!(pulled.load(Ordering::Acquire), 0);
    open.complete(()).map_err(|_| "completed twice")?;
    sim.block_on(busy)??;
    sim.wait(attached.ended())?;
    assert_eq!(sim.block_on(sink.ask(Seen))??, [0, 1, 2, 3, 4]);
    Ok(())
}

#[test]
fn stream_gets_its_turn_between_readers_that_always_overlap() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let sink = System::new(&sim.group("cpu")).spawn(Sink::default())?;
        let mut readers = Vec::new();
        let mut begin = || {
            let (open, gate) = completion();
            readers.push(sink.ask(Reads(gate)));
            sim.run_until_idle();
            open
        };
        let mut open = begin();
        let (stream, pulled) = Counting::to(3);
        let attached = sink.attach(stream)?;
        for _ in 0..8 {
            let next = begin();
            open.complete(()).map_err(|_| "completed twice")?;
            sim.run_until_idle();
            open = next;
        }
        assert!(pulled.load(Ordering::Acquire) > 3, "not pulled to its end; seed {seed}");
        assert!(attached.ended().is_done(), "a reader is there; seed {seed}");
        open.complete(()).map_err(|_| "completed twice")?;
        for reader in readers {
            sim.block_on(reader)??;
        }
        assert_eq!(sim.block_on(sink.ask(Seen))??, [0, 1, 2]);
    }
    Ok(())
}

#[test]
fn stream_that_waits_at_the_gate_is_dropped_with_its_actor() -> Outcome {
    let sim = Sim::fifo();
    let sink = System::new(&sim.group("cpu")).spawn(Sink::default())?;
    let (_open, gate) = completion();
    let _reader = sink.ask(Reads(gate));
    sim.run_until_idle();
    let (stream, pulled) = Counting::to(3);
    let attached = sink.attach(stream)?;
    sim.run_until_idle();
    assert_eq!(pulled.load(Ordering::Acquire), 0);
    sink.kill().detach();
    sim.run_until_idle();
    assert!(matches!(sim.wait(attached.ended()), Err(Failure::Abandoned)));
    assert_eq!(Arc::strong_count(&pulled), 1, "the stream is gone");
    Ok(())
}

#[test]
fn items_come_when_they_are_there_and_after_a_panic_the_next_one_follows() -> Outcome {
    let sim = Sim::fifo();
    let sink = System::new(&sim.group("cpu")).spawn(Sink::default())?;
    let fed = Fed::default();
    let request = RequestContext::new().with("user", "ada");
    let _attached = request.scope(|| sink.attach(fed.clone()))?;
    sim.run_until_idle();
    for item in [1, 13, 2] {
        fed.feed(item);
        sim.run_until_idle();
    }
    assert_eq!(sim.block_on(sink.ask(Seen))??, [1, 2]);
    assert_eq!(sim.failures().len(), 1);
    let ada = Some("ada".to_owned());
    assert_eq!(sim.block_on(sink.ask(Users))??, [ada.clone(), ada], "the context of the attaching");
    Ok(())
}

#[test]
fn a_stream_is_dropped_with_its_actor() -> Outcome {
    let sim = Sim::fifo();
    let sink = System::new(&sim.group("cpu")).spawn(Sink::default())?;
    let fed = Fed::default();
    let attached = sink.attach(fed.clone())?;
    sim.run_until_idle();
    assert_eq!(Arc::strong_count(&fed.0), 2);
    let closed = sink.close();
    sim.wait(closed)?;
    drop(fed.0.lock().expect("nobody panics here").1.take());
    assert_eq!(Arc::strong_count(&fed.0), 1);
    assert!(matches!(sim.wait(attached.ended()), Err(Failure::Abandoned)));
    assert!(matches!(sink.attach(Fed::default()), Err(Failure::Closed)));
    Ok(())
}

#[test]
fn actors_share_a_channel_and_hear_of_its_end() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let sinks = [system.spawn(Sink::default())?, system.spawn(Sink::default())?];
        let channel = Channel::bounded(8);
        let mut ended = Vec::new();
        for sink in &sinks {
            ended.push(sink.attach_channel(&channel)?.ended());
        }
        sim.run_until_idle();
        for item in 100..120 {
            while channel.send(Item(item)).is_err() {
                sim.run_until_idle();
            }
        }
        channel.close();
        for ended in ended {
            sim.wait(ended)?;
        }
        let mut seen = sim.block_on(sinks[0].ask(Seen))??;
        let other = sim.block_on(sinks[1].ask(Seen))??;
        assert!(seen.is_sorted() && other.is_sorted(), "in order at each; seed {seed}");
        seen.extend(other);
        seen.sort_unstable();
        assert_eq!(seen, (100..120).collect::<Vec<_>>(), "each once; seed {seed}");
    }
    Ok(())
}
