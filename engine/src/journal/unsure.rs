//! Commits that have failed: whether they were made is found out before their entries are given back.
//!
//! A store may have written a batch and lost its answer. A plan that took it for not written would
//! write another entry after the same one, and its chain would have two ends. As long as the store
//! does not say it, the plans are told that nobody knows.

use std::time::Duration;

use turnwheel_runtime::Context;

use super::changes::Changing;
use super::writer::{Entry, Writer};
use super::{EntryOutcome, NewEntry};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::store::{Seq, Verdict};

/// Pause before a store that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// A commit that has failed.
pub(super) struct Unsure {
    pub(super) error: StoreError,
    pub(super) entries: Vec<Entry>,
}

/// Whether the error itself says that nothing was written.
pub(crate) fn is_refusal(error: &StoreError) -> bool {
    matches!(error, StoreError::Full(_) | StoreError::Fenced { .. })
}

impl Writer {
    /// Finds out whether the last commit was made, if that is not known, and tells its plans. False
    /// if the store does not say: nothing can be written before it does.
    pub(super) fn find_out(&mut self, now_ns: u64) -> bool {
        let Some(mut unsure) = self.unsure.take() else { return true };
        let written = match is_refusal(&unsure.error) || unsure.entries.is_empty() {
            true => Ok(vec![None; unsure.entries.len()]),
            false => {
                let entries = unsure.entries.iter().map(|entry| &entry.entry.append);
                self.store.written(&entries.collect::<Vec<_>>(), self.last)
            }
        };
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                tracing::warn!(%error, "it is not known whether the last commit was made");
                for entry in &mut unsure.entries {
                    (entry.ticket)(EntryOutcome::Unknown(Box::new(unsure.error.clone())));
                }
                self.unsure = Some(unsure);
                return false;
            }
        };
        let last = written.iter().flatten().max().copied();
        for (entry, place) in unsure.entries.into_iter().zip(written) {
            let Some(seq) = place else {
                entry.refuse(unsure.error.clone());
                continue;
            };
            let Entry { entry: NewEntry { append, row, tally }, mut ticket, .. } = entry;
            let verdicts = [Verdict::Written(seq)];
            self.has_written(seq, &append, row, tally, now_ns);
            self.listeners.durable(std::slice::from_ref(&append), &verdicts);
            let [verdict] = verdicts;
            ticket(verdict.into());
        }
        self.last = self.last.max(last.unwrap_or_default());
        true
    }

    /// Nothing can be written before the store says what became of the last commit: entries and
    /// changes that wait are given back.
    pub(super) fn refuse_waiting(&mut self) {
        let Some(unsure) = &self.unsure else { return };
        let error = unsure.error.clone();
        self.give_back(&error);
    }

    /// Gives entries and changes that wait back.
    pub(super) fn give_back(&mut self, error: &StoreError) {
        self.waiting.drain(..).for_each(|entry| entry.refuse(error.clone()));
        for Changing { tickets, .. } in self.changing.take_all() {
            tickets(Err(error.clone()));
        }
    }

    /// The plans of a world whose entries wait here and are not written after one more try.
    pub(super) fn unwritten(&mut self, world: u64, now_ns: u64) -> Vec<PlanId> {
        self.inbox.take(&mut self.waiting);
        let unsure = self.unsure.iter().flat_map(|unsure| &unsure.entries);
        let appends = unsure.chain(&self.waiting).map(|entry| &entry.entry.append);
        let own = appends.filter(|append| self.directory.owns(world, append.plan));
        let mut open: Vec<(PlanId, Seq)> = own.map(|append| (append.plan, append.prev)).collect();
        self.commit(now_ns);
        let heads = self.heads.0.lock();
        open.retain(|(plan, prev)| heads.get(plan).is_none_or(|head| head <= prev));
        open.into_iter().map(|(plan, _)| plan).collect()
    }

    /// Asks the store again after a moment, and commits then what waits.
    pub(super) fn commit_later(&mut self, cx: &mut Context<'_, Self>) {
        let armed = cx.after(AGAIN, |writer: &mut Self, cx| writer.commit_soon(cx));
        self.is_due = armed.is_ok();
    }
}
