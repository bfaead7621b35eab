//! Times that have come, and times that were missed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use turnwheel_engine::Time;

use super::Turn;
use crate::launch::{Cause, LaunchState};
use crate::limits::{ACTIVE_MAX, LATE_MAX, MISSED_MAX, MISSED_ROWS_MAX, SLICE};
use crate::schedule::{jitter, Schedule};
use crate::spec::{JobSpec, Missed};

/// The first time of a job after one, within its dates.
pub(crate) fn next_of(spec: &JobSpec, schedule: &Schedule, after: Time) -> Option<Time> {
    // The begin itself is a time.
    let begin = spec.starts_at.map_or(Time(0), |starts| Time(starts.0.saturating_sub(1)));
    let next = schedule.next(after.max(begin))?;
    (spec.expires_at.is_none_or(|expires| next <= expires)).then_some(next)
}

/// When a launch is due that is planned for a time.
pub(crate) fn due_of(spec: &JobSpec, planned: Time) -> Time {
    let max = u64::try_from(spec.jitter.0.as_micros()).unwrap_or(u64::MAX);
    Time(planned.0.saturating_add(jitter(&spec.name, planned.0, max)))
}

impl Turn<'_> {
    fn next(&self, after: Time) -> Option<Time> {
        next_of(&self.record.spec, self.schedule?, after)
    }

    fn due(&self, planned: Time) -> Time {
        due_of(&self.record.spec, planned)
    }

    /// Takes the times that have come, and says when the next one does.
    pub(super) fn take_due(&mut self) -> Option<Time> {
        if self.now < self.record.decided {
            // The clock was set back: times come again, and those with a row are not launched
            // again.
            self.record.replay_until = self.record.replay_until.max(self.record.decided);
            self.record.decided = self.now;
        }
        if !self.record.fires() || self.schedule.is_none() {
            self.record.decided = self.now;
            return None;
        }
        // Launches keep their order: one whose jitter ends before that of the one before it begins with that.
        let mut before = self.due(self.record.decided);
        for _ in 0..SLICE {
            let next = self.next(self.record.decided)?;
            if self.due(next) > self.now {
                return Some(self.due(next));
            }
            before = before.max(self.due(next)).min(self.now);
            let is_missed = self.now.since(before) > LATE_MAX
                || (self.is_unserved(next)
                    && self.next(next).is_some_and(|at| self.is_unserved(at)));
            if is_missed {
                if !self.miss() {
                    // Nothing more is made up for before something ends.
                    return None;
                }
            } else {
                self.record.decided = next;
                self.fire(next, Cause::Schedule);
            }
        }
        Some(self.now)
    }

    /// Whether a time came while nobody served. One alone is late, and of several all are missed.
    fn is_unserved(&self, planned: Time) -> bool {
        let due = self.due(planned);
        due < self.since && due <= self.now
    }

    /// The last of the times that are missed. Without a make-up the newest one may still be late.
    fn missed_until(&self, until: Time) -> Time {
        let times = std::iter::successors(self.next(until), |at| self.next(*at));
        let times = times.take_while(|at| self.is_unserved(*at)).take(MISSED_MAX);
        let (before, last) = times.fold((until, until), |(_, last), at| (last, at));
        match self.record.spec.missed {
            Missed::None => before,
            Missed::Latest | Missed::All(_) => last,
        }
    }

    /// Launches for a planned time, unless it has a row already.
    fn fire(&mut self, planned: Time, cause: Cause) {
        if self.is_decided(planned) {
            return;
        }
        let launch = self.new_launch(planned, cause, None);
        match self.too_late(planned) {
            Some(why) => self.leave_out(launch, LaunchState::Missed, &why),
            None => self.admit(launch),
        }
    }

    /// Why a launch may not begin any more, if the job limits its lateness.
    pub(super) fn too_late(&self, planned: Time) -> Option<String> {
        let limit = self.record.spec.start_within?;
        let late = self.now.since(self.due(planned));
        (late > limit.0)
            .then(|| format!("it is {}s late, and start_within is {limit}", late.as_secs()))
    }

    /// Whether a time that comes again has its row. A missed time gives its row up for the launch.
    fn is_decided(&mut self, planned: Time) -> bool {
        if planned > self.record.replay_until {
            return false;
        }
        if planned <= self.record.settled {
            return true;
        }
        let is_active = self.record.active.iter().any(|launch| launch.covers(planned));
        let Some(place) = self.record.of_time(planned).filter(|_| !is_active) else {
            let oldest = self.record.ended.iter().find(|launch| launch.is_scheduled());
            let is_paged = self.record.pages.1 > 0;
            // Older rows are in pages: every time before the oldest one here was decided.
            return is_active || (is_paged && oldest.is_none_or(|oldest| planned < oldest.planned));
        };
        let row = Arc::make_mut(&mut self.record.ended[place]);
        if row.state != LaunchState::Missed {
            return true;
        }
        row.times -= 1;
        self.record.counts.missed = self.record.counts.missed.saturating_sub(1);
        if row.times == 0 {
            self.record.ended.remove(place);
        }
        false
    }

    /// Deals with the times that were missed. Whether there was room for all that is made up for.
    fn miss(&mut self) -> bool {
        let late_us = LATE_MAX + self.record.spec.jitter.0;
        // Times up to here are missed.
        let until = Time(self.now.0.saturating_sub(micros(late_us) + 1));
        let until = until.max(self.record.decided);
        let until = self.next(self.record.decided).map_or(until, |first| until.max(first));
        let until = self.missed_until(until);
        match self.record.spec.missed {
            Missed::None => self.note_missed(until, "nothing launched jobs at its time"),
            Missed::Latest => match self.latest(until) {
                None => self.record.decided = until,
                Some(latest) => {
                    let why = format!("the launch of {latest} makes up for it");
                    self.note_missed(Time(latest.0 - 1), &why);
                    self.record.decided = until;
                    self.fire(latest, Cause::CatchUp);
                }
            },
            Missed::All(window) => {
                let from = Time(self.now.0.saturating_sub(micros(window.0)));
                let why = format!("it is older than {window}, the window of missed times");
                self.note_missed(Time(from.0.saturating_sub(1)).min(until), &why);
                while let Some(next) = self.next(self.record.decided).filter(|at| *at <= until) {
                    let open = self.record.active.iter().filter(|it| !it.is_asked()).count();
                    if open >= ACTIVE_MAX {
                        return false;
                    }
                    self.record.decided = next;
                    self.fire(next, Cause::CatchUp);
                }
                self.record.decided = until;
            }
        }
        true
    }

    /// Writes rows for the times up to one: one each for the newest, one together for the others.
    fn note_missed(&mut self, until: Time, why: &str) {
        let mut newest: VecDeque<Time> = VecDeque::new();
        let (mut first, mut last, mut count) = (None, None, 0u64);
        let mut at = self.record.decided;
        for number in 0..=MISSED_MAX {
            let Some(next) = self.next(at).filter(|next| *next <= until) else { break };
            if number == MISSED_MAX {
                // Too many to count: the shared row covers the rest.
                count += newest.len() as u64;
                newest.clear();
                last = Some(until);
                break;
            }
            at = next;
            if self.is_decided(next) {
                continue;
            }
            newest.push_back(next);
            if newest.len() > MISSED_ROWS_MAX {
                last = newest.pop_front();
                first = first.or(last);
                count += 1;
            }
        }
        self.record.decided = self.record.decided.max(until);
        if let (Some(first), Some(last)) = (first, last) {
            let mut launch = self.new_launch(first, Cause::Schedule, None);
            (launch.times, launch.until) = (count, Some(last));
            self.leave_out(launch, LaunchState::Missed, why);
        }
        for planned in newest {
            let launch = self.new_launch(planned, Cause::Schedule, None);
            self.leave_out(launch, LaunchState::Missed, why);
        }
    }

    /// The last time up to one that is not decided.
    fn latest(&self, until: Time) -> Option<Time> {
        let decided = self.record.decided;
        let times = |from: Time| {
            std::iter::successors(self.next(from), |time| self.next(*time))
                .take_while(|time| *time <= until)
                .take(MISSED_MAX)
                .last()
        };
        // Windows that grow: the first one that has a time at all has few of them.
        for window in [60, 3_600, 86_400, 32 * 86_400] {
            let window = micros(Duration::from_secs(window));
            let from = Time(until.0.saturating_sub(window)).max(decided);
            if let Some(latest) = times(from) {
                return Some(latest);
            }
            if from == decided {
                return None;
            }
        }
        times(decided)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
