//! A journal whose store is shared with other processes: its lease, and the slots that it gets and
//! loses.
//!
//! State of a plan in memory counts only under the epoch of its slot. With a slot that this
//! process gets, the heads of plans whose rows are behind are read, before anybody hears of the new
//! owner; with one that it loses they are forgotten, with the rows that were not written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Completion, Context};

use super::worlds::{Known, Then};
use super::writer::Writer;
use super::Journal;
use crate::error::StoreError;
use crate::id::PlanId;
use crate::store::{slot_of, Append, Beat, Change, Seq, Slots, Verdict, Worlds};

/// Locks with their holders.
type Held = Vec<(String, PlanId)>;

/// Data that is read with new slots: plans whose rows are behind, locks, and followers.
type Found = (Vec<(PlanId, Seq)>, Held, Vec<(PlanId, PlanId)>);

/// The lease of this process, by the clock of the journal's group.
#[derive(Debug)]
pub(crate) struct Lease {
    length: Duration,
    /// Relaxed: the store checks each write by the epoch of its slot.
    until_ns: AtomicU64,
    /// Why the last heartbeat has failed, for people.
    problem: Mutex<Option<StoreError>>,
}

impl Lease {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, until_ns: AtomicU64::new(0), problem: Mutex::default() }
    }

    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// The last quarter is left to clocks that run at another rate, and to a commit under way.
    fn renewed(&self, sent_ns: u64) {
        let length_ns = u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX);
        self.until_ns.fetch_max(sent_ns.saturating_add(length_ns / 4 * 3), Ordering::Relaxed);
    }

    /// Whether it may be over, by the clock of this process.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns.load(Ordering::Relaxed)
    }
}

/// Slots whose owner has changed.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// This process has them, and another one may have had them since it had them last.
    gained: Slots,
    /// Knowledge of them does not count any more.
    stale: Slots,
}

impl Moves {
    /// `own` says which worlds are of this process.
    pub(super) fn between(before: &Worlds, now: &Worlds, own: impl Fn(u64) -> bool) -> Self {
        let mut moves = Self::default();
        for (slot, (was, is)) in before.owners().iter().zip(now.owners()).enumerate() {
            let stays_here = own(was.world) && own(is.world) && is.epoch <= was.epoch + 1;
            if was == is || stays_here {
                continue;
            }
            moves.stale.add(slot);
            if own(is.world) {
                moves.gained.add(slot);
            }
        }
        moves
    }
}

impl Journal {
    /// The lease of this process, if its store is shared with others.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_deref()
    }

    /// Sends a heartbeat for worlds of this process; without any it looks at the leases of others.
    /// `sent_ns` is the time of now.
    pub(crate) async fn beat(&self, worlds: Vec<u64>, sent_ns: u64) -> Result<Beat, StoreError> {
        let (Some(members), Some(lease)) = (&self.members, &self.lease) else {
            let version = self.directory.now().version;
            return Ok(Beat { version, ..Beat::default() });
        };
        let length = lease.length;
        let is_for_own = !worlds.is_empty();
        let beat = members.call(move |members, _| members.beat(&worlds, length)).await;
        let beat = beat.unwrap_or_else(|failure| Err(StoreError::unanswered(&failure)));
        *lease.problem.lock() = beat.as_ref().err().cloned();
        let beat = beat?;
        if is_for_own {
            lease.renewed(sent_ns);
        }
        Ok(beat)
    }

    /// Reads the table of worlds: another process has changed it.
    pub(crate) fn read_worlds(&self) -> Completion<Result<(), StoreError>> {
        let (done, read) = turnwheel_runtime::completion::completion();
        let asked = self.writer.submit(move |writer: &mut Writer, cx| {
            writer.read_worlds(cx, move |_, _, outcome| {
                // The caller may have given up.
                let _gone = done.complete(outcome);
            });
        });
        if let Err(error) = asked {
            tracing::debug!(kind = %error.kind, "the table of worlds is read later");
        }
        read
    }

    /// Reads who has the locks for which plans of this process wait. Returns the plans that may
    /// begin by that.
    pub(crate) async fn read_locks(&self) -> Result<Vec<PlanId>, StoreError> {
        if !self.locks.are_waited_for() {
            return Ok(Vec::new());
        }
        // Between two commits, so that no lock that was given back since comes again.
        let (done, read) = turnwheel_runtime::completion::completion();
        let asked = self.writer.submit(move |writer: &mut Writer, cx| {
            let held = writer.reader.call(|reader, _| reader.locks());
            cx.run_exclusive(held, move |writer: &mut Writer, _, held| {
                let held = held.unwrap_or_else(|failure| Err(StoreError::unanswered(&failure)));
                let _gone = done.complete(held.map(|held| writer.locks.hold(held)));
            });
        });
        if asked.is_err() {
            return Ok(Vec::new());
        }
        read.await.map_err(|failure| StoreError::unanswered(&failure))?
    }
}

