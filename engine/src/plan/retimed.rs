//! Times that are counted from a clock, and what becomes of them when that clock was set.

use serde::{Deserialize, Serialize};

use super::record::{End, Record};
use super::Plan;
use crate::id::StepId;
use crate::time::Time;

/// The clock was set while some times were counted from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retimed {
    /// When that was known here.
    pub at: Time,
    /// By how many microseconds they move.
    pub by: i64,
    /// The due times as they were.
    pub dues: Vec<Time>,
}

impl Plan {
    /// Due times that a record has set by counting from its time. The record was applied.
    pub(crate) fn dues_of(&self, record: &Record) -> [Option<Time>; 2] {
        let silent_at = |step: &StepId| self.find_step(*step)?.silent_at();
        match record {
            Record::Started { step, limit, .. } => [*limit, silent_at(step)],
            Record::Ended { end: End::Retry { at, .. }, .. } => [Some(*at), None],
            Record::Ended { step, .. } | Record::Beat { step, .. } => [silent_at(step), None],
            Record::TimerSet { due, .. } => [Some(*due), None],
            Record::TimerNamed { set: Some((_, due, _)), .. } => [Some(*due), None],
            Record::Created(_) | Record::Planned(_) => [self.created.deadline, None],
            _ => [None, None],
        }
    }

    /// Whether something is due at this time.
    pub(crate) fn has_due(&self, due: Time) -> bool {
        let delayed = self.delayed.iter().flat_map(|it| [it.start_at, it.start_before]);
        let steps = self.steps.iter().flat_map(|it| [it.limit, it.retry_at, it.silent_at()]);
        let mut dues = delayed.chain(steps).chain([self.created.deadline]).flatten();
        dues.any(|it| it == due) || self.timers.values().any(|timer| timer.due == due)
    }

    /// The clock was set: these times keep to the time that passes.
    pub(super) fn retimed(&mut self, Retimed { at, by, dues }: &Retimed) {
        let moved = |due: Time| match dues.contains(&due) {
            true => Time(due.0.saturating_add_signed(*by)),
            false => due,
        };
        let timers = self.timers.values_mut();
        timers.for_each(|timer| timer.due = moved(timer.due));
        if let Some(delayed) = &mut self.delayed {
            delayed.start_at = delayed.start_at.map(moved);
            delayed.start_before = delayed.start_before.map(moved);
        }
        self.created.deadline = self.created.deadline.map(moved);
        for index in 0..self.steps.len() {
            let id = StepId::at(index);
            self.clear_alarm(id);
            let step = &mut self.steps[index];
            let is_silent_then = step.silent_at().is_some_and(|at| dues.contains(&at));
            if let Some(beat) = step.beat.as_mut().filter(|_| is_silent_then) {
                beat.at = Time(beat.at.0.saturating_add_signed(*by));
            }
            step.limit = step.limit.map(moved);
            step.retry_at = step.retry_at.map(moved);
            self.set_alarm(id);
        }
        let seconds = by / 1_000_000;
        self.note(
            *at,
            format!("the clock was set by {seconds} s: what it had timed moves with it"),
        );
    }
}
