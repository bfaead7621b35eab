//! Submitted lane and state word: push against going idle, signals, holding, closing.
#![cfg(turnwheel_loom)]

use loom::sync::Arc;
use turnwheel_runtime::model::{Task, CLOSE, READY};

const UNBOUNDED: u64 = u64::MAX;

fn submit(task: &Task, value: u32) -> bool {
    match task.submit(value, UNBOUNDED) {
        Some(true) => task.run_to_end(),
        Some(false) => {}
        None => return false,
    }
    true
}

#[test]
fn two_producers_lose_nothing_and_never_run_the_task_at_once() {
    loom::model(|| {
        let task = Arc::new(Task::new(false));
        let other = {
            let task = Arc::clone(&task);
            loom::thread::spawn(move || {
                assert!(submit(&task, 10));
            })
        };
        assert!(submit(&task, 1));
        assert!(submit(&task, 2));
        other.join().unwrap();
        let values = task.values();
        let own: Vec<u32> = values.iter().copied().filter(|value| *value < 10).collect();
        assert_eq!(own, [1, 2], "one producer's jobs keep their order");
        assert_eq!(values.len(), 3, "each ran once");
    });
}

#[test]
fn a_signal_is_never_slept_through() {
    loom::model(|| {
        let task = Arc::new(Task::new(false));
        let signaller = {
            let task = Arc::clone(&task);
            loom::thread::spawn(move || {
                if task.signal(READY) {
                    task.run_to_end();
                }
            })
        };
        assert!(submit(&task, 1));
        signaller.join().unwrap();
        assert_eq!(task.signals_taken() & READY, READY);
        assert_eq!(task.values(), [1]);
    });
}

/// Holds a task while another thread pushes and signals. Whether it was held, and what it was told.
fn signal_a_held_task(signal: u32) -> (bool, u32) {
    let task = Arc::new(Task::new(true));
    let signaller = {
        let task = Arc::clone(&task);
        loom::thread::spawn(move || {
            // The push never schedules: the task is held or running.
            assert_eq!(task.submit(7, UNBOUNDED), Some(false));
            task.signal(signal)
        })
    };
    let is_held = task.run_held();
    let must_run = signaller.join().unwrap();
    assert_eq!(is_held, must_run, "exactly one of them goes on");
    task.run_to_end();
    assert_eq!(task.values(), [7]);
    (is_held, task.signals_taken())
}

#[test]
fn a_held_task_comes_back_for_a_signal_only() {
    loom::model(|| assert_eq!(signal_a_held_task(CLOSE).1, CLOSE));
}

#[test]
fn a_task_is_told_of_what_is_ready_or_was_held_and_looks_by_itself() {
    loom::model(|| {
        let (was_held, told) = signal_a_held_task(READY);
        assert!(was_held || told == READY);
    });
}

#[test]
fn who_ends_the_hold_has_the_task_for_itself() {
    loom::model(|| {
        let task = Arc::new(Task::new(true));
        let ready = |value| {
            let task = Arc::clone(&task);
            loom::thread::spawn(move || {
                let must_run = task.ready(value);
                if must_run {
                    task.run_to_end();
                }
                must_run
            })
        };
        let others = [ready(1), ready(2)];
        let is_held = task.run_held();
        if !is_held {
            task.run_to_end();
        }
        let ran = others.map(|other| other.join().unwrap());
        assert!(!is_held || ran != [false, false], "a held task comes back");
        let values = task.values();
        assert!(values.len() == 2 || task.signals_taken() & READY != 0, "nothing is lost");
    });
}

#[test]
fn what_is_admitted_before_the_close_runs_and_nothing_after_it() {
    loom::model(|| {
        let task = Arc::new(Task::new(false));
        let producer = {
            let task = Arc::clone(&task);
            loom::thread::spawn(move || u32::from(submit(&task, 1)) + u32::from(submit(&task, 2)))
        };
        if task.close() {
            task.run_to_end();
        }
        let accepted = producer.join().unwrap();
        assert_eq!(task.values().len() as u32, accepted, "accepted jobs run, others never");
        assert!(task.is_over(), "the close is carried out without another push");
        assert_eq!(task.signals_taken() & CLOSE, CLOSE);
    });
}

