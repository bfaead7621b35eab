//! One value from one giver to one taker: give, take, subscribe again, expire, give up.
#![cfg(turnwheel_loom)]

use std::task::{Poll, Wake, Waker};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;
use turnwheel_runtime::completion::{exchange, Notes, Taken};

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
fn who_asks_as_the_value_comes_has_it_or_is_woken() {
    loom::model(|| {
        let told = Told::new();
        let (giver, mut taker) = exchange(());
        let giving = thread::spawn(move || giver.give(Box::new(7)).is_ok());
        let first = taker.poll(&waker(&told));
        assert!(giving.join().unwrap());
        let taken = match first {
            Poll::Ready(taken) => taken,
            Poll::Pending => {
                assert_eq!(told.times(), 1);
                match taker.poll(&waker(&told)) {
                    Poll::Ready(taken) => taken,
                    Poll::Pending => panic!("the value is there before the wake-up"),
                }
            }
        };
        assert_eq!(taken, Taken::Value(Box::new(7)));
    });
}

#[test]
fn who_asked_last_is_woken_and_nobody_twice() {
    loom::model(|| {
        let (first, second) = (Told::new(), Told::new());
        let (giver, mut taker) = exchange(());
        let giving = thread::spawn(move || giver.give(Box::new(7)).is_ok());
        let is_taken =
            taker.poll(&waker(&first)).is_ready() || taker.poll(&waker(&second)).is_ready();
        assert!(giving.join().unwrap());
        assert!(first.times() + second.times() <= 1);
        assert!(is_taken || second.times() == 1, "the second one waits, so it is woken");
    });
}

#[test]
fn the_same_waker_is_compared_while_the_giver_takes_it() {
    loom::model(|| {
        let told = Told::new();
        let waker = waker(&told);
        let (giver, mut taker) = exchange(());
        let is_early = taker.poll(&waker).is_ready();
        let giving = thread::spawn(move || giver.give(Box::new(7)).is_ok());
        let is_taken = is_early || taker.poll(&waker).is_ready();
        assert!(giving.join().unwrap());
        assert_eq!(told.times(), 1);
        assert!(is_taken || taker.poll(&waker) == Poll::Ready(Taken::Value(Box::new(7))));
    });
}

#[test]
fn of_a_value_and_the_deadline_one_wins_and_the_taker_is_woken_once() {
    loom::model(|| {
        let told = Told::new();
        let (giver, mut taker) = exchange(());
        assert!(taker.poll(&waker(&told)).is_pending());
        let shared = Arc::clone(taker.exchange());
        let expiring = thread::spawn(move || shared.expire());
        let is_given = giver.give(Box::new(7)).is_ok();
        expiring.join().unwrap();
        assert_eq!(told.times(), 1);
        let taken = taker.poll(&waker(&told));
        let expected = if is_given { Taken::Value(Box::new(7)) } else { Taken::Expired };
        assert_eq!(taken, Poll::Ready(expected));
    });
}

/// Notes that it was given up.
struct GivenUp(AtomicUsize);

impl Notes for GivenUp {
    fn given_up(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn who_watches_as_the_value_is_given_up_is_told_or_sees_it() {
    loom::model(|| {
        let (giver, taker) = exchange::<Box<u32>, _>(GivenUp(AtomicUsize::new(0)));
        let shared = Arc::clone(giver.exchange());
        let expiring = Arc::clone(giver.exchange());
        let given_up = thread::spawn(move || drop(taker));
        let expired = thread::spawn(move || expiring.expire());
        let is_told = shared.watch();
        assert!(is_told || shared.is_given_up());
        given_up.join().unwrap();
        expired.join().unwrap();
        assert_eq!(shared.notes().0.load(Ordering::Acquire), usize::from(is_told));
    });
}

#[test]
fn who_gives_up_and_who_gives_drop_the_value_once() {
    loom::model(|| {
        let told = Told::new();
        // Counted by its address: dropped twice, or never, the model says so.
        let value = Arc::new(());
        let (giver, mut taker) = exchange(());
        assert!(taker.poll(&waker(&told)).is_pending());
        let given = Arc::clone(&value);
        let giving = thread::spawn(move || giver.give(given).is_ok());
        drop(taker);
        giving.join().unwrap();
        assert!(told.times() <= 1);
        assert_eq!(std::sync::Arc::strong_count(&told), 1, "its waker is gone");
        assert!(Arc::try_unwrap(value).is_ok(), "and the value");
    });
}

#[test]
fn a_giver_that_goes_is_told_of() {
    loom::model(|| {
        let told = Told::new();
        let (giver, mut taker) = exchange::<u32, ()>(());
        let going = thread::spawn(move || drop(giver));
        let first = taker.poll(&waker(&told));
        going.join().unwrap();
        let lost = if first.is_pending() { taker.poll(&waker(&told)) } else { first };
        assert_eq!(lost, Poll::Ready(Taken::Lost));
    });
}

const WAKER: u32 = 1;
const GIVEN: u32 = 2;

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
        if self.state.fetch_or(GIVEN, publish) & WAKER != 0 {
            self.told.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn take(&self) -> u32 {
        // SAFETY: the model checks that the giver has done with it.
        self.value.with(|value| unsafe { *value })
    }
}

#[test]
#[should_panic]
fn twin_that_registers_without_second_look_sleeps_for_ever() {
    loom::model(|| {
        let small = Small::new();
        let other = Arc::clone(&small);
        let giving = thread::spawn(move || other.give(Ordering::AcqRel));
        let is_given = small.state.load(Ordering::Acquire) & GIVEN != 0;
        if !is_given {
            // Broken: what the exchange shows is not looked at.
            small.state.fetch_or(WAKER, Ordering::AcqRel);
        }
        giving.join().unwrap();
        assert!(is_given || small.told.load(Ordering::Acquire) == 1);
    });
}

#[test]
#[should_panic]
fn twin_that_publishes_relaxed_shows_a_value_that_is_not_there() {
    loom::model(|| {
        let small = Small::new();
        let other = Arc::clone(&small);
        // Broken: the value does not come with the word.
        let giving = thread::spawn(move || other.give(Ordering::Relaxed));
        if small.state.load(Ordering::Acquire) & GIVEN != 0 {
            assert_eq!(small.take(), 7);
        }
        giving.join().unwrap();
    });
}

#[test]
#[should_panic]
fn twin_that_expires_by_look_and_set_wakes_twice() {
    loom::model(|| {
        let small = Small::new();
        small.state.fetch_or(WAKER, Ordering::AcqRel);
        let other = Arc::clone(&small);
        let giving = thread::spawn(move || other.give(Ordering::AcqRel));
        // Broken: not one exchange.
        if small.state.load(Ordering::Acquire) & GIVEN == 0 {
            small.told.fetch_add(1, Ordering::AcqRel);
        }
        giving.join().unwrap();
        assert_eq!(small.told.load(Ordering::Acquire), 1);
    });
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
