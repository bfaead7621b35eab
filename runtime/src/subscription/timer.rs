//! Timers of a task: handle, states, and firing.

use super::word::TimerState;
use super::{Source, Step};
use crate::group::{GroupShared, TimersFull};
use crate::sync::Arc;
use crate::task::Turn;

/// Result of cancelling a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelled {
    /// The timer was pending: it will not fire.
    BeforeFiring,
    /// The deadline had passed but the job had not begun: it will not run.
    BeforeRunning,
    /// A recurring timer's job is running: it will not run again.
    WhileRunning,
    /// Too late, or cancelled before: nothing changed.
    TooLate,
}

/// Policy of a recurring timer at a fixed rate for missed firings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Late {
    /// Runs all missed firings, one after the other.
    Burst,
    /// Drops missed firings; the next one is at the next full period since the start.
    Skip,
    /// The next is one period after now.
    Delay,
}

/// Why a recurring timer was not armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimerError {
    /// It would never stop firing.
    #[error("a recurring timer with a period of zero")]
    ZeroPeriod,
    /// The group holds as many timers as it may.
    #[error(transparent)]
    Full(#[from] TimersFull),
}

/// Handle of a timer, usable from any thread. Dropping it cancels nothing (see [the
/// rule](crate#handles)).
#[derive(Clone, Debug)]
pub struct Timer {
    source: Arc<Source>,
    group: Arc<GroupShared>,
}

impl Timer {
    pub(crate) fn new(source: Arc<Source>, group: Arc<GroupShared>) -> Self {
        Self { source, group }
    }

    /// Cancels the timer and returns the state that it found. Costs one compare-and-set and, for a
    /// pending timer, the lock of its wheel. A stale handle never hits another timer.
    pub fn cancel(&self) -> Cancelled {
        let met = match self.source.timer.cancel() {
            Some(TimerState::Armed) => Cancelled::BeforeFiring,
            Some(TimerState::Fired) => Cancelled::BeforeRunning,
            Some(_) => Cancelled::WhileRunning,
            None => return Cancelled::TooLate,
        };
        self.forget(met);
        met
    }

    fn forget(&self, met: Cancelled) {
        if met == Cancelled::BeforeFiring {
            self.group.timers.cancel(self.source.timer_key.get());
        }
        if !self.source.remove_in_turn() {
            // The task drops the job in its next turn.
            self.source.ready();
        }
    }

    /// Whether the timer can still run its job.
    pub fn is_pending(&self) -> bool {
        self.source.timer.get() <= TimerState::Running && self.source.mark.is_attached()
    }
}

/// The wheel's side: the deadline has passed.
pub(crate) fn fire(source: &Arc<Source>) {
    if source.timer.fire() {
        source.ready();
    }
}

/// Rule for the next deadline of a recurring timer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rhythm {
    /// A period after the end of the run.
    FixedDelay,
    /// A period after the last deadline.
    FixedRate(Late),
}

/// A recurring timer's book-keeping.
#[derive(Debug)]
pub(crate) struct Recurring {
    pub(crate) period_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) rhythm: Rhythm,
}

impl Recurring {
    /// The deadline after a run that ended at `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64) -> u64 {
        let next = self.deadline_ns.saturating_add(self.period_ns);
        self.deadline_ns = match self.rhythm {
            Rhythm::FixedDelay | Rhythm::FixedRate(Late::Delay) if next <= now_ns => {
                now_ns.saturating_add(self.period_ns)
            }
            Rhythm::FixedDelay => now_ns.saturating_add(self.period_ns),
            Rhythm::FixedRate(Late::Skip) if next <= now_ns => {
                let missed = (now_ns - self.deadline_ns) / self.period_ns;
                self.deadline_ns.saturating_add((missed + 1).saturating_mul(self.period_ns))
            }
            Rhythm::FixedRate(_) => next,
        };
        self.deadline_ns
    }
}

/// Runs a recurring timer's job and arms it again, also when the job panics.
pub(crate) fn run_recurring(
    source: &Arc<Source>,
    recurring: &mut Recurring,
    turn: &mut Turn,
    job: &mut dyn FnMut(&mut Turn),
) -> Step {
    struct Rearm<'a> {
        source: &'a Arc<Source>,
        recurring: &'a mut Recurring,
        group: Arc<GroupShared>,
    }
    impl Drop for Rearm<'_> {
        fn drop(&mut self) {
            let deadline = self.recurring.advance(self.group.now_ns());
            rearm(&self.group, self.source, deadline);
        }
    }
    if !source.timer.begin() {
        return Step::Done;
    }
    let group = Arc::clone(&turn.header().group);
    turn.reach(recurring.deadline_ns);
    let rearm = Rearm { source, recurring, group };
    job(turn);
    drop(rearm);
    if source.timer.get() == TimerState::Cancelled {
        Step::Done
    } else {
        Step::Stay
    }
}

/// Puts a timer whose job runs back into the wheel, unless it was cancelled meanwhile.
fn rearm(group: &Arc<GroupShared>, source: &Arc<Source>, deadline_ns: u64) {
    if !source.mark.is_attached() {
        return;
    }
    if let Err(full) = group.arm_timer(deadline_ns, source) {
        // Its own place was free a moment ago, so the wheel is being flooded.
        crate::failure::log(|| tracing::error!(%full, "a recurring timer ends"));
        source.timer.end(TimerState::Cancelled);
    }
}

/// The task drops the subscription: a pending timer leaves its wheel.
pub(crate) fn abandon(slot: &super::Slot, group: &GroupShared) {
    if slot.kind != super::Kind::Timer {
        return;
    }
    if slot.source.timer.end(TimerState::Done) == TimerState::Armed {
        group.timers.cancel(slot.source.timer_key.get());
    }
}
