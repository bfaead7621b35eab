//! Twins of holding and of closing, each with the sound version beside it.
#![cfg(turnwheel_loom)]

use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::sync::Arc;

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

const CLOSED: u64 = 1;
const ONE: u64 = 2;

/// A refused producer and a closing runner that waits until nothing is under way.
fn close(tells: bool) {
    loom::model(move || {
        let admission = Arc::new(AtomicU64::new(0));
        let is_told = Arc::new(AtomicBool::new(false));
        let producer = {
            let (admission, is_told) = (Arc::clone(&admission), Arc::clone(&is_told));
            loom::thread::spawn(move || {
                // The mailbox is full: every admission is refused and taken back.
                admission.fetch_add(ONE, Ordering::Relaxed);
                let is_closed = admission.fetch_sub(ONE, Ordering::AcqRel) & CLOSED != 0;
                if is_closed && tells {
                    is_told.store(true, Ordering::Release);
                }
            })
        };
        admission.fetch_or(CLOSED, Ordering::AcqRel);
        let is_drained = admission.load(Ordering::Acquire) / ONE == 0;
        producer.join().unwrap();
        assert!(is_drained || is_told.load(Ordering::Acquire), "the task never ends");
    });
}

#[test]
fn the_twin_that_tells_of_what_it_takes_back_is_sound() {
    close(true);
}

#[test]
#[should_panic]
fn twin_that_takes_back_in_silence_leaves_a_task_that_never_ends() {
    close(false);
}
