//! The slots whose schedules a world serves: it reads them when it gets a slot, and forgets them
//! when it loses it.
//!
//! An entry names the epoch of its slot, and so does each of its writes: the store refuses those of
//! a former owner. What was decided before a slot moved is in the store, and the next owner carries
//! it out; a plan that both begin has one key. A request that has found no owner here was not done,
//! and is asked again of the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use turnwheel_runtime::{Completion, Context};

use super::entry::Entry;
use super::error::ScheduleError;
use super::timetable::{Roster, Timetable};
use crate::error::StoreError;
use crate::limits::SCHEDULE_HELD_MAX;
use crate::store::{slot_of_schedule, Owner, ScheduleRow, NO_EPOCH, SLOTS};

/// The schedules that a request is about.
#[derive(Clone, Debug)]
pub(super) enum Of {
    /// The one of this name.
    One(String),
    /// All of this world.
    All,
}

/// Work for a request; with an error it is not done.
type Work = Box<dyn FnOnce(&mut Roster, &mut Context<'_, Roster>, Option<ScheduleError>) + Send>;

/// A request that waits until the schedules of its slot were read.
pub(super) struct Waiting {
    of: Of,
    work: Work,
}

/// Whether a request is served here.
enum Served {
    Now,
    Soon,
    Elsewhere { slot: usize },
}

/// Slots and the epochs under which they are held.
pub(crate) type Holds = BTreeMap<usize, u64>;

/// The refusal of a request whose schedule another world serves by now: nothing was done.
pub(super) fn moved(epoch: u64, newest: u64) -> ScheduleError {
    ScheduleError::Store(StoreError::Fenced { epoch, newest })
}

impl Timetable {
    /// The slots of this world whose schedules are not read yet, or were read under another epoch.
    pub(crate) fn unread(&self) -> Completion<Holds> {
        self.task.call(|roster, cx| {
            roster.forget_lost(cx);
            roster.unread()
        })
    }

    /// Takes those of the rows that are of these slots, and goes on with them.
    pub(crate) fn restore(&self, rows: Vec<ScheduleRow>, holds: Arc<Holds>) -> Completion<()> {
        self.task.call(move |roster, cx| roster.restore(rows, &holds, cx))
    }

    /// All schedules of these slots were taken: requests about them are served.
    pub(crate) fn were_read(&self, holds: Arc<Holds>) -> Completion<()> {
        self.task.call(move |roster, cx| {
            // Read under a hold that is over, they are read again.
            let now = roster.holds();
            let is_held = |(slot, epoch): &(&usize, &u64)| now.get(*slot) == Some(*epoch);
            roster.served.extend(holds.iter().filter(is_held));
            roster.serve_waiting(cx);
        })
    }

    /// Some slots may be of other worlds now.
    pub(crate) fn look_at_slots(&self) {
        // With a full mailbox each write says it.
        let _later = self.task.submit(|roster, cx| roster.forget_lost(cx));
    }
}

impl Roster {
    /// The epoch under which this world holds the slot of a schedule.
    pub(super) fn held(&self, name: &str) -> u64 {
        let Some(world) = self.world.upgrade() else { return NO_EPOCH };
        let slot = slot_of_schedule(name);
        match world.journal().directory().held_slot(world.epoch(), slot) {
            epoch if self.is_over(slot, epoch) => NO_EPOCH,
            epoch => epoch,
        }
    }

    /// Whether the store has refused a write under this epoch, or an older one.
    fn is_over(&self, slot: usize, epoch: u64) -> bool {
        self.outdated.get(&slot).is_some_and(|newest| epoch < *newest)
    }

    fn holds(&self) -> Holds {
        let Some(world) = self.world.upgrade() else { return Holds::new() };
        let (worlds, own) = (world.journal().directory().now(), world.epoch());
        let owners = (0..SLOTS).zip(worlds.owners());
        let is_own =
            |(slot, it): &(usize, &Owner)| it.world == own && !self.is_over(*slot, it.epoch);
        owners.filter(is_own).map(|(slot, it)| (slot, it.epoch)).collect()
    }

    fn unread(&self) -> Holds {
        let mut holds = self.holds();
        holds.retain(|slot, epoch| self.served.get(slot) != Some(epoch));
        holds
    }

    /// Takes rows of the store. One that was taken before stays: it may have changed since.
    fn restore(&mut self, rows: Vec<ScheduleRow>, holds: &Holds, cx: &mut Context<'_, Self>) {
        let now = self.holds();
        for row in rows {
            let slot = slot_of_schedule(&row.name);
            // A slot that has moved meanwhile is read again, if it is this world's.
            let epoch = holds.get(&slot).filter(|epoch| now.get(&slot) == Some(epoch));
            let Some(epoch) = epoch.copied() else { continue };
            let is_known = self.entries.get(&row.name).is_some_and(|entry| entry.epoch == epoch);
            if is_known || self.served.get(&slot) == Some(&epoch) {
                continue;
            }
            let entry = Entry::read(&row, epoch);
            let running = entry.kept.running.clone();
            self.forget(&row.name);
            self.entries.insert(row.name.clone(), entry);
            if !self.launches() {
                continue;
            }
            running.into_iter().for_each(|plan| self.look_at(&row.name, plan, cx));
            self.launch_all(&row.name, cx);
            self.advance(&row.name);
        }
        self.settle(cx);
    }

    /// Forgets the schedules of slots that are not held any more, or under another epoch.
    pub(super) fn forget_lost(&mut self, cx: &mut Context<'_, Self>) {
        let holds = self.holds();
        let is_lost =
            |name: &String, entry: &Entry| holds.get(&slot_of_schedule(name)) != Some(&entry.epoch);
        let lost = self.entries.iter().filter(|(name, entry)| is_lost(name, entry));
        let lost: Vec<String> = lost.map(|(name, _)| name.clone()).collect();
        lost.iter().for_each(|name| self.forget(name));
        self.served.retain(|slot, epoch| holds.get(slot) == Some(epoch));
        if let Some(world) = self.world.upgrade() {
            let worlds = world.journal().directory().now();
            self.outdated.retain(|slot, newest| worlds.owners()[*slot].epoch < *newest);
        }
        self.serve_waiting(cx);
    }

    /// Forgets a schedule that another world serves, or that is read again.
    pub(super) fn forget(&mut self, name: &str) {
        let Some(entry) = self.entries.remove(name) else { return };
        entry.wakes_at.map(|at| self.days.remove(&(at, name.to_owned())));
        self.dirty.remove(name);
        let newest = self.held(name);
        for answer in entry.answers {
            answer(Err(moved(entry.epoch, newest)));
        }
        for (_, waiting) in entry.waiting {
            // The caller may have given up.
            let _late = waiting.complete(Err(moved(entry.epoch, newest)));
        }
    }

    /// Does a request as soon as the schedules that it is about are read, if they are of this
    /// world.
    pub(super) fn serve(
        &mut self,
        of: Of,
        cx: &mut Context<'_, Self>,
        work: impl FnOnce(&mut Self, &mut Context<'_, Self>, Option<ScheduleError>) + Send + 'static,
    ) {
        match self.serves(&of) {
            Served::Now => work(self, cx, None),
            Served::Elsewhere { slot } => work(self, cx, Some(self.moved_from(slot))),
            Served::Soon if self.requests.len() >= SCHEDULE_HELD_MAX => {
                let problem = "too many requests wait until schedules are read: try again";
                work(self, cx, Some(ScheduleError::Refused(problem.to_owned())));
            }
            Served::Soon => {
                self.requests.push(Waiting { of, work: Box::new(work) });
                self.read_again();
            }
        }
    }

    fn serves(&self, of: &Of) -> Served {
        let Of::One(name) = of else {
            return if self.unread().is_empty() { Served::Now } else { Served::Soon };
        };
        let (slot, epoch) = (slot_of_schedule(name), self.held(name));
        match self.served.get(&slot) {
            _ if epoch == NO_EPOCH => Served::Elsewhere { slot },
            Some(served) if *served == epoch => Served::Now,
            _ => Served::Soon,
        }
    }

    fn moved_from(&self, slot: usize) -> ScheduleError {
        moved(NO_EPOCH, self.served.get(&slot).copied().unwrap_or(NO_EPOCH))
    }

    fn serve_waiting(&mut self, cx: &mut Context<'_, Self>) {
        for Waiting { of, work } in std::mem::take(&mut self.requests) {
            match self.serves(&of) {
                Served::Now => work(self, cx, None),
                Served::Elsewhere { slot } => work(self, cx, Some(self.moved_from(slot))),
                Served::Soon => self.requests.push(Waiting { of, work }),
            }
        }
    }

    /// The store has refused a write: another world has the slot of this schedule. What is known
    /// here of the owners may be older.
    pub(super) fn was_moved(&mut self, name: &str, newest: u64) {
        self.has_moved = true;
        let Some(world) = self.world.upgrade() else { return };
        let slot = slot_of_schedule(name);
        if world.journal().directory().now().owners()[slot].epoch < newest {
            self.outdated.insert(slot, newest);
            world.journal().read_worlds().detach();
        }
    }

    /// Has the schedules of slots read that were lost and are this world's again.
    pub(super) fn read_again(&self) {
        if let Some(world) = self.world.upgrade() {
            world.read_schedules();
        }
    }
}
