//! The writer of the journal: gathers what has come, commits it, and lets rows follow.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use turnwheel_runtime::{Context, Task, TaskJob};

use super::changes::{Changes, Changing};
use super::delivery::{deliver, Delivery};
use super::inbox::Inbox;
use super::meter::{Meter, Tally};
use super::settle::Left;
use super::unsure::Unsure;
use super::worlds::Known;
use super::{Directory, EntryOutcome, EntryTicket, Followers, Lease, Locks, NewEntry, NotWritten};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::limits::{
    COMMIT_APPENDS_MAX, COMMIT_ROWS_MANY, COMMIT_ROWS_MAX, ROWS_AGAIN, ROWS_BEHIND,
};
use crate::store::{
    Append, Batch, Change, PlanRow, RowWrite, Seq, StoreKeeper, StoreReader, StoreWriter, Upkeep,
    Verdict, WorldsWrite,
};
use crate::watch::Listeners;

/// Maximum age of outdated rows while no entry is appended.
const ROWS_BEHIND_TIME: Duration = Duration::from_millis(50);

/// The newest entries of the plans whose rows are behind.
#[derive(Debug, Default)]
pub(super) struct Heads(pub(super) Mutex<ByPlan<Seq>>);

/// Plans are looked up several times for each entry.
pub(super) type ByPlan<T> = HashMap<PlanId, T, RandomState>;

/// An entry on its way.
pub(super) struct Entry {
    pub(super) entry: NewEntry,
    pub(super) ticket: EntryTicket,
    pub(super) delivery: Delivery,
}

impl Entry {
    /// It was not written: its plan gets it back.
    pub(super) fn refuse(self, error: StoreError) {
        self.give_back(error, false);
    }

    fn refuse_unencodable(self, problem: String) {
        self.give_back(StoreError::Failed(problem), true);
    }

    fn give_back(mut self, error: StoreError, is_unencodable: bool) {
        let entry = Box::new(self.entry);
        let refused = NotWritten { error, is_unencodable, entry };
        (self.ticket)(EntryOutcome::NotWritten(Box::new(refused)));
    }
}

/// The entries of a commit: what the store is given, and the rest, in the same order.
#[derive(Default)]
pub(super) struct Committing {
    appends: Vec<Append>,
    rest: Vec<(PlanRow, Tally, (EntryTicket, Delivery))>,
}

/// The only task that writes.
pub(super) struct Writer {
    pub(super) store: Box<dyn StoreWriter>,
    /// Entries that come next.
    pub(super) inbox: Arc<Inbox>,
    pub(super) waiting: Vec<Entry>,
    /// Empty: room for the next commit.
    pub(super) committing: Committing,
    /// Changes of what is kept beside plans, that wait for the next commit.
    pub(super) changing: Changes,
    pub(super) is_due: bool,
    /// A commit that has failed, of which it is not known whether it was made.
    pub(super) unsure: Option<Unsure>,
    pub(super) worlds_known: Known,
    /// Another process has changed the table of worlds.
    pub(super) is_outdated: bool,
    /// A change of worlds, of which it is not known whether it was made.
    pub(super) joining: Option<WorldsWrite>,
    /// If other processes share the store.
    pub(super) lease: Option<Arc<Lease>>,
    /// Rows that are behind, and the first entry of each that is.
    pub(super) behind: ByPlan<PlanRow>,
    pub(super) order: VecDeque<(Seq, PlanId)>,
    /// Rows that were written, with their heads, while those are still known here.
    pub(super) written: Vec<(PlanId, Seq)>,
    pub(super) heads: Arc<Heads>,
    /// The newest entry that was written.
    pub(super) last: Seq,
    /// Plans whose rows were behind at the start and still are: until they are loaded and written, what
    /// is behind must be found by the next start as well.
    pub(super) found: HashSet<PlanId>,
    /// Plans whose rows are behind without a new entry: one that is removed meanwhile stays
    /// removed.
    pub(super) refreshed: HashSet<PlanId>,
    pub(super) left: Left,
    pub(super) is_trailing: bool,
    pub(super) locks: Arc<Locks>,
    pub(super) followers: Arc<Followers>,
    pub(super) directory: Arc<Directory>,
    pub(super) reader: Task<Box<dyn StoreReader>>,
    pub(super) keeper: Task<Box<dyn StoreKeeper>>,
    pub(super) is_keeping: bool,
    /// Listeners for durable entries.
    pub(super) listeners: Listeners,
    pub(super) meter: Meter,
}

