//! One value from one sender to one receiver: send, receive, replace the waker, expire, close.

use std::task::{Poll, Wake, Waker};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;
use turnwheel_runtime::oneshot::{channel, channel_shared, Metadata, Received};

/// Counts its wake-ups.
struct Told(AtomicUsize);

impl Wake for Told {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Told {
    fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self(AtomicUsize::new(0)))
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

fn waker(told: &std::sync::Arc<Told>) -> Waker {
    Waker::from(std::sync::Arc::clone(told))
}

#[test]
fn receiver_that_polls_during_a_send_gets_the_value_or_a_wakeup() {
    loom::model(|| {
        let told = Told::new();
        let (sender, mut receiver) = channel(());
        let sending = thread::spawn(move || sender.send(Box::new(7)).is_ok());
        let first = receiver.poll(&waker(&told));
        assert!(sending.join().unwrap());
        let taken = match first {
            Poll::Ready(taken) => taken,
            Poll::Pending => {
                assert_eq!(told.times(), 1);
                match receiver.poll(&waker(&told)) {
                    Poll::Ready(taken) => taken,
                    Poll::Pending => panic!("the value is there before the wake-up"),
                }
            }
        };
        assert_eq!(taken, Received::Value(Box::new(7)));
    });
}

#[test]
fn last_stored_waker_is_woken_once() {
    loom::model(|| {
        let (first, second) = (Told::new(), Told::new());
        let (sender, mut receiver) = channel(());
        let sending = thread::spawn(move || sender.send(Box::new(7)).is_ok());
        let is_taken =
            receiver.poll(&waker(&first)).is_ready() || receiver.poll(&waker(&second)).is_ready();
        assert!(sending.join().unwrap());
        assert!(first.times() + second.times() <= 1);
        assert!(is_taken || second.times() == 1, "the second one waits, so it is woken");
    });
}

#[test]
fn same_waker_is_compared_while_the_sender_takes_it() {
    loom::model(|| {
        let told = Told::new();
        let waker = waker(&told);
        let (sender, mut receiver) = channel(());
        let is_early = receiver.poll(&waker).is_ready();
        let sending = thread::spawn(move || sender.send(Box::new(7)).is_ok());
        let is_taken = is_early || receiver.poll(&waker).is_ready();
        assert!(sending.join().unwrap());
        assert_eq!(told.times(), 1);
        assert!(is_taken || receiver.poll(&waker) == Poll::Ready(Received::Value(Box::new(7))));
    });
}

#[test]
fn value_or_expiry_wins_and_the_receiver_is_woken_once() {
    loom::model(|| {
        let told = Told::new();
        let (sender, mut receiver) = channel(());
        assert!(receiver.poll(&waker(&told)).is_pending());
        let shared = receiver.share();
        let expiring = thread::spawn(move || shared.expire());
        let is_sent = sender.send(Box::new(7)).is_ok();
        expiring.join().unwrap();
        assert_eq!(told.times(), 1);
        let taken = receiver.poll(&waker(&told));
        let expected = if is_sent { Received::Value(Box::new(7)) } else { Received::Expired };
        assert_eq!(taken, Poll::Ready(expected));
    });
}

/// Records that the channel was closed.
struct Closed(AtomicUsize);

impl Metadata for Closed {
    fn abandoned(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn watcher_of_a_closing_channel_is_notified_or_sees_it_closed() {
    loom::model(|| {
        let (_sender, receiver) = channel::<Box<u32>, _>(Closed(AtomicUsize::new(0)));
        let shared = receiver.share();
        let expiring = receiver.share();
        let closing = thread::spawn(move || drop(receiver));
        let expired = thread::spawn(move || expiring.expire());
        let is_told = shared.watch();
        assert!(is_told || shared.is_closed());
        closing.join().unwrap();
        expired.join().unwrap();
        assert_eq!(shared.metadata().0.load(Ordering::Acquire), usize::from(is_told));
    });
}

#[test]
fn metadata_is_taken_by_the_last_handle_or_dropped_with_it() {
    loom::model(|| {
        let value = Arc::new(());
        let (sender, receiver) = channel::<Box<u32>, _>(Held(Arc::clone(&value)));
        let shared = receiver.share();
        drop(sender);
        let dropping = thread::spawn(move || drop(receiver));
        let metadata = shared.into_metadata();
        dropping.join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1 + usize::from(metadata.is_some()));
    });
}

/// Counted by its address.
struct Held(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Metadata for Held {}

#[test]
fn closing_during_a_send_drops_the_value_once() {
    loom::model(|| {
        let told = Told::new();
        // Counted by its address: dropped twice, or never, the model says so.
        let value = Arc::new(());
        let (sender, mut receiver) = channel(());
        assert!(receiver.poll(&waker(&told)).is_pending());
        let given = Arc::clone(&value);
        let sending = thread::spawn(move || sender.send(given).is_ok());
        drop(receiver);
        sending.join().unwrap();
        assert!(told.times() <= 1);
        assert_eq!(std::sync::Arc::strong_count(&told), 1, "its waker is gone");
        assert!(Arc::try_unwrap(value).is_ok(), "and the value");
    });
}

#[test]
fn receiver_is_told_of_a_dropped_sender() {
    loom::model(|| {
        let told = Told::new();
        let (sender, mut receiver) = channel::<u32, ()>(());
        let going = thread::spawn(move || drop(sender));
        let first = receiver.poll(&waker(&told));
        going.join().unwrap();
        let lost = if first.is_pending() { receiver.poll(&waker(&told)) } else { first };
        assert_eq!(lost, Poll::Ready(Received::SenderDropped));
    });
}

/// Metadata that the model misses if it is not dropped.
struct Counted(#[expect(dead_code, reason = "held for its count")] Arc<()>);

impl Metadata for Counted {}

#[test]
fn last_reference_frees_the_channel_once() {
    loom::model(|| {
        let value = Arc::new(());
        let (sender, receiver, shared) = channel_shared::<Box<u32>, _>(Counted(Arc::clone(&value)));
        let weak = shared.downgrade();
        let sending = thread::spawn(move || drop(sender.send(Box::new(7))));
        let upgrading = thread::spawn(move || weak.upgrade().map(|shared| shared.is_settled()));
        drop(shared);
        drop(receiver);
        sending.join().unwrap();
        upgrading.join().unwrap();
        assert!(Arc::try_unwrap(value).is_ok(), "the metadata was dropped");
    });
}

#[test]
fn dropped_channel_is_released_by_both_ends_and_by_expiry() {
    loom::model(|| {
        let told = Told::new();
        let (sender, mut receiver, shared) = channel_shared::<Box<u32>, _>(());
        assert!(receiver.poll(&waker(&told)).is_pending());
        let expiring = thread::spawn(move || shared.expire());
        let going = thread::spawn(move || drop(sender));
        drop(receiver);
        expiring.join().unwrap();
        going.join().unwrap();
        assert!(told.times() <= 1);
        assert_eq!(std::sync::Arc::strong_count(&told), 1, "its waker is gone");
    });
}

const WAKER: u32 = 1;
const SENT: u32 = 2;
const CHANGED: u32 = 4;

/// The word in small, with a waker that counts.
struct Small {
    state: AtomicU32,
    value: UnsafeCell<u32>,
    told: AtomicUsize,
}

// SAFETY: the model checks each access.
unsafe impl Sync for Small {}

impl Small {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU32::new(0),
            value: UnsafeCell::new(0),
            told: AtomicUsize::new(0),
        })
    }

