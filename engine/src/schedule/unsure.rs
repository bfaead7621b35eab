//! Changes of schedules that have failed: whether they were made is looked up before anybody is
//! told, and what another world has made in the place of ours is taken.
//!
//! A new schedule that was taken for not stored would launch nothing until the next start.

use std::collections::BTreeSet;

use turnwheel_runtime::Context;

use super::entry::Entry;
use super::error::ScheduleError;
use super::serving::moved;
use super::timetable::{Change, Roster};
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
                match row.is_some_and(|row| change.is_made(row.as_ref())) {
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
        self.was_moved(&name, newest);
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
        if self.entries.get(&change.name).is_none_or(|entry| entry.epoch != epoch) {
            // Its slot has moved since, and the change was not made.
            self.has_moved = true;
            let answers = change.answers.into_iter();
            answers.for_each(|answer| answer(Err(moved(epoch, epoch))));
            return self.settle(cx);
        }
        let read = |row: &ScheduleRow| Entry::read(row, epoch);
        let row = match row.map(|row| row.as_ref().map(read)) {
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, Weak};

    use turnwheel_runtime::sim::Sim;

    use super::*;
    use crate::schedule::entry::Answer;
    use crate::schedule::rule::Rule;
    use crate::schedule::state::{Kept, Spec};
    use crate::schedule::timetable::Timetable;
    use crate::schedule::Timing;
    use crate::time::Time;

    fn kept(period_us: u64) -> Kept {
        let spec = Spec {
            timing: Timing::Every { period_us, offset_us: 0 },
            overlap: Default::default(),
            catch_up: Default::default(),
            jitter_us: 0,
            action: "piece".to_owned(),
            input: Default::default(),
        };
        Kept::new(spec, Time(1))
    }

    fn change(kept: Kept, is_removal: bool, answers: Vec<Answer>) -> Change {
        Change { name: "tick".to_owned(), from: 3, epoch: 7, kept, is_removal, answers }
    }

    fn row(version: u64, kept: &Kept) -> ScheduleRow {
        ScheduleRow { name: "tick".to_owned(), version, data: kept.encode() }
    }

    #[test]
    fn a_change_that_failed_is_made_if_its_content_is_stored_and_not_that_of_the_next_owner() {
        let (ours, other) = (kept(60), kept(90));
        let put = change(ours.clone(), false, Vec::new());
        assert!(put.is_made(Some(&row(4, &ours))));
        assert!(!put.is_made(Some(&row(4, &other))), "made by another one");
        assert!(!put.is_made(Some(&row(3, &ours))), "it was so before");
        assert!(!put.is_made(None));
        let removal = change(ours.clone(), true, Vec::new());
        assert!(removal.is_made(None));
        assert!(!removal.is_made(Some(&row(3, &ours))));
    }

    #[test]
    fn a_change_that_is_made_is_not_told_as_moved_although_its_slot_has_moved_since() {
        let sim = Sim::new(1);
        let timetable = Timetable::start(Weak::new(), &sim.group("plans")).expect("it starts");
        let told = Arc::new(Mutex::new(Vec::new()));
        let answer = || -> Answer {
            let told = Arc::clone(&told);
            Box::new(move |outcome| {
                let timing = outcome.map(|entry| entry.kept.spec.timing.clone());
                told.lock().expect("no panic here").push(timing);
            })
        };
        let (gone, again) = (answer(), answer());
        let asked = timetable.task.call(move |roster: &mut Roster, cx| {
            roster.stored(change(kept(60), false, vec![gone]), cx);
            // It was read again under another epoch, as somebody else has changed it.
            let entry = Entry::new(kept(90), Rule::Manual, 9);
            roster.entries.insert("tick".to_owned(), entry);
            roster.stored(change(kept(60), false, vec![again]), cx);
        });
        sim.block_on(asked).expect("nothing waits").expect("it is done");
        let told = told.lock().expect("no panic here");
        let ours = Timing::Every { period_us: 60, offset_us: 0 };
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|timing| timing.as_ref().ok() == Some(&ours)), "{told:?}");
    }
}
