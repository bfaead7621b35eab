//! Completion against subscription: complete, cancel, abandon, subscribe again, wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use turnwheel_loom::{ran, Ran};
use turnwheel_runtime::completion::{completion, Completion};
use turnwheel_runtime::model::{check, group, run_ready, spawn};
use turnwheel_runtime::Failure;

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

fn poll<T>(answer: &mut Completion<T>, waker: &Waker) -> Poll<Result<T, Failure>> {
    Pin::new(answer).poll(&mut Context::from_waker(waker))
}

/// A task subscribes while another thread completes.
#[test]
fn a_subscription_made_as_the_value_comes_sees_it_or_is_signalled() {
    check(|| {
        let (group, _) = group(1);
        let task = Ran::task(&group);
        let (completer, answer) = completion();
        let completing = {
            let group = group.clone();
            spawn(move || {
                assert!(completer.complete(7).is_ok());
                run_ready(&group);
            })
        };
        let subscribed = task.submit(|_, cx| {
            cx.on_completion(answer, |ran, _, value| ran.note(value.unwrap()));
        });
        assert!(subscribed.is_ok());
        run_ready(&group);
        completing.join();
        assert_eq!(ran(&group, &task), [7]);
    });
}

/// Broken: looks for the value, and registers without a second look.
#[derive(Default)]
struct LooksOnce {
    is_done: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl LooksOnce {
    fn is_done_or_subscribed(&self, waker: Waker) -> bool {
        if self.is_done.load(Ordering::Acquire) {
            return true;
        }
        *self.waker.lock().unwrap() = Some(waker);
        false
    }

    fn complete(&self) {
        self.is_done.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[test]
#[should_panic]
fn twin_that_registers_without_second_look_is_never_signalled() {
    loom::model(|| {
        let told = Told::new();
        let twin = Arc::new(LooksOnce::default());
        let completing = {
            let twin = Arc::clone(&twin);
            thread::spawn(move || twin.complete())
        };
        let is_done = twin.is_done_or_subscribed(Waker::from(std::sync::Arc::clone(&told)));
        completing.join().unwrap();
        assert!(is_done || told.times() == 1);
    });
}

#[test]
fn who_subscribed_last_is_told_once() {
    loom::model(|| {
        let (first, second) = (Told::new(), Told::new());
        let (completer, mut answer) = completion();
        let completing = thread::spawn(move || completer.complete(7).is_ok());
        let before = poll(&mut answer, &Waker::from(std::sync::Arc::clone(&first)));
        let is_answered = before.is_ready()
            || poll(&mut answer, &Waker::from(std::sync::Arc::clone(&second))).is_ready();
        assert!(completing.join().unwrap());
        assert!(first.times() + second.times() <= 1);
        assert!(is_answered || second.times() == 1, "the second one waits, so it is told");
    });
}

/// Broken: takes the old waker out, and puts the new one there later.
#[derive(Default)]
struct SwapsInTwoSteps {
    /// Whether it is done, and who waits.
    state: Mutex<(bool, Option<Waker>)>,
}

impl SwapsInTwoSteps {
    fn is_done_or_subscribed(&self, waker: Waker) -> bool {
        let before = {
            let mut state = self.state.lock().unwrap();
            if state.0 {
                return true;
            }
            state.1.take()
        };
        drop(before);
        self.state.lock().unwrap().1 = Some(waker);
        false
    }

    fn complete(&self) {
        let waker = {
            let mut state = self.state.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[test]
#[should_panic]
fn twin_that_swaps_wakers_in_two_steps_loses_the_second() {
    loom::model(|| {
        let (first, second) = (Told::new(), Told::new());
        let twin = Arc::new(SwapsInTwoSteps::default());
        let completing = {
            let twin = Arc::clone(&twin);
            thread::spawn(move || twin.complete())
        };
        let is_answered = twin.is_done_or_subscribed(Waker::from(first))
            || twin.is_done_or_subscribed(Waker::from(std::sync::Arc::clone(&second)));
        completing.join().unwrap();
        assert!(is_answered || second.times() == 1);
    });
}

/// A task's subscription in small: queued once, until the turn that polls it.
struct Mark(AtomicBool);

impl Wake for Mark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.swap(true, Ordering::AcqRel);
    }
}

/// When a turn takes the mark away.
#[derive(PartialEq)]
enum Clears {
    BeforeThePoll,
    /// Broken: a wake-up during the poll goes with it.
    AfterThePoll,
}

/// Takes turns while there is a mark.
fn take_turns(answer: &mut Completion<u32>, mark: &std::sync::Arc<Mark>, clears: &Clears) -> u32 {
    let waker = Waker::from(std::sync::Arc::clone(mark));
    while mark.0.load(Ordering::Acquire) {
        if *clears == Clears::BeforeThePoll {
            mark.0.swap(false, Ordering::AcqRel);
        }
        if let Poll::Ready(value) = poll(answer, &waker) {
            return value.unwrap();
        }
        if *clears == Clears::AfterThePoll {
            mark.0.swap(false, Ordering::AcqRel);
        }
    }
    0
}

/// Subscribes while another thread completes; what the task has got when both are through.
fn subscribe_and_complete(clears: &Clears) -> u32 {
    let (completer, mut answer) = completion();
    let completing = thread::spawn(move || completer.complete(7).is_ok());
    // The first poll is a turn like any other.
    let mark = std::sync::Arc::new(Mark(AtomicBool::new(true)));
    let early = take_turns(&mut answer, &mark, clears);
    assert!(completing.join().unwrap());
    if early == 0 {
        take_turns(&mut answer, &mark, clears)
    } else {
        early
    }
}

#[test]
fn a_wake_during_the_poll_brings_another_turn() {
    loom::model(|| assert_eq!(subscribe_and_complete(&Clears::BeforeThePoll), 7));
}

#[test]
#[should_panic]
fn twin_that_clears_the_mark_after_the_poll_sleeps_for_ever() {
    loom::model(|| assert_eq!(subscribe_and_complete(&Clears::AfterThePoll), 7));
}

#[test]
fn of_two_completers_one_wins_and_the_other_keeps_its_value() {
    loom::model(|| {
        let (completer, answer) = completion();
        let other = completer.clone();
        let theirs = thread::spawn(move || other.complete(1).err().map(|late| late.0));
        let mine = completer.complete(2).err().map(|late| late.0);
        drop(completer);
        let value = answer.wait().ok();
        match (mine, theirs.join().unwrap()) {
            (None, Some(1)) => assert_eq!(value, Some(2)),
            (Some(2), None) => assert_eq!(value, Some(1)),
            both => panic!("one winner, but {both:?}"),
        }
    });
}

#[test]
fn complete_and_cancel_have_one_winner_and_both_sides_know_it() {
    loom::model(|| {
        let told = Told::new();
        let (completer, answer) = completion();
        completer.on_cancel(Waker::from(std::sync::Arc::clone(&told)));
        let completing = thread::spawn(move || {
            let is_first = completer.complete(7).is_ok();
            (is_first, completer.is_cancelled())
        });
        let is_cancelled = answer.cancel();
        let (is_first, sees_cancel) = completing.join().unwrap();
        assert_ne!(is_first, is_cancelled, "one of them");
        assert_eq!(sees_cancel, is_cancelled);
        assert_eq!(told.times(), usize::from(is_cancelled));
        assert_eq!(answer.wait().ok(), is_first.then_some(7));
    });
}

#[test]
fn who_asks_to_be_told_of_a_cancel_is_told_however_close() {
    loom::model(|| {
        let told = Told::new();
        let (completer, answer) = completion::<u32>();
        let dropping = thread::spawn(move || drop(answer));
        completer.on_cancel(Waker::from(std::sync::Arc::clone(&told)));
        dropping.join().unwrap();
        assert_eq!(told.times(), 1);
    });
}

#[test]
#[should_panic]
fn twin_that_decides_by_look_and_store_has_two_winners() {
    loom::model(|| {
        let is_decided = Arc::new(AtomicBool::new(false));
        // Broken: not one exchange.
        let decide = |word: &AtomicBool| {
            let is_first = !word.load(Ordering::Acquire);
            word.store(true, Ordering::Release);
            is_first
        };
        let completing = {
            let word = Arc::clone(&is_decided);
            thread::spawn(move || decide(&word))
        };
        let is_cancelled = decide(&is_decided);
        assert_ne!(completing.join().unwrap(), is_cancelled);
    });
}

#[test]
fn a_blocked_thread_gets_the_value() {
    loom::model(|| {
        let (completer, answer) = completion();
        let waiting = thread::spawn(move || answer.wait());
        assert!(completer.complete(7).is_ok());
        drop(completer);
        assert_eq!(waiting.join().unwrap().ok(), Some(7));
    });
}

// A condition variable in small, because the model cannot outlive a thread that sleeps for ever.
#[test]
#[should_panic]
fn twin_that_looks_before_it_takes_the_lock_waits_for_ever() {
    loom::model(|| {
        let is_done = Arc::new(AtomicBool::new(false));
        let sleepers = Arc::new(Mutex::new(0));
        let waiting = {
            let (is_done, sleepers) = (Arc::clone(&is_done), Arc::clone(&sleepers));
            thread::spawn(move || {
                // Broken: the value may have come, and been told, before the sleep begins.
                if !is_done.load(Ordering::Acquire) {
                    *sleepers.lock().unwrap() += 1;
                }
            })
        };
        is_done.store(true, Ordering::Release);
        *sleepers.lock().unwrap() = 0;
        waiting.join().unwrap();
        assert_eq!(*sleepers.lock().unwrap(), 0, "nobody sleeps on");
    });
}

#[test]
fn the_last_completer_to_go_ends_the_wait() {
    loom::model(|| {
        let (completer, answer) = completion::<u32>();
        let other = completer.clone();
        let waiting = thread::spawn(move || answer.wait());
        let dropping = thread::spawn(move || drop(other));
        drop(completer);
        dropping.join().unwrap();
        assert!(matches!(waiting.join().unwrap(), Err(Failure::Abandoned)));
    });
}

#[test]
fn a_value_given_before_the_last_completer_goes_is_no_abandonment() {
    loom::model(|| {
        let (completer, answer) = completion();
        let other = completer.clone();
        let completing = thread::spawn(move || completer.complete(7).is_ok());
        drop(other);
        assert!(completing.join().unwrap());
        assert_eq!(answer.wait().ok(), Some(7));
    });
}

#[test]
#[should_panic]
fn twin_that_counts_completers_by_load_and_store_abandons_nobody() {
    loom::model(|| {
        let completers = Arc::new(AtomicUsize::new(2));
        // Broken: two that go at once both leave one behind.
        let is_last = |count: &AtomicUsize| {
            let left = count.load(Ordering::Acquire) - 1;
            count.store(left, Ordering::Release);
            left == 0
        };
        let other = {
            let completers = Arc::clone(&completers);
            thread::spawn(move || is_last(&completers))
        };
        let is_mine_last = is_last(&completers);
        assert!(other.join().unwrap() || is_mine_last, "somebody tells the consumer");
    });
}