#[test]
fn a_full_lane_refuses_and_keeps_what_it_has() {
    loom::model(|| {
        let task = Arc::new(Task::new(true));
        let producer = {
            let task = Arc::clone(&task);
            loom::thread::spawn(move || task.submit(1, 1).is_some())
        };
        let mine = task.submit(2, 1).is_some();
        let theirs = producer.join().unwrap();
        assert!(mine || theirs, "one finds the free place");
        task.run_to_end();
        assert_eq!(task.values().len(), usize::from(mine) + usize::from(theirs));
        assert!(task.values().len() <= 1, "the bound holds");
    });
}

#[test]
fn a_promised_place_counts_until_it_is_used_or_given_back() {
    loom::model(|| {
        let task = Arc::new(Task::new(true));
        assert!(task.reserve(1), "the lane is empty");
        let producer = {
            let task = Arc::clone(&task);
            loom::thread::spawn(move || task.submit(1, 1).is_some())
        };
        assert_eq!(task.submit_reserved(2), Some(false), "a promise is never full");
        assert!(!producer.join().unwrap(), "the only place is taken all the time");
        task.run_to_end();
        assert_eq!(task.values(), [2]);
        assert!(task.reserve(1), "what has run gives its place back");
        task.unreserve();
        assert_eq!(task.submit(3, 1), Some(true));
    });
}

#[test]
fn a_close_between_promise_and_use_refuses_and_the_end_needs_no_further_push() {
    loom::model(|| {
        let task = Arc::new(Task::new(false));
        assert!(task.reserve(1));
        let producer = {
            let task = Arc::clone(&task);
            loom::thread::spawn(move || {
                let pushed = task.submit_reserved(1);
                if pushed == Some(true) {
                    task.run_to_end();
                }
                pushed.is_some()
            })
        };
        if task.close() {
            task.run_to_end();
        }
        let is_accepted = producer.join().unwrap();
        assert_eq!(task.values().len(), usize::from(is_accepted));
        assert!(task.is_over());
    });
}

#[test]
fn a_consumer_that_frees_places_meanwhile_never_lets_the_bound_be_passed() {
    loom::model(|| {
        let task = Arc::new(Task::new(false));
        // Runs at once: the count is one, and so is what was given back.
        assert!(submit_bounded(&task, 1));
        let other = {
            let task = Arc::clone(&task);
            loom::thread::spawn(move || submit_bounded(&task, 2))
        };
        let mine = submit_bounded(&task, 3);
        let theirs = other.join().unwrap();
        assert!(mine || theirs, "one finds the free place");
        assert_eq!(task.values().len(), 1 + usize::from(mine) + usize::from(theirs));
    });
}

/// Submits to a lane of one place and runs the task if it has to.
fn submit_bounded(task: &Task, value: u32) -> bool {
    let pushed = task.submit(value, 1);
    if pushed == Some(true) {
        task.run_to_end();
    }
    pushed.is_some()
}

