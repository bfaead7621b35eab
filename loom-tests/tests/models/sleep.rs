//! The throttle of searches and who keeps the time. The loop around it is in `search.rs`.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::Arc;
use turnwheel_runtime::model::{check, check_without, Sleepers, Step};

/// A worker takes a batch without searching while the last searcher stops and a third one sleeps.
fn batch(is_told: bool) -> impl Fn() + Send + Sync {
    move || {
        let sleepers = Arc::new(Sleepers::new(3));
        let injected = Arc::new(AtomicUsize::new(2));
        let queued = Arc::new(AtomicUsize::new(0));
        // The first goes on watch, so the others sleep; then it searches, and the second works.
        let rests: Vec<_> = (0..3).map(|worker| sleepers.enter(worker, false)).collect();
        assert_eq!(rests, [true, false, false]);
        assert!(sleepers.leave(0, true) && sleepers.leave(1, false));
        let taker = {
            let (sleepers, injected) = (Arc::clone(&sleepers), Arc::clone(&injected));
            let queued = Arc::clone(&queued);
            loom::thread::spawn(move || {
                injected.store(0, Ordering::Release);
                // Here the rest of the batch is in neither queue.
                queued.store(1, Ordering::Release);
                sleepers.wake_for_batch().filter(|_| is_told)
            })
        };
        // The searcher has found something else and looks round, as `Search::found` does.
        assert!(sleepers.end_search(), "it is the only one");
        let woken = if injected.load(Ordering::Acquire) > 0 {
            sleepers.wake_for_push()
        } else if queued.load(Ordering::Acquire) > 0 {
            sleepers.wake_for_local_push()
        } else {
            None
        };
        let told = taker.join().unwrap();
        assert!(woken.or(told).is_some(), "the batch waits beside a sleeper");
    }
}

#[test]
fn what_comes_along_with_a_batch_does_not_wait_beside_a_sleeper() {
    check(batch(true));
}

#[test]
#[should_panic]
fn twin_without_a_word_after_the_batch_leaves_it_beside_a_sleeper() {
    check(batch(false));
}

#[test]
#[should_panic(expected = "beside a sleeper")]
fn twin_that_ends_a_search_without_fence_leaves_it_beside_a_sleeper() {
    check_without(Step::SearchFence, batch(true));
}

#[test]
fn one_sleeper_keeps_the_time() {
    check(|| {
        let sleepers = Arc::new(Sleepers::new(2));
        let other = {
            let sleepers = Arc::clone(&sleepers);
            loom::thread::spawn(move || {
                sleepers.enter(1, false);
                sleepers.keeps_time(1, 10)
            })
        };
        sleepers.enter(0, false);
        let mine = sleepers.keeps_time(0, 10);
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "exactly one parks until the next timer");
        assert!(sleepers.for_earlier_timer().is_some(), "and a new earlier timer finds it");
    });
}

#[test]
fn an_earlier_deadline_takes_the_time_over() {
    check(|| {
        let sleepers = Arc::new(Sleepers::new(2));
        let other = {
            let sleepers = Arc::clone(&sleepers);
            loom::thread::spawn(move || {
                sleepers.enter(1, false);
                sleepers.keeps_time(1, u64::MAX)
            })
        };
        sleepers.enter(0, false);
        // A worker that armed a timer at 10 goes to sleep; the other knows of no timer.
        assert!(sleepers.keeps_time(0, 10), "the timer at 10 would be slept through");
        other.join().unwrap();
    });
}
