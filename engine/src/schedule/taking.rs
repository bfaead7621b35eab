//! A world begins to serve the schedules: it reads all, and then answers the requests that came
//! meanwhile.
//!
//! A request that was answered before would find no schedule, and a change of a state would be
//! refused though the schedule is in it.

use turnwheel_runtime::{Completion, Context};

use super::timetable::{Entry, Roster, Timetable};
use crate::error::StoreError;
use crate::limits::SCHEDULE_HELD_MAX;
use crate::store::{ScheduleRow, NO_EPOCH, SCHEDULES_SLOT};

/// A request that waits until all schedules are read.
pub(super) type Held = Box<dyn FnOnce(&mut Roster, &mut Context<'_, Roster>) + Send>;

impl Timetable {
    /// Takes what the store holds, and goes on with it. Read once more under the same epoch, what is
    /// here is newer: a change may be on its way to the store.
    pub(crate) fn restore(&self, rows: Vec<ScheduleRow>) -> Completion<Result<(), StoreError>> {
        self.task.call(move |roster, cx| {
            let is_known = roster.has_read();
            for row in rows {
                if !is_known {
                    roster.entries.insert(row.name.clone(), Entry::read(&row)?);
                }
                let here = roster.entries.get(&row.name).filter(|entry| !entry.is_removed);
                let Some(entry) = here.filter(|_| roster.launches()) else { continue };
                let running = entry.kept.running.clone();
                running.into_iter().for_each(|plan| roster.look_at(&row.name, plan, cx));
                roster.launch_all(&row.name, cx);
                roster.advance(&row.name);
            }
            roster.settle(cx);
            Ok(())
        })
    }

    /// All are read that the store had when this world had its slot under this epoch.
    pub(crate) fn is_read(&self, epoch: u64) -> Completion<()> {
        self.task.call(move |roster, cx| {
            if epoch != NO_EPOCH && epoch > roster.read_under {
                roster.read_under = epoch;
                // Writes were refused because of the former epoch.
                roster.fenced = None;
            }
            if !roster.is_reading() {
                std::mem::take(&mut roster.held).into_iter().for_each(|held| held(roster, cx));
            }
        })
    }
}

impl Roster {
    /// Whether all schedules were read under the epoch of now.
    fn has_read(&self) -> bool {
        self.read_under > 0 && !self.is_reading()
    }

    /// Whether this world serves the schedules and has not read all of them yet.
    pub(super) fn is_reading(&self) -> bool {
        let Some(world) = self.world.upgrade() else { return false };
        let epoch = world.journal().directory().held_slot(world.epoch(), SCHEDULES_SLOT);
        epoch != NO_EPOCH && epoch > self.read_under
    }

    /// Keeps a request until all schedules are read; whether there was room for it.
    pub(super) fn hold(&mut self, request: Held) -> bool {
        let has_room = self.held.len() < SCHEDULE_HELD_MAX;
        if has_room {
            self.held.push(request);
        }
        has_room
    }
}
