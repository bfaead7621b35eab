//! Next launches of a schedule: from its stored state and the time. Pure.

use std::time::Duration;

use super::launch::{jitter, Due, Occasion, Outcome};
use super::rule::Rule;
use super::state::{Kept, Range};
use super::timing::{CatchUp, Overlap};
use crate::id::PlanId;
use crate::limits::{
    SCHEDULE_LATE_MAX, SCHEDULE_MISSED_MAX, SCHEDULE_QUEUE_MAX, SCHEDULE_RANGES_MAX,
    SCHEDULE_RUNNING_MAX,
};
use crate::time::Time;

/// Times that are decided at once; the others follow when these are durable.
const SLICE: usize = 256;

/// Consequences of a decision.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decided {
    /// When to decide again.
    pub(crate) wakes_at: Option<Time>,
    /// Plans that make room for the next one.
    pub(crate) cancels: Vec<PlanId>,
}

/// A schedule that decides at a moment.
pub(crate) struct Decisions<'a> {
    pub(crate) name: &'a str,
    pub(crate) rule: &'a Rule,
    pub(crate) kept: &'a mut Kept,
    pub(crate) now: Time,
}

impl Decisions<'_> {
    /// Decides all that is due.
    pub(crate) fn advance(&mut self) -> Decided {
        if self.now < self.kept.decided {
            // The clock has gone back. Times that come again are decided again: keys show which
            // ones were launched, and times missed by a jump ahead are not missed any more.
            self.kept.decided = self.now;
        }
        let mut decided = Decided::default();
        if self.kept.paused.is_none() {
            decided.wakes_at =
                if self.rule.follows_ends() { self.follow() } else { self.come_due() };
            self.release();
            if self.kept.spec.overlap == Overlap::Replace && !self.kept.queue.is_empty() {
                decided.cancels.clone_from(&self.kept.running);
            }
        }
        if self.make_up() {
            decided.wakes_at = Some(self.now);
        }
        decided
    }

    /// Takes the times that have come, and says when the next one does.
    fn come_due(&mut self) -> Option<Time> {
        for _ in 0..SLICE {
            let next = self.rule.next(self.kept.decided)?;
            let due = self.due(next);
            if due > self.now {
                return Some(due);
            }
            if self.now.since(next) > self.late_max() {
                self.catch_up();
            } else if let Some(newest) = self.newest_of_several(next) {
                self.miss(self.kept.decided, before(newest));
                self.kept.decided = before(newest);
            } else {
                self.kept.decided = next;
                self.launch(Due { planned: next, occasion: Occasion::OnTime });
            }
        }
        Some(self.now)
    }

    /// The newest of several times that are due by now, if it is not this one: it makes up for
    /// those before it, unless all are to be made up for. Jitter makes no time late.
    fn newest_of_several(&self, next: Time) -> Option<Time> {
        if matches!(self.kept.spec.catch_up, CatchUp::All { .. }) {
            return None;
        }
        let due = Time(self.now.0.saturating_sub(micros(self.kept.spec.jitter())));
        let is_due = |time: &Time| *time <= due;
        self.rule.next(next).filter(is_due)?;
        self.rule.latest(next, due)
    }

    /// Launches when the pause after the last end is over; however late that is, it is one launch.
    fn follow(&mut self) -> Option<Time> {
        if self.kept.is_busy() || !self.kept.queue.is_empty() {
            return None;
        }
        let next = self.rule.next(self.kept.decided)?;
        let due = self.due(next);
        if due > self.now {
            return Some(due);
        }
        self.kept.decided = self.now;
        self.launch(Due { planned: next, occasion: Occasion::OnTime });
        None
    }

    /// When a launch is due that is planned for a time.
    fn due(&self, planned: Time) -> Time {
        planned.after(jitter(self.name, planned, self.kept.spec.jitter()))
    }

    /// Age after which a time counts as missed: includes the jitter.
    fn late_max(&self) -> Duration {
        SCHEDULE_LATE_MAX + self.kept.spec.jitter()
    }

    /// Deals with times that were missed.
    fn catch_up(&mut self) {
        let after = self.kept.decided;
        // Times planned up to here are missed.
        let missed = Time(self.now.0.saturating_sub(micros(self.late_max()) + 1));
        debug_assert!(after < missed, "a time between them has been missed");
        match self.kept.spec.catch_up {
            CatchUp::None => {
                self.miss(after, missed);
                self.kept.decided = missed;
            }
            CatchUp::Latest => {
                let latest = self.rule.latest(after, missed).unwrap_or(missed);
                self.miss(after, before(latest));
                self.kept.decided = missed;
                // A launch that is only late makes up for it as well.
                if self.rule.next(missed).is_some_and(|next| self.due(next) <= self.now) {
                    self.miss(before(latest), latest);
                } else {
                    self.launch(Due { planned: latest, occasion: Occasion::CaughtUp });
                }
            }
            CatchUp::All { window_us } => {
                let from = Time(self.now.0.saturating_sub(window_us)).max(after).min(missed);
                self.miss(after, from);
                self.kept.decided = missed;
                let range = Range { after: from, until: missed, is_asked: false };
                if self.kept.ranges.len() < SCHEDULE_RANGES_MAX {
                    self.kept.ranges.push_back(range);
                } else {
                    self.miss(range.after, range.until);
                }
            }
        }
    }

    fn miss(&mut self, after: Time, until: Time) {
        self.kept.counts.missed += self.rule.count(after, until, SCHEDULE_MISSED_MAX);
    }

    /// Launches, waits or leaves out, as the overlap policy says.
    fn launch(&mut self, due: Due) {
        let kept = &mut *self.kept;
        if kept.has_launched(due.planned) {
            return;
        }
        let is_free = !kept.is_busy() && kept.queue.is_empty();
        match kept.spec.overlap {
            Overlap::Allow => kept.going.push(due),
            _ if is_free => kept.going.push(due),
            Overlap::Forbid => {
                let why = "the plan before it is under way";
                kept.remember(due, self.now, Outcome::Skipped(why.to_owned()));
            }
            Overlap::Queue if kept.queue.len() >= SCHEDULE_QUEUE_MAX => {
                let why = format!("{SCHEDULE_QUEUE_MAX} launches wait already");
                kept.remember(due, self.now, Outcome::Skipped(why));
            }
            Overlap::Queue => kept.queue.push_back(due),
            Overlap::Replace => {
                for replaced in std::mem::take(&mut kept.queue) {
                    let why = "a later one has taken its place".to_owned();
                    kept.remember(replaced, self.now, Outcome::Skipped(why));
                }
                kept.queue.push_back(due);
            }
        }
    }

    /// Lets the first of the queue go, if nothing is in its way.
    fn release(&mut self) {
        let is_free = self.kept.spec.overlap == Overlap::Allow || !self.kept.is_busy();
        if let Some(due) = is_free.then(|| self.kept.queue.pop_front()).flatten() {
            self.kept.going.push(due);
        }
    }

    /// Takes what is to be made up for, as far as there is room. Whether more could go at once.
    fn make_up(&mut self) -> bool {
        for _ in 0..SLICE {
            let is_full = match self.kept.spec.overlap {
                Overlap::Allow => self.kept.going.len() >= SCHEDULE_RUNNING_MAX,
                _ => self.kept.is_busy() || !self.kept.queue.is_empty(),
            };
            let is_paused = self.kept.paused.is_some();
            let mut ranges = self.kept.ranges.iter();
            let place = ranges.position(|range| range.is_asked || !is_paused);
            let Some(place) = place.filter(|_| !is_full) else { return false };
            let range = &mut self.kept.ranges[place];
            let occasion = if range.is_asked { Occasion::Backfill } else { Occasion::CaughtUp };
            match self.rule.next(range.after).filter(|next| *next <= range.until) {
                None => {
                    self.kept.ranges.remove(place);
                }
                Some(planned) => {
                    range.after = planned;
                    if !self.kept.has_launched(planned) {
                        self.kept.going.push(Due { planned, occasion });
                    }
                }
            }
        }
        true
    }
}

/// The time right before this one: what is planned for this one comes after it.
fn before(time: Time) -> Time {
    Time(time.0.saturating_sub(1))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