    fn give(&self, publish: Ordering) {
        // SAFETY: the model checks that nobody looks yet.
        self.value.with_mut(|value| unsafe { *value = 7 });
        if self.state.fetch_or(SENT, publish) & WAKER != 0 {
            self.told.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn take(&self) -> u32 {
        // SAFETY: the model checks that the sender has done with it.
        self.value.with(|value| unsafe { *value })
    }
}

#[test]
#[should_panic]
fn twin_that_registers_without_second_look_sleeps_for_ever() {
    loom::model(|| {
        let small = Small::new();
        let other = Arc::clone(&small);
        let sending = thread::spawn(move || other.give(Ordering::AcqRel));
        let is_sent = small.state.load(Ordering::Acquire) & SENT != 0;
        if !is_sent {
            // Broken: the result of the exchange is ignored.
            small.state.fetch_or(WAKER, Ordering::AcqRel);
        }
        sending.join().unwrap();
        assert!(is_sent || small.told.load(Ordering::Acquire) == 1);
    });
}

#[test]
#[should_panic]
fn twin_that_publishes_relaxed_shows_a_value_that_is_not_there() {
    loom::model(|| {
        let small = Small::new();
        let other = Arc::clone(&small);
        // Broken: the value does not come with the word.
        let sending = thread::spawn(move || other.give(Ordering::Relaxed));
        if small.state.load(Ordering::Acquire) & SENT != 0 {
            assert_eq!(small.take(), 7);
        }
        sending.join().unwrap();
    });
}

#[test]
#[should_panic]
fn twin_that_expires_by_look_and_set_wakes_twice() {
    loom::model(|| {
        let small = Small::new();
        small.state.fetch_or(WAKER, Ordering::AcqRel);
        let other = Arc::clone(&small);
        let sending = thread::spawn(move || other.give(Ordering::AcqRel));
        // Broken: not one exchange.
        if small.state.load(Ordering::Acquire) & SENT == 0 {
            small.told.fetch_add(1, Ordering::AcqRel);
        }
        sending.join().unwrap();
        assert_eq!(small.told.load(Ordering::Acquire), 1);
    });
}

/// A receiver changes its waker, a number, while the sender looks at it and then decides by one exchange.
fn change_a_waker(mark: u32) {
    loom::model(move || {
        let word = Arc::new(AtomicU32::new(WAKER));
        let waker = Arc::new(AtomicU32::new(1));
        let sending = {
            let (word, waker) = (Arc::clone(&word), Arc::clone(&waker));
            thread::spawn(move || {
                let seen = word.load(Ordering::Acquire);
                let known = waker.load(Ordering::Acquire);
                let given = word.compare_exchange(seen, SENT, Ordering::AcqRel, Ordering::Acquire);
                (seen == WAKER && given.is_ok()).then_some(known)
            })
        };
        let cleared =
            word.compare_exchange(WAKER, mark, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if cleared {
            waker.store(2, Ordering::Release);
            word.fetch_or(WAKER, Ordering::AcqRel);
        }
        let woken = sending.join().unwrap();
        assert!(woken.is_none_or(|woken| woken == 1 && !cleared), "the one that was there last");
    });
}

#[test]
fn replaced_waker_is_not_taken_by_an_earlier_read() {
    change_a_waker(CHANGED);
}

#[test]
#[should_panic(expected = "the one that was there last")]
fn twin_that_changes_a_waker_without_a_trace_has_the_former_one_woken() {
    change_a_waker(0);
}

const READY: u32 = 1;
const DEAD: u32 = 2;

/// A task's signals and ready stack at its end: what lies on the stack holds the memory of both.
struct Ending {
    signals: AtomicU32,
    stack: AtomicU32,
}

fn end(ends: fn(&Ending)) {
    let task = Arc::new(Ending { signals: AtomicU32::new(0), stack: AtomicU32::new(0) });
    let other = Arc::clone(&task);
    let waking = thread::spawn(move || {
        other.stack.fetch_add(1, Ordering::AcqRel);
        if other.signals.fetch_or(READY, Ordering::AcqRel) & DEAD != 0 {
            other.stack.swap(0, Ordering::AcqRel);
        }
    });
    ends(&task);
    waking.join().unwrap();
    assert_eq!(task.stack.load(Ordering::Acquire), 0, "nothing is left on the stack");
}

#[test]
fn what_becomes_ready_as_its_task_ends_is_not_kept() {
    loom::model(|| {
        end(|task| {
            task.signals.fetch_or(DEAD, Ordering::AcqRel);
            task.stack.swap(0, Ordering::AcqRel);
        });
    });
}

#[test]
#[should_panic]
fn twin_that_empties_its_stack_before_it_is_dead_keeps_what_comes_late() {
    loom::model(|| {
        end(|task| {
            task.stack.swap(0, Ordering::AcqRel);
            task.signals.fetch_or(DEAD, Ordering::AcqRel);
        });
    });
}
