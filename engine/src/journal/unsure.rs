//! Commits that have failed: whether they were made is found out before anybody is told.
//!
//! A store may have written a batch and lost its answer. A plan that took it for not written would
//! write another entry after the same one, and its chain would have two ends.

use std::time::Duration;

use turnwheel_runtime::Context;

use super::writer::{Entry, Writer};
use super::NewEntry;
use crate::error::StoreError;
use crate::store::{Append, Seq, Verdict};

/// Pause before a store that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// A commit that has failed.
pub(super) struct Unsure {
    pub(super) error: StoreError,
    pub(super) entries: Vec<Entry>,
}

impl Unsure {
    /// Whether the error itself says that nothing was written.
    fn is_refused(&self) -> bool {
        matches!(self.error, StoreError::Full(_) | StoreError::Fenced { .. })
    }
}

impl Writer {
    /// Finds out whether the last commit was made, if that is not known, and tells its plans. False
    /// if the store does not say: nothing can be written before it does.
    pub(super) fn find_out(&mut self, now_ns: u64) -> bool {
        let Some(unsure) = self.unsure.take() else { return true };
        let written = match unsure.is_refused() || unsure.entries.is_empty() {
            true => Ok(Vec::new()),
            false => self.store.written_after(self.last),
        };
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                tracing::warn!(%error, "it is not known whether the last commit was made");
                self.unsure = Some(unsure);
                return false;
            }
        };
        let place = |append: &Append| -> Option<Seq> {
            let found = written.iter().find(|it| (it.1, it.2) == (append.plan, append.prev));
            found.map(|(seq, _, _)| *seq)
        };
        for entry in unsure.entries {
            let Some(seq) = place(&entry.entry.append) else {
                entry.refuse(unsure.error.clone());
                continue;
            };
            let Entry { entry: NewEntry { append, row, tally }, ticket } = entry;
            let verdicts = [Verdict::Written(seq)];
            self.has_written(seq, &append, row, tally, now_ns);
            self.listeners.durable(std::slice::from_ref(&append), &verdicts);
            let [verdict] = verdicts;
            ticket(Ok(verdict));
        }
        if let Some((last, _, _)) = written.last() {
            self.last = self.last.max(*last);
        }
        true
    }

    /// Asks the store again after a moment, and commits then what waits.
    pub(super) fn commit_later(&mut self, cx: &mut Context<'_, Self>) {
        let armed = cx.after(AGAIN, |writer: &mut Self, cx| writer.commit_soon(cx));
        self.is_due = armed.is_ok();
    }
}