/// The lane with one step broken at a time; compact, so that each defect stands out.
mod broken {
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Clone, Copy, PartialEq)]
    pub(super) enum Defect {
        /// The consumer goes idle without exchange: a push between look and store is lost.
        IdleByStore,
        /// The consumer does not look at signals again, and signals do not tag the word.
        NoTag,
        /// The word orders nothing: the state of one runner is not seen by the next.
        Relaxed,
        /// The producer looks whether the lane is closed, and pushes without looking again.
        PushAfterLook,
        /// None: the same code, sound.
        Nothing,
    }

    /// The bit of the word that says closed; the count of pushes is above it.
    pub(super) const CLOSED: usize = 1;

    /// A counter as lane: the number of pushes not yet consumed, and a runner's state.
    pub(super) struct Lane {
        pub(super) defect: Defect,
        word: AtomicUsize,
        signals: AtomicUsize,
        state: UnsafeCell<usize>,
    }

    // SAFETY: the model checks the claim, and finds it broken.
    unsafe impl Sync for Lane {}
    // SAFETY: as above.
    unsafe impl Send for Lane {}

    impl Lane {
        pub(super) fn new(defect: Defect) -> Self {
            let (word, signals) = (AtomicUsize::new(0), AtomicUsize::new(0));
            Self { defect, word, signals, state: UnsafeCell::new(0) }
        }

        fn order(&self, sound: Ordering) -> Ordering {
            if self.defect == Defect::Relaxed {
                Ordering::Relaxed
            } else {
                sound
            }
        }

        pub(super) fn push(&self) {
            if self.word.fetch_add(2, self.order(Ordering::AcqRel)) == 0 {
                self.run();
            }
        }

        /// Pushes if the lane is open; does not run it. Whether it did.
        pub(super) fn push_if_open(&self) -> bool {
            let mut word = self.word.load(Ordering::Acquire);
            loop {
                if word & CLOSED != 0 {
                    return false;
                }
                if self.defect == Defect::PushAfterLook {
                    self.word.fetch_add(2, Ordering::AcqRel);
                    return true;
                }
                match self.word.compare_exchange(
                    word,
                    word + 2,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                ) {
                    Ok(_) => return true,
                    Err(newer) => word = newer,
                }
            }
        }

        /// Closes, and answers how many pushes there will ever have been.
        pub(super) fn close(&self) -> usize {
            self.word.fetch_or(CLOSED, Ordering::AcqRel) / 2
        }

        pub(super) fn signal(&self) {
            self.signals.fetch_add(1, Ordering::AcqRel);
            if self.defect == Defect::NoTag {
                if self.word.load(Ordering::Acquire) == 0 {
                    self.push();
                }
                return;
            }
            self.push();
        }

        fn run(&self) {
            loop {
                let seen = self.word.load(self.order(Ordering::Acquire));
                // SAFETY: only the runner is here; the model checks that.
                self.state.with_mut(|state| unsafe { *state += 1 });
                self.signals.swap(0, Ordering::AcqRel);
                if self.defect == Defect::IdleByStore {
                    if self.word.load(Ordering::Acquire) == seen {
                        self.word.store(0, Ordering::Release);
                        return;
                    }
                    continue;
                }
                let order = self.order(Ordering::AcqRel);
                if self.word.compare_exchange(seen, 0, order, Ordering::Relaxed).is_ok() {
                    return;
                }
            }
        }

        pub(super) fn is_settled(&self) -> bool {
            self.word.load(Ordering::Acquire) == 0 && self.signals.load(Ordering::Acquire) == 0
        }

        pub(super) fn runs(&self) -> usize {
            // SAFETY: everybody has been joined.
            self.state.with(|state| unsafe { *state })
        }
    }
}

fn broken_pushes(defect: broken::Defect) {
    loom::model(move || {
        let lane = Arc::new(broken::Lane::new(defect));
        let other = {
            let lane = Arc::clone(&lane);
            loom::thread::spawn(move || lane.push())
        };
        lane.push();
        other.join().unwrap();
        assert!(lane.is_settled() && lane.runs() > 0);
        // A lost push shows as a word that the next push finds idle while one is owed.
        let before = lane.runs();
        lane.push();
        assert!(lane.runs() > before);
    });
}

#[test]
#[should_panic]
fn twin_relaxed_word_races_on_the_state() {
    broken_pushes(broken::Defect::Relaxed);
}

#[test]
#[should_panic]
fn twin_idle_by_store_runs_the_task_twice_at_once() {
    loom::model(|| {
        let lane = Arc::new(broken::Lane::new(broken::Defect::IdleByStore));
        let other = {
            let lane = Arc::clone(&lane);
            loom::thread::spawn(move || {
                lane.push();
                lane.push();
            })
        };
        lane.push();
        other.join().unwrap();
        assert!(lane.is_settled());
    });
}

#[test]
#[should_panic]
fn twin_signal_without_tag_is_slept_through() {
    loom::model(|| {
        let lane = Arc::new(broken::Lane::new(broken::Defect::NoTag));
        let other = {
            let lane = Arc::clone(&lane);
            loom::thread::spawn(move || lane.signal())
        };
        lane.push();
        other.join().unwrap();
        assert!(lane.is_settled(), "a signal is left with nobody to look");
    });
}

fn push_against_close(defect: broken::Defect) {
    loom::model(move || {
        let lane = Arc::new(broken::Lane::new(defect));
        let other = {
            let lane = Arc::clone(&lane);
            loom::thread::spawn(move || usize::from(lane.push_if_open()))
        };
        let final_count = lane.close();
        assert_eq!(other.join().unwrap(), final_count, "an accepted job that nobody waits for");
    });
}

#[test]
fn the_twin_that_pushes_by_exchange_is_sound() {
    push_against_close(broken::Defect::Nothing);
}

#[test]
#[should_panic]
fn twin_push_after_a_look_gets_behind_the_close() {
    push_against_close(broken::Defect::PushAfterLook);
}
