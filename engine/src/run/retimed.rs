//! Due times of a plan while the clock is in doubt, and when it was set.

use super::decide::Decisions;
use super::PlanActor;
use crate::plan::Record;
use crate::time::Time;

impl PlanActor {
    /// Tells the clock what was timed, if it is in doubt.
    pub(super) fn note_times(&self) {
        let clock = self.world.clock();
        let Some(plan) = self.plan.as_ref().filter(|_| clock.is_in_doubt()) else { return };
        let dues = self.records.iter().flat_map(|record| plan.dues_of(record)).flatten();
        let dues: Vec<Time> = dues.collect();
        if !dues.is_empty() {
            clock.timed(self.id, dues);
        }
    }
}

impl Decisions<'_> {
    /// The clock was set: what it had timed keeps to the time that passes.
    pub(super) fn move_dues(&mut self, moves: Vec<(Time, i64)>) {
        let mut moves = moves.into_iter().filter(|(due, _)| self.plan.has_due(*due)).peekable();
        let mut retimed = Vec::new();
        while let Some((due, by)) = moves.next() {
            let mut dues = vec![due];
            while let Some((due, _)) = moves.next_if(|(_, other)| *other == by) {
                dues.push(due);
            }
            retimed.push((by, dues));
        }
        drop(moves);
        for (by, dues) in retimed {
            self.record(Record::Retimed { at: self.now, by, dues });
        }
    }
}
