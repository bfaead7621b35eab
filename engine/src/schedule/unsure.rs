//! Changes of schedules that have failed: whether they were made is looked up before anybody is told,
//! and what another world has made in the place of ours is taken.
//!
//! A new schedule that was taken for not stored would launch nothing until the next start.

use std::collections::BTreeSet;

use turnwheel_runtime::Context;

use super::error::ScheduleError;
use super::serving::moved;
use super::timetable::{Change, Entry, Roster};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::store::ScheduleRow;

impl Roster {
    /// Nothing is written before the store has said which of the changes were made. One that it does
    /// not say anything about is taken back: its version is found out with the next change.
    pub(super) fn look_up(
        &mut self,
        changes: Vec<Change>,
        error: StoreError,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(world) = self.world.upgrade() else { return };
        self.is_writing = true;
        let names: Vec<String> = changes.iter().map(|change| change.name.clone()).collect();
        let found = world.journal().read(move |reader| {
            let rows = names.iter().map(|name| reader.schedule(name));
            rows.collect::<Result<Vec<_>, StoreError>>()
        });
        cx.on_completion(found, move |roster: &mut Self, cx, found| {
            roster.is_writing = false;
            let rows = found.ok().and_then(Result::ok);
            for (place, change) in changes.into_iter().enumerate() {
                let row = rows.as_ref().map(|rows| &rows[place]);
                let version = row.map(|row| row.as_ref().map_or(0, |row| row.version));
                match version.is_some_and(|version| change.is_made(version)) {
                    true => roster.stored(change, cx),
                    false => roster.take_back(change, &error),
                }
            }
            roster.settle(cx);
        });
    }

    /// Another world serves the schedule: it is forgotten, unless it was read again since.
    pub(super) fn has_lost(&mut self, change: Change, newest: u64) {
        let Change { name, epoch, answers, .. } = change;
        if self.entries.get(&name).is_some_and(|entry| entry.epoch == epoch) {
            self.forget(&name);
        }
        self.has_moved = true;
        answers.into_iter().for_each(|answer| answer(Err(moved(epoch, newest))));
    }

    /// Another world has changed the schedule: takes its version.
    pub(super) fn reload(&mut self, change: Change, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        let name = change.name.clone();
        let found = world.journal().read(move |reader| reader.schedule(&name));
        cx.on_completion(found, move |roster, cx, row| {
            let row = row.unwrap_or_else(|lost| Err(StoreError::Failed(lost.to_string())));
            roster.reloaded(change, row, cx);
        });
    }

    fn reloaded(
        &mut self,
        change: Change,
        row: Result<Option<ScheduleRow>, StoreError>,
        cx: &mut Context<'_, Self>,
    ) {
        let epoch = change.epoch;
        if self.entries.get(&change.name).is_some_and(|entry| entry.epoch != epoch) {
            return self.has_lost(change, epoch);
        }
        let read = |row: &ScheduleRow| Entry::read(row, epoch);
        let row = match row.and_then(|row| row.as_ref().map(read).transpose()) {
            Ok(row) => row,
            Err(error) => {
                self.take_back(change, &error);
                return self.settle(cx);
            }
        };
        let Change { name, answers, .. } = change;
        self.dirty.remove(&name);
        let Some(mut old) = self.entries.remove(&name) else { return };
        if let Some(at) = old.wakes_at {
            self.days.remove(&(at, name.clone()));
        }
        for answer in answers.into_iter().chain(std::mem::take(&mut old.answers)) {
            answer(Err(ScheduleError::Changed(name.clone())));
        }
        for (_, waiting) in std::mem::take(&mut old.waiting) {
            let _late = waiting.complete(Err(ScheduleError::Changed(name.clone())));
        }
        if let Some(entry) = row {
            let known: BTreeSet<PlanId> = old.kept.running.iter().copied().collect();
            let running = entry.kept.running.clone();
            let (flying, unknown) = (old.flying, old.unknown);
            self.entries.insert(name.clone(), Entry { flying, unknown, ..entry });
            let new = running.into_iter().filter(|plan| !known.contains(plan));
            new.for_each(|plan| self.look_at(&name, plan, cx));
            self.launch_all(&name, cx);
            self.advance(&name);
        }
        self.settle(cx);
    }
}
