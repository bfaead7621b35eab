//! Twin of holding, with the sound version beside it.
#![cfg(turnwheel_loom)]

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;

use turnwheel_runtime::model::Future;

const SIGNAL: u32 = 1;
const HELD: u32 = 1 << 16;

fn hold(is_sound: bool) {
    loom::model(move || {
        let signals = Arc::new(AtomicU32::new(0));
        let signaller = {
            let signals = Arc::clone(&signals);
            loom::thread::spawn(move || {
                let before = signals.fetch_or(SIGNAL, Ordering::AcqRel);
                before & HELD != 0 && signals.fetch_and(!HELD, Ordering::AcqRel) & HELD != 0
            })
        };
        let seen = signals.load(Ordering::Acquire);
        let is_held = seen & SIGNAL == 0
            && if is_sound {
                let held = seen | HELD;
                signals.compare_exchange(seen, held, Ordering::AcqRel, Ordering::Acquire).is_ok()
            } else {
                // Broken: a signal between the look and this step is slept through.
                signals.fetch_or(HELD, Ordering::AcqRel);
                true
            };
        let must_run = signaller.join().unwrap();
        assert_eq!(is_held, must_run, "exactly one of them goes on");
    });
}

#[test]
fn the_twin_that_holds_by_exchange_is_sound() {
    hold(true);
}

#[test]
#[should_panic]
fn twin_that_holds_without_a_second_look_sleeps_for_ever() {
    hold(false);
}

/// Two find a task held. Whoever ends the hold writes what only its runner may, until it schedules it.
fn end_a_hold(is_sound: bool) {
    loom::model(move || {
        let signals = Arc::new(AtomicU32::new(HELD));
        let end = move |signals: &AtomicU32| {
            let seen = signals.load(Ordering::Relaxed);
            if seen & HELD == 0 {
                return false;
            }
            if is_sound {
                let next = seen & !HELD;
                return signals
                    .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            }
            // Broken: another may have ended it since the look.
            signals.fetch_and(!HELD, Ordering::AcqRel);
            true
        };
        let other = {
            let signals = Arc::clone(&signals);
            loom::thread::spawn(move || end(&signals))
        };
        let mine = end(&signals);
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "exactly one has the task for itself");
    });
}

#[test]
fn the_twin_that_ends_a_hold_by_exchange_is_sound() {
    end_a_hold(true);
}

#[test]
#[should_panic]
fn twin_that_ends_a_hold_by_look_and_clear_has_two_runners() {
    end_a_hold(false);
}

/// A future that waits as three events wake it, two of them one after the other.
fn wake(woken_clears: bool, is_held: bool) {
    loom::model(move || {
        let future = Arc::new(Future::new(woken_clears));
        if is_held {
            future.run();
        }
        let other = |events: &'static [usize]| {
            let future = Arc::clone(&future);
            loom::thread::spawn(move || events.iter().for_each(|event| future.event(*event)))
        };
        let others = [other(&[0]), other(&[1, 2])];
        if !is_held {
            future.run();
        }
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(future.seen(), 3, "the last poll sees what has woken it");
    });
}

#[test]
fn a_future_woken_with_and_without_its_mark_sees_all_events() {
    wake(false, true);
}

#[test]
#[should_panic(expected = "it lies on the stack once")]
fn twin_that_clears_the_mark_of_another_entry_stacks_twice() {
    wake(true, false);
}
