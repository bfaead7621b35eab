//! Parking and waking with search throttling: no push is slept through.
#![cfg(turnwheel_loom)]

use std::collections::VecDeque;

use loom::sync::atomic::{fence, AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use turnwheel_runtime::model::Sleepers;

/// A thread's parking token.
struct Token {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Token {
    fn new() -> Self {
        Self { is_set: Mutex::new(false), changed: Condvar::new() }
    }

    fn park(&self) {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
        *is_set = false;
    }

    fn unpark(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

struct Group {
    sleepers: Sleepers,
    tokens: Vec<Token>,
    injected: Mutex<VecDeque<u32>>,
    length: AtomicUsize,
}

impl Group {
    fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            sleepers: Sleepers::new(workers),
            tokens: (0..workers).map(|_| Token::new()).collect(),
            injected: Mutex::new(VecDeque::new()),
            length: AtomicUsize::new(0),
        })
    }

    fn push(&self, job: u32) {
        self.injected.lock().unwrap().push_back(job);
        self.length.fetch_add(1, Ordering::Release);
        if let Some(worker) = self.sleepers.wake_for_push() {
            self.tokens[worker].unpark();
        }
    }

    fn pop(&self) -> Option<u32> {
        if self.length.load(Ordering::Acquire) == 0 {
            return None;
        }
        let job = self.injected.lock().unwrap().pop_front()?;
        self.length.fetch_sub(1, Ordering::Release);
        Some(job)
    }

    /// A worker that waits for one job, as `Search::find` and `Search::park` do.
    fn find(&self, worker: usize) -> u32 {
        let mut is_searching = self.sleepers.start_search();
        loop {
            if is_searching {
                if let Some(job) = self.pop() {
                    if self.sleepers.end_search() && self.length.load(Ordering::Acquire) > 0 {
                        if let Some(next) = self.sleepers.wake_for_push() {
                            self.tokens[next].unpark();
                        }
                    }
                    return job;
                }
            }
            // The taker of a job counts it a step later: until then let it run.
            loom::thread::yield_now();
            self.sleepers.enter(worker, is_searching);
            loop {
                if self.length.load(Ordering::Acquire) > 0 {
                    self.sleepers.leave(worker, true);
                    break;
                }
                self.tokens[worker].park();
                if !self.sleepers.is_parked(worker) {
                    break;
                }
            }
            is_searching = true;
        }
    }
}

fn bounded(run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(model.preemption_bound.unwrap_or(2).min(2));
    model.max_branches = 20_000;
    model.check(run);
}

#[test]
fn a_push_from_outside_is_never_slept_through() {
    bounded(|| {
        let group = Group::new(1);
        let worker = {
            let group = Arc::clone(&group);
            loom::thread::spawn(move || group.find(0))
        };
        group.push(7);
        assert_eq!(worker.join().unwrap(), 7);
    });
}

#[test]
fn two_pushes_wake_two_workers_in_the_end() {
    bounded(|| {
        let group = Group::new(2);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let group = Arc::clone(&group);
                loom::thread::spawn(move || group.find(worker))
            })
            .collect();
        group.push(1);
        group.push(2);
        let found: u32 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        assert_eq!(found, 3);
    });
}

/// A worker takes a batch without searching while the last searcher stops and a third one sleeps.
fn batch(is_told: bool) {
    bounded(move || {
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
    });
}

#[test]
fn what_comes_along_with_a_batch_does_not_wait_beside_a_sleeper() {
    batch(true);
}

#[test]
#[should_panic]
fn twin_without_a_word_after_the_batch_leaves_it_beside_a_sleeper() {
    batch(false);
}

#[test]
fn one_sleeper_keeps_the_time() {
    bounded(|| {
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
    bounded(|| {
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

fn twin(has_second_look: bool) {
    bounded(move || {
        // A worker that announces its sleep, and a producer that looks at the announcement.
        let is_parked = Arc::new(AtomicBool::new(false));
        let has_work = Arc::new(AtomicBool::new(false));
        let is_woken = Arc::new(AtomicBool::new(false));
        let producer = {
            let (is_parked, has_work) = (Arc::clone(&is_parked), Arc::clone(&has_work));
            let is_woken = Arc::clone(&is_woken);
            loom::thread::spawn(move || {
                has_work.store(true, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                if is_parked.load(Ordering::Relaxed) {
                    is_woken.store(true, Ordering::Release);
                }
            })
        };
        let mut sees_work = has_work.load(Ordering::Relaxed);
        is_parked.store(true, Ordering::Relaxed);
        if has_second_look {
            fence(Ordering::SeqCst);
            sees_work |= has_work.load(Ordering::Relaxed);
        }
        producer.join().unwrap();
        assert!(sees_work || is_woken.load(Ordering::Acquire), "the push is slept through");
    });
}

#[test]
fn the_twin_with_its_second_look_is_sound() {
    twin(true);
}

#[test]
#[should_panic]
fn twin_without_second_look_sleeps_through_a_push() {
    twin(false);
}
