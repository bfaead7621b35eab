//! Due times of a plan when the clock was set.

use super::decide::Decisions;
use crate::plan::{Record, Retimed};
use crate::time::Time;

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
            self.record(Record::Retimed(Box::new(Retimed { at: self.now, by, dues })));
        }
    }
}
