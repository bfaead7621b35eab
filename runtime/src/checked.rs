//! Checks that make memory mistakes loud; without `--cfg turnwheel_checked` they are nothing.
//!
//! Freed nodes, cells and oneshot channels are filled with a pattern and kept in quarantine: a
//! reader finds no living thing there, and a write is found when the place leaves the quarantine.
//! Tasks and channels have a number while they live, and a queued node has the number of its task.

#[cfg(turnwheel_checked)]
pub(crate) use self::on::{give, take, Life, Queued};

/// Marks a task or a oneshot channel as alive.
#[cfg(not(turnwheel_checked))]
#[derive(Debug)]
pub(crate) struct Life;

#[cfg(not(turnwheel_checked))]
impl Life {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self
    }

    /// Ends the process unless it is alive.
    #[inline(always)]
    pub(crate) fn check(&self) {}
}

/// Names the task that a node is queued for.
#[cfg(not(turnwheel_checked))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued;

#[cfg(not(turnwheel_checked))]
impl Queued {
    #[inline(always)]
    pub(crate) fn on(_: &Life) -> Self {
        Self
    }

    /// Ends the process unless it is this task.
    #[inline(always)]
    pub(crate) fn check(self, _: &Life) {}
}

#[cfg(turnwheel_checked)]
#[path = "../checked/checks.rs"]
mod on;