impl TaskJob<Writer> for Changing {
    fn run(self, writer: &mut Writer, cx: &mut Context<'_, Writer>) {
        writer.changing.push(self);
        writer.is_waiting(cx);
    }
}

impl Writer {
    /// Entries have come into the empty inbox.
    pub(super) fn has_entries(&mut self, cx: &mut Context<'_, Self>) {
        self.inbox.take(&mut self.waiting);
        self.is_waiting(cx);
    }

    fn is_waiting(&mut self, cx: &mut Context<'_, Self>) {
        if !self.is_due {
            // Behind all messages in the mailbox now: they share the commit.
            self.is_due = true;
            self.commit_soon(cx);
        }
    }

    pub(super) fn commit_soon(&mut self, cx: &mut Context<'_, Self>) {
        let due = cx.submit(|writer: &mut Self, cx| {
            writer.is_due = false;
            let (group, entries) = (cx.group(), writer.meter.entries());
            let begun_ns = group.now_ns();
            writer.commit(begun_ns);
            let written = writer.meter.entries() - entries;
            writer.meter.took(written, group.now_ns() - begun_ns);
            writer.keep(cx);
            if std::mem::take(&mut writer.is_outdated) {
                writer.read_worlds(cx, |_, _, _| {});
            }
            if writer.unsure.is_some() {
                writer.commit_later(cx);
            } else if !writer.waiting.is_empty() || !writer.changing.is_empty() {
                writer.is_due = true;
                writer.commit_soon(cx);
            } else if !writer.behind.is_empty() && !writer.is_trailing {
                writer.trail(cx);
            }
        });
        if due.is_err() {
            // The mailbox is full of entries: their turn is now.
            self.is_due = false;
            self.commit(cx.now_ns());
        }
    }

    /// Has the store put in order, by its keeper if that is in time.
    pub(super) fn keep(&mut self, cx: &mut Context<'_, Self>) {
        match self.store.upkeep() {
            // An upkeep is under way: its leftovers are moved after it.
            Upkeep::Now if self.is_keeping => {}
            Upkeep::Now => {
                if let Err(error) = self.store.keep() {
                    tracing::warn!(%error, "the store is not put in order");
                }
            }
            Upkeep::Soon if !self.is_keeping => {
                self.is_keeping = true;
                let kept = self.keeper.call(|keeper, _| keeper.keep());
                cx.on_completion(kept, |writer: &mut Self, _, kept| {
                    writer.is_keeping = false;
                    if let Ok(Err(error)) = kept {
                        tracing::warn!(%error, "the store is not put in order");
                    }
                });
            }
            _ => {}
        }
    }

