//! Rows that other processes have left behind, and marks by which the next owner of a slot finds
//! them.
//!
//! Each writer has a mark: all its entries up to there are in rows. The new owner of a slot reads
//! the entries after the lowest mark. So a mark may not rise over an entry whose row is left to
//! another process, and the marks of writers without work rise too, or it reads more and more.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use turnwheel_runtime::Context;

use super::worlds::Known;
use super::writer::Writer;
use super::Journal;
use crate::id::PlanId;
use crate::store::{slot_of, PlanRow, Seq, Slots};

/// Pause between two looks at the mark of a writer whose store is shared.
const LOOK: Duration = Duration::from_secs(10);

/// The first entries of plans whose rows were behind when their slots went to other processes.
#[derive(Debug, Default)]
pub(super) struct Left(BTreeSet<(Seq, PlanId)>);

impl Left {
    pub(super) fn add(&mut self, left: impl IntoIterator<Item = (Seq, PlanId)>) {
        self.0.extend(left);
    }

    /// The mark that is not above any of them.
    pub(super) fn limit(&self, projected: Seq) -> Seq {
        self.0.first().map_or(projected, |(first, _)| projected.min(first - 1))
    }
}

impl Journal {
    /// Brings rows up to date that were behind when this process got their slots, and tells which
    /// of them it takes: not those of plans that have a newer entry by now.
    pub(crate) fn renew(&self, rows: Vec<PlanRow>, taken: impl Fn(&PlanRow) + Send + 'static) {
        let renewed = self.writer.submit(move |writer: &mut Writer, cx| {
            for row in rows {
                if writer.heads.0.lock().get(&row.id) != Some(&row.head) {
                    continue;
                }
                taken(&row);
                // A row that another world of this process has left is on its way.
                if writer.found.contains(&row.id) {
                    writer.is_behind(writer.last + 1, row);
                }
            }
            if !writer.is_trailing && !writer.behind.is_empty() {
                writer.trail(cx);
            }
        });
        if let Err(error) = renewed {
            tracing::debug!(kind = %error.kind, "rows stay as they were");
        }
    }
}

impl Writer {
    pub(super) fn settle_later(&mut self, cx: &mut Context<'_, Self>) {
        if let Err(error) = cx.after(LOOK, Self::settle) {
            tracing::debug!(%error, "the mark of this writer rises with its rows only");
        }
    }

    fn settle(&mut self, cx: &mut Context<'_, Self>) {
        let left = self.left.0.clone();
        if left.is_empty() {
            self.raise_mark();
            return self.settle_later(cx);
        }
        let slots: Slots = left.iter().map(|(_, plan)| slot_of(*plan)).collect();
        let read = self.reader.call(move |reader, _| reader.behind_in(&slots));
        cx.on_completion(read, move |writer: &mut Self, cx, read| {
            if let Ok(Ok(behind)) = read {
                let behind: HashSet<PlanId> = behind.into_iter().map(|(plan, _)| plan).collect();
                let is_over =
                    |entry: &(Seq, PlanId)| left.contains(entry) && !behind.contains(&entry.1);
                writer.left.0.retain(|entry| !is_over(entry));
            }
            writer.raise_mark();
            writer.settle_later(cx);
        });
    }

    /// Raises the mark if the rows of all entries are written.
    fn raise_mark(&mut self) {
        let is_settled = self.behind.is_empty()
            && self.found.is_empty()
            && self.left.0.is_empty()
            && self.unsure.is_none()
            && self.worlds_known == Known::Sure;
        if !is_settled {
            return;
        }
        if let Err(error) = self.store.settled() {
            tracing::debug!(%error, "the mark of this writer rises later");
        }
    }
}