impl Writer {
    /// The table of worlds is known. What is kept in memory of slots follows first.
    pub(super) fn worlds_are(
        &mut self,
        worlds: Worlds,
        cx: &mut Context<'_, Self>,
        then: impl Then,
    ) {
        self.worlds_known = Known::Sure;
        let before = self.directory.now();
        if worlds.version <= before.version {
            return then(self, cx, Ok(()));
        }
        let moves = match self.lease {
            Some(_) => Moves::between(&before, &worlds, |world| self.directory.is_own(world)),
            None => Moves::default(),
        };
        self.forget_slots(&moves.stale);
        if moves.gained.is_empty() {
            self.directory.set(worlds);
            return then(self, cx, Ok(()));
        }
        let gained = moves.gained;
        let read = self.reader.call(move |reader, _| -> Result<Found, StoreError> {
            Ok((reader.behind_in(&gained)?, reader.locks()?, reader.followers()?))
        });
        cx.run_exclusive(read, move |writer: &mut Self, cx, read| {
            let read = read.unwrap_or_else(|failure| Err(StoreError::unanswered(&failure)));
            let known = read.map(|(behind, locks, followers)| {
                writer.found.extend(behind.iter().map(|(plan, _)| *plan));
                writer.heads.0.lock().extend(behind);
                // Its waiters look again when they are woken.
                let _free = writer.locks.hold(locks);
                writer.followers.hold(followers);
                writer.directory.set(worlds);
            });
            if let Err(error) = &known {
                tracing::error!(%error, "slots of this node cannot be read yet");
                writer.worlds_known = Known::Unsure;
                writer.read_worlds_later(cx);
            }
            then(writer, cx, known);
        });
    }

    /// Another process may have written to these slots.
    fn forget_slots(&mut self, slots: &Slots) {
        if slots.is_empty() {
            return;
        }
        let stays = |plan: &PlanId| !slots.has(slot_of(*plan));
        self.heads.0.lock().retain(|plan, _| stays(plan));
        self.behind.retain(|plan, _| stays(plan));
        self.left.add(self.order.iter().filter(|(_, plan)| !stays(plan)).copied());
        self.order.retain(|(_, plan)| stays(plan));
        self.found.retain(stays);
        self.refreshed.retain(stays);
        self.written.retain(|(plan, _)| stays(plan));
        self.locks.forget_waiting(stays);
    }

    /// Refuses what waits if the lease of this process is over, by its own clock.
    pub(super) fn refuse_silent(&mut self, now_ns: u64) {
        let Some(lease) = self.lease.as_deref().filter(|lease| lease.is_over(now_ns)) else {
            return;
        };
        let length = lease.length;
        let last = lease.problem.lock().as_ref().map(|error| format!(" (last: {error})"));
        let problem = format!(
            "this node has not reached it for too long{}: its lease of {length:?} may be over, and \
             other nodes may have its plans",
            last.unwrap_or_default()
        );
        self.give_back(&StoreError::Failed(problem));
    }

    /// The verdicts of the store tell the owners of slots and the holders of locks.
    pub(super) fn learn(&mut self, append: &Append, verdict: &Verdict) {
        match verdict {
            Verdict::Moved { epoch, .. } => {
                self.is_outdated |=
                    self.lease.is_some() && self.directory.epoch(append.plan) < *epoch;
            }
            Verdict::LockTaken { name, holder } if self.lease.is_some() => {
                self.locks.taken(name, *holder);
            }
            _ => {}
        }
    }

    /// Changes that were refused tell the owners of their slots. Returns the verdicts.
    pub(super) fn learn_of_changes(
        &mut self,
        changes: &[Change],
        verdicts: Vec<Verdict>,
    ) -> std::vec::IntoIter<Verdict> {
        for (change, verdict) in changes.iter().zip(&verdicts) {
            if let (Change::Under { hold, .. }, Verdict::Moved { epoch, .. }) = (change, verdict) {
                let known = self.directory.now().owners()[hold.slot].epoch;
                self.is_outdated |= self.lease.is_some() && known < *epoch;
            }
        }
        verdicts.into_iter()
    }

    /// Whether an entry that was written is of the plan as this process has it still.
    pub(super) fn is_own(&self, append: &Append) -> bool {
        self.lease.is_none() || self.directory.epoch_here(append.plan) == append.epoch
    }
}
