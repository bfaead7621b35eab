//! Changes of schedules that have failed: whether they were made is looked up before anybody is told.
//!
//! A new schedule that was taken for not stored would launch nothing until the next start.

use turnwheel_runtime::Context;

use super::timetable::{Change, Roster};
use crate::error::StoreError;

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
}
