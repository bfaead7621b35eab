//! When a plan is stored as a whole: a snapshot stands for all entries before it.
//!
//! A snapshot is due when the entries since the last one are as large as that was. So what is
//! written for an event stays the same however large the plan becomes, and at most as much again is
//! read with it.

use super::PlanActor;
use crate::journal::encode_plan;
use crate::limits::{SNAPSHOT_RECORDS, SNAPSHOT_RECORDS_LIVE};
use crate::plan::{Plan, Record};
use crate::store::aside::parts;
use crate::store::{Loaded, PlanRow};

/// Records of a plan written since its last snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    entries: u32,
    bytes: usize,
    /// Bytes of the last snapshot.
    whole: usize,
}

impl Growth {
    /// Of a plan that was loaded.
    pub(super) fn of(loaded: &Loaded) -> Self {
        Self {
            entries: u32::try_from(loaded.entries.len()).unwrap_or(u32::MAX),
            bytes: loaded.entries.iter().map(|(_, entry)| size(entry)).sum(),
            whole: loaded.snapshot.as_ref().map_or(0, |snapshot| size(snapshot)),
        }
    }

    fn is_due(&self, entries: u32) -> bool {
        self.entries >= entries && self.bytes >= self.whole
    }

    /// An entry was written.
    pub(super) fn add(&mut self, bytes: usize) {
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// A snapshot was taken.
    pub(super) fn restart(&mut self, snapshot: &[u8]) {
        *self = Self { entries: 0, bytes: 0, whole: size(snapshot) };
    }
}

/// Bytes of an entry or a snapshot without large values, which are stored once.
pub(super) fn size(bytes: &[u8]) -> usize {
    parts(bytes).map_or(bytes.len(), |parts| parts.body.len())
}

impl PlanActor {
    /// The plan as of the entry that is about to be handed over with these records, if it is time.
    pub(super) fn snapshot_with(&self, plan: &Plan, records: &[Record]) -> Option<Vec<u8>> {
        let begins_anew = || {
            let is_new_run = |record: &Record| matches!(record, Record::ContinuedAsNew { .. });
            records.iter().any(is_new_run)
        };
        let is_due = self.growth.is_due(SNAPSHOT_RECORDS_LIVE) || begins_anew();
        // The place of a page in the entry is not known before it is written.
        (is_due && !plan.children.pages().are_open()).then(|| encode_plan(plan))
    }

    /// The plan leaves memory: a snapshot is stored if one is due.
    pub(super) fn leave_snapshot(&mut self) {
        let Some(plan) = self.plan.as_ref().filter(|_| self.is_settled()) else { return };
        if self.growth.is_due(SNAPSHOT_RECORDS) {
            self.snapshot = Some((self.head, encode_plan(plan)));
        }
        if let Some(snapshot) = self.snapshot.take() {
            let row = PlanRow { head: self.head, snapshot: Some(snapshot), ..super::row(plan) };
            self.world.journal().update(row, self.epoch);
        }
    }
}
