//! The word that a timer's cancel, fire and run race for.

use crate::sync::{AtomicU8, Ordering};

/// State of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum TimerState {
    /// In the wheel.
    Armed = 0,
    /// Out of the wheel, its job not yet begun.
    Fired = 1,
    /// Its job runs.
    Running = 2,
    /// Its job has run, or its task is closed.
    Done = 3,
    /// Cancelled.
    Cancelled = 4,
}

/// The word. Every change is an exchange, so each race has one winner.
#[derive(Debug)]
pub(crate) struct TimerWord(AtomicU8);

impl TimerWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(TimerState::Armed as u8))
    }

    /// The state now.
    pub(crate) fn get(&self) -> TimerState {
        match self.0.load(Ordering::Acquire) {
            0 => TimerState::Armed,
            1 => TimerState::Fired,
            2 => TimerState::Running,
            3 => TimerState::Done,
            _ => TimerState::Cancelled,
        }
    }

    /// Changes the state from `from` to `to`; false if it is not `from`. AcqRel: the winner of a
    /// race sees the writes before the former state and publishes its own.
    pub(crate) fn step(&self, from: TimerState, to: TimerState) -> bool {
        let swap =
            self.0.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire);
        swap.is_ok()
    }

    /// The wheel's side: the deadline has passed. Whether the job is to run.
    pub(crate) fn fire(&self) -> bool {
        self.step(TimerState::Armed, TimerState::Fired)
    }

    /// The task's side: whether the job may begin.
    pub(crate) fn begin(&self) -> bool {
        self.step(TimerState::Fired, TimerState::Running)
    }

    /// Cancels, and answers the state that it met; `None` when it was too late.
    pub(crate) fn cancel(&self) -> Option<TimerState> {
        loop {
            let seen = self.get();
            if seen >= TimerState::Done {
                return None;
            }
            if self.step(seen, TimerState::Cancelled) {
                return Some(seen);
            }
        }
    }

    /// Sets the final state; returns the former one.
    pub(crate) fn end(&self, last: TimerState) -> TimerState {
        let before = self.get();
        self.0.swap(last as u8, Ordering::AcqRel);
        before
    }
}
