//! A schedule in memory. A row that cannot be read is one too: it does nothing and says why, and
//! all others go on beside it.

use std::collections::{BTreeMap, BTreeSet};

use turnwheel_runtime::Completer;

use super::error::ScheduleError;
use super::launch::Due;
use super::rule::Rule;
use super::state::Kept;
use crate::error::StoreError;
use crate::id::PlanId;
use crate::store::ScheduleRow;
use crate::time::Time;

/// Told when a change is durable, or is not.
pub(super) type Answer = Box<dyn FnOnce(Result<&Entry, ScheduleError>) + Send>;

/// A schedule in memory.
pub(super) struct Entry {
    pub(super) kept: Kept,
    pub(super) rule: Rule,
    /// The epoch of its slot under which it was read or made.
    pub(super) epoch: u64,
    /// The stored state, and its version; 0 if there is none.
    pub(super) stored: Option<Kept>,
    pub(super) version: u64,
    pub(super) wakes_at: Option<Time>,
    /// When to try again what was refused.
    pub(super) again: Option<Time>,
    /// Reason for having no times: the stored state cannot be read here.
    pub(super) problem: Option<String>,
    /// Why nothing of the stored bytes can be read. They stay as they are until the schedule is put
    /// again or removed.
    pub(super) damage: Option<StoreError>,
    /// Launches that were asked for and not answered.
    pub(super) flying: BTreeSet<Due>,
    /// Plans that ran when it was stored, of which nothing was heard since: before that, nothing is
    /// decided.
    pub(super) unknown: BTreeSet<PlanId>,
    /// Failed reads of plans.
    pub(super) looks: BTreeMap<PlanId, u32>,
    /// Plans that were told to end.
    pub(super) cancelled: BTreeSet<PlanId>,
    pub(super) answers: Vec<Answer>,
    /// Waiters for a launch.
    pub(super) waiting: BTreeMap<Due, Completer<Result<PlanId, ScheduleError>>>,
    pub(super) is_removed: bool,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Entry {
    pub(super) fn new(kept: Kept, rule: Rule, epoch: u64) -> Self {
        Self {
            kept,
            rule,
            epoch,
            stored: None,
            version: 0,
            wakes_at: None,
            again: None,
            problem: None,
            damage: None,
            flying: BTreeSet::new(),
            unknown: BTreeSet::new(),
            looks: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            answers: Vec::new(),
            waiting: BTreeMap::new(),
            is_removed: false,
        }
    }

    /// Whether there is nothing that the store does not know.
    pub(super) fn is_stored(&self) -> bool {
        self.stored.as_ref() == Some(&self.kept)
    }

    /// The entry of a row. A damaged row is an entry too, which does nothing and says why: the
    /// other schedules go on beside it.
    pub(super) fn read(row: &ScheduleRow, epoch: u64) -> Self {
        let kept = match Kept::decode(&row.name, &row.data) {
            Ok(kept) => kept,
            Err(error) => {
                tracing::error!(schedule = row.name, %error, "a damaged schedule launches nothing");
                return Self::damaged(row.version, epoch, error);
            }
        };
        let (rule, problem) = match Rule::of(&kept.spec.timing) {
            Ok(rule) => (rule, None),
            Err(error) => {
                tracing::error!(schedule = row.name, %error, "a schedule has no times here");
                (Rule::Manual, Some(error.to_string()))
            }
        };
        let stored = Some(kept.clone());
        Self { stored, version: row.version, problem, ..Self::new(kept, rule, epoch) }
    }

    pub(super) fn damaged(version: u64, epoch: u64, error: StoreError) -> Self {
        let entry = Self::new(Kept::unreadable(), Rule::Manual, epoch);
        Self { version, problem: Some(error.to_string()), damage: Some(error), ..entry }
    }

    /// Whether its stored bytes cannot be read, and nobody has put it again since.
    pub(super) fn is_damaged(&self) -> bool {
        self.damage.is_some() && self.problem.is_some()
    }
}
