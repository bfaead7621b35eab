//! Timers: cancel against fire and run; arming against serving the earliest deadline.

use loom::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use loom::sync::Arc;
use turnwheel_runtime::model::{Timer, Wheels};

#[test]
fn a_timer_runs_or_is_cancelled_and_never_both() {
    loom::model(|| {
        let timer = Arc::new(Timer::default());
        let wheel = {
            let timer = Arc::clone(&timer);
            loom::thread::spawn(move || timer.fire() && timer.begin())
        };
        let is_cancelled = timer.cancel();
        let has_begun = wheel.join().unwrap();
        assert!(has_begun || is_cancelled, "one of them wins");
        // A cancel that meets a running job is in time for the next round only.
        assert!(
            !(has_begun && is_cancelled) || !timer.rearm(),
            "and a cancelled one never comes back"
        );
    });
}

#[test]
fn two_cancels_have_one_winner() {
    loom::model(|| {
        let timer = Arc::new(Timer::default());
        let other = {
            let timer = Arc::clone(&timer);
            loom::thread::spawn(move || timer.cancel())
        };
        let mine = timer.cancel();
        assert!(mine != other.join().unwrap());
    });
}

#[test]
#[should_panic]
fn twin_cancel_by_store_runs_a_cancelled_timer() {
    loom::model(|| {
        let state = Arc::new(AtomicU8::new(0));
        let wheel = {
            let state = Arc::clone(&state);
            loom::thread::spawn(move || {
                state.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
            })
        };
        // Broken: looks, then stores.
        let is_cancelled = state.load(Ordering::Acquire) == 0;
        if is_cancelled {
            state.store(4, Ordering::Release);
        }
        assert!(!(wheel.join().unwrap() && is_cancelled));
    });
}

#[test]
fn an_armed_timer_is_never_hidden_behind_a_later_deadline() {
    loom::model(|| {
        let wheels = Arc::new(Wheels::new(2));
        wheels.arm(0, 10);
        let armer = {
            let wheels = Arc::clone(&wheels);
            loom::thread::spawn(move || wheels.arm(1, 20))
        };
        let fired = wheels.service(15);
        armer.join().unwrap();
        assert_eq!(fired, 1);
        assert!(wheels.earliest() <= 20, "the timer at 20 would be slept through");
    });
}

#[test]
fn two_servants_fire_each_timer_once() {
    loom::model(|| {
        let wheels = Arc::new(Wheels::new(2));
        wheels.arm(0, 10);
        wheels.arm(1, 30);
        let other = {
            let wheels = Arc::clone(&wheels);
            loom::thread::spawn(move || wheels.service(15))
        };
        let fired = wheels.service(15);
        assert_eq!(fired + other.join().unwrap(), 1);
        assert!(wheels.earliest() <= 30);
    });
}

#[test]
#[should_panic]
fn twin_servant_without_second_look_hides_a_timer() {
    loom::model(|| {
        let earliest = Arc::new(AtomicU64::new(10));
        let next = Arc::new(AtomicU64::new(u64::MAX));
        let armer = {
            let (earliest, next) = (Arc::clone(&earliest), Arc::clone(&next));
            loom::thread::spawn(move || {
                next.store(20, Ordering::Release);
                earliest.fetch_min(20, Ordering::AcqRel);
            })
        };
        // Broken: what was read before the exchange is all that is looked at.
        let of_all = next.load(Ordering::Acquire);
        let _ = earliest.compare_exchange(10, of_all, Ordering::AcqRel, Ordering::Acquire);
        armer.join().unwrap();
        assert!(earliest.load(Ordering::Acquire) <= 20);
    });
}
