//! One value from one giver to one taker: give, take, subscribe again, expire, give up.
#![cfg(turnwheel_loom)]

use std::task::{Poll, Wake, Waker};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;
use turnwheel_runtime::completion::{exchange, exchange_shared, Notes, Taken};

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
        let shared = taker.share();
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
        let (_giver, taker) = exchange::<Box<u32>, _>(GivenUp(AtomicUsize::new(0)));
        let shared = taker.share();
        let expiring = taker.share();
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

/// Notes that the model misses if they are not dropped.
struct Counted(#[expect(dead_code, reason = "held for its count")] Arc<()>);

impl Notes for Counted {}

#[test]
fn who_goes_last_ends_the_exchange_once() {
    loom::model(|| {
        let notes = Arc::new(());
        let (giver, taker, shared) = exchange_shared::<Box<u32>, _>(Counted(Arc::clone(&notes)));
        let weak = shared.downgrade();
        let giving = thread::spawn(move || drop(giver.give(Box::new(7))));
        let upgrading = thread::spawn(move || weak.upgrade().map(|shared| shared.is_settled()));
        drop(shared);
        drop(taker);
        giving.join().unwrap();
        upgrading.join().unwrap();
        assert!(Arc::try_unwrap(notes).is_ok(), "the notes are gone");
    });
}

#[test]
fn a_lost_exchange_is_left_by_both_and_by_who_expires_it() {
    loom::model(|| {
        let told = Told::new();
        let (giver, mut taker, shared) = exchange_shared::<Box<u32>, _>(());
        assert!(taker.poll(&waker(&told)).is_pending());
        let expiring = thread::spawn(move || shared.expire());
        let going = thread::spawn(move || drop(giver));
        drop(taker);
        expiring.join().unwrap();
        going.join().unwrap();
        assert!(told.times() <= 1);
        assert_eq!(std::sync::Arc::strong_count(&told), 1, "its waker is gone");
    });
}

const WAKER: u32 = 1;
const GIVEN: u32 = 2;
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

/// A taker changes its waker, a number, while the giver looks at it and then decides by one exchange.
fn change_a_waker(mark: u32) {
    loom::model(move || {
        let word = Arc::new(AtomicU32::new(WAKER));
        let waker = Arc::new(AtomicU32::new(1));
        let giving = {
            let (word, waker) = (Arc::clone(&word), Arc::clone(&waker));
            thread::spawn(move || {
                let seen = word.load(Ordering::Acquire);
                let known = waker.load(Ordering::Acquire);
                let given = word.compare_exchange(seen, GIVEN, Ordering::AcqRel, Ordering::Acquire);
                (seen == WAKER && given.is_ok()).then_some(known)
            })
        };
        let cleared =
            word.compare_exchange(WAKER, mark, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if cleared {
            waker.store(2, Ordering::Release);
            word.fetch_or(WAKER, Ordering::AcqRel);
        }
        let woken = giving.join().unwrap();
        assert!(woken.is_none_or(|woken| woken == 1 && !cleared), "the one that was there last");
    });
}

#[test]
fn a_waker_that_was_changed_is_not_taken_by_an_earlier_look() {
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