    /// Refuses plans that are new if there is no room for them.
    fn refuse_new(&mut self) {
        let is_new = |entry: &Entry| entry.entry.append.prev == 0;
        if !self.waiting.iter().any(is_new) {
            return;
        }
        let Err(error) = self.store.takes_plans() else { return };
        let (new, others): (Vec<Entry>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(is_new);
        self.waiting = others;
        new.into_iter().for_each(|entry| entry.refuse(error.clone()));
    }

    /// Commits what waits, at most [`COMMIT_APPENDS_MAX`] entries.
    pub(super) fn commit(&mut self, now_ns: u64) {
        self.inbox.take(&mut self.waiting);
        if !self.find_out(now_ns) {
            return self.refuse_waiting();
        }
        self.refuse_silent(now_ns);
        self.refuse_new();
        let needs_own = self.changing.needs_own();
        let count = if needs_own { 0 } else { self.waiting.len().min(COMMIT_APPENDS_MAX) };
        let Committing { mut appends, rest: mut tickets } = std::mem::take(&mut self.committing);
        for Entry { entry, ticket, delivery } in self.waiting.drain(..count) {
            appends.push(entry.append);
            tickets.push((entry.row, entry.tally, (ticket, delivery)));
        }
        let mut changes = Vec::new();
        let mut changers = Vec::new();
        for Changing { changes: some, tickets, .. } in self.changing.take(count) {
            changers.push((some.len(), tickets));
            changes.extend(some);
        }
        if appends.is_empty() && changes.is_empty() {
            return;
        }
        let slice = self.behind.len().saturating_sub(ROWS_BEHIND).min(self.rows_at_once());
        match self.write(&appends, &changes, slice) {
            Ok(mut verdicts) => {
                let mut changed = self.learn_of_changes(&changes, verdicts.split_off(count));
                let mut durable = Vec::with_capacity(count);
                let mut refused = Vec::new();
                let entries = appends.iter().zip(tickets.drain(..)).zip(&verdicts);
                for ((append, (row, tally, ticket)), verdict) in entries {
                    self.learn(append, verdict);
                    match verdict {
                        Verdict::Written(seq) => {
                            self.has_written(*seq, append, row, tally, now_ns);
                        }
                        Verdict::Unencodable(problem) => {
                            let entry = NewEntry { append: append.clone(), row, tally };
                            let (ticket, delivery) = ticket;
                            refused.push((Entry { entry, ticket, delivery }, problem.clone()));
                            continue;
                        }
                        _ => {}
                    }
                    durable.push(ticket);
                }
                self.forget_written();
                // After the heads: a listener that reads the plan at once finds what it was told.
                self.listeners.durable(&appends, &verdicts);
                verdicts.retain(|verdict| !matches!(verdict, Verdict::Unencodable(_)));
                let verdicts = verdicts.into_iter().map(EntryOutcome::from);
                deliver(durable.into_iter().zip(verdicts));
                refused.into_iter().for_each(|(entry, why)| entry.refuse_unencodable(why));
                for (count, tickets) in changers {
                    tickets(Ok(changed.by_ref().take(count).collect()));
                }
            }
            Err(error) => {
                tracing::error!(%error, entries = count, "a commit failed");
                changers.into_iter().for_each(|(_, tickets)| tickets(Err(error.clone())));
                let entry = |(append, (row, tally, (ticket, delivery)))| {
                    let entry = NewEntry { append, row, tally };
                    Entry { entry, ticket, delivery }
                };
                let entries = appends.drain(..).zip(tickets.drain(..)).map(entry).collect();
                self.unsure = Some(Unsure { error, entries });
                self.find_out(now_ns);
            }
        }
        appends.clear();
        self.committing = Committing { appends, rest: tickets };
    }

    /// An entry is durable.
    pub(super) fn has_written(
        &mut self,
        seq: Seq,
        append: &Append,
        mut row: PlanRow,
        tally: Tally,
        now_ns: u64,
    ) {
        self.last = seq;
        if !self.is_own(append) {
            return;
        }
        self.locks.changed(append);
        self.followers.changed(append);
        row.head = seq;
        self.heads.0.lock().insert(row.id, seq);
        self.refreshed.remove(&row.id);
        self.is_behind(seq, row);
        self.meter.entry(tally, append.records.len(), now_ns);
    }

    /// A row is brought up to date without a new entry. It may have been sent before the entry that
    /// is the newest one by now: then only its snapshot is new.
    pub(super) fn refresh(&mut self, row: PlanRow) {
        let newest = self.heads.0.lock().get(&row.id).copied();
        match newest {
            Some(newest) if newest > row.head => {
                let newer = self.behind.get_mut(&row.id).filter(|row| row.snapshot.is_none());
                newer.into_iter().for_each(|newer| newer.snapshot.clone_from(&row.snapshot));
                return;
            }
            Some(_) => {}
            None => drop(self.refreshed.insert(row.id)),
        }
        self.is_behind(self.last + 1, row);
    }

    pub(super) fn is_behind(&mut self, seq: Seq, mut row: PlanRow) {
        let plan = row.id;
        match self.behind.entry(plan) {
            std::collections::hash_map::Entry::Occupied(mut known) => {
                if row.snapshot.is_none() {
                    row.snapshot = known.get_mut().snapshot.take();
                }
                known.insert(row);
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(row);
                self.order.push_back((seq, plan));
            }
        }
    }

    /// Writes entries, and the rows that are behind longest.
    fn write(
        &mut self,
        appends: &[Append],
        changes: &[Change],
        rows: usize,
    ) -> Result<Vec<Verdict>, StoreError> {
        if !self.find_out(0) {
            let problem = "it does not say whether its last commit was made".to_owned();
            return Err(StoreError::Failed(problem));
        }
        let count = rows.min(self.order.len());
        // All worlds of this process write here: a row is the newest one of its plan, whichever of
        // them has the slot by now.
        let row = |(_, plan): &(Seq, PlanId)| RowWrite {
            row: self.behind.remove(plan).expect("what is in `order` is behind"),
            epoch: self.directory.epoch_here(*plan),
            is_refresh: self.refreshed.contains(plan),
        };
        let rows: Vec<RowWrite> = self.order.iter().take(count).map(row).collect();
        let is_found = |plan: &PlanId| rows.iter().any(|write| write.row.id == *plan);
        // An entry is projected when no row is behind because of it or of one before it.
        let projected = match self.order.get(count) {
            _ if !self.found.iter().all(is_found) => 0,
            Some((first, _)) => first - 1,
            None => self.last,
        };
        let projected = self.left.limit(projected);
        let verdicts = self.store.commit(&Batch { appends, changes, rows: &rows, projected });
        self.meter.committed(verdicts.is_ok());
        if verdicts.is_err() {
            self.behind.extend(rows.into_iter().map(|write| (write.row.id, write.row)));
            return verdicts;
        }
        for RowWrite { row, .. } in &rows {
            self.found.remove(&row.id);
            self.refreshed.remove(&row.id);
            self.written.push((row.id, row.head));
        }
        self.order.drain(..count);
        verdicts
    }

    /// Rows that one commit brings up to date: a share of those that are behind.
    fn rows_at_once(&self) -> usize {
        (self.behind.len() / 4).clamp(COMMIT_ROWS_MAX, COMMIT_ROWS_MANY)
    }

    /// Forgets the heads that rows say by now. Not before what was written with those rows is known: a
    /// plan that is read meanwhile must not be told an older head.
    fn forget_written(&mut self) {
        let mut heads = self.heads.0.lock();
        for (plan, head) in self.written.drain(..) {
            if heads.get(&plan) == Some(&head) {
                heads.remove(&plan);
            }
        }
    }

    /// Brings rows up to date, at most so many in all.
    pub(super) fn write_rows(&mut self, mut count: usize) -> Result<(), StoreError> {
        while count > 0 && !self.order.is_empty() {
            let slice = count.min(COMMIT_ROWS_MANY);
            self.write(&[], &[], slice)?;
            self.forget_written();
            count -= slice;
        }
        Ok(())
    }

    /// Brings rows up to date a moment after the last entry, a slice at a time.
    pub(super) fn trail(&mut self, cx: &mut Context<'_, Self>) {
        self.trail_after(ROWS_BEHIND_TIME, cx);
    }

    fn trail_after(&mut self, time: Duration, cx: &mut Context<'_, Self>) {
        let armed = cx.after(time, |writer: &mut Self, cx| {
            writer.is_trailing = false;
            let mut next = ROWS_BEHIND_TIME;
            if let Err(error) = writer.write_rows(writer.rows_at_once()) {
                tracing::warn!(%error, "rows stay behind their journal");
                next = ROWS_AGAIN;
            }
            writer.keep(cx);
            if !writer.behind.is_empty() {
                writer.trail_after(next, cx);
            }
        });
        self.is_trailing = armed.is_ok();
    }
}
