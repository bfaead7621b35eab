//! Changes of what is kept beside plans, on their way to a commit.
//!
//! Two queues: callers wait for the changes of the first. Work that nobody waits for, such as lines
//! of users that are due, is in the second: a commit takes of it what is left of a small size. So a
//! caller never waits behind a backlog, and the backlog still goes on under load.

use std::collections::VecDeque;

use super::Ticket;
use crate::limits::{COMMIT_APPENDS_MAX, COMMIT_SPARE_MAX};
use crate::store::Change;

/// When a change is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// With the next commit: a caller waits.
    Next,
    /// When commits have room for it.
    Spare,
}

/// A change on its way.
pub(super) struct Changing {
    pub(super) change: Change,
    pub(super) ticket: Ticket,
    pub(super) urgency: Urgency,
}

/// The changes that wait for the next commits. The mailbox of the writer bounds their number.
#[derive(Default)]
pub(super) struct Changes {
    next: VecDeque<Changing>,
    spare: VecDeque<Changing>,
}

impl Changes {
    pub(super) fn push(&mut self, changing: Changing) {
        match changing.urgency {
            Urgency::Next => self.next.push_back(changing),
            Urgency::Spare => self.spare.push_back(changing),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next.is_empty() && self.spare.is_empty()
    }

    /// Whether the next change must have a commit of its own.
    pub(super) fn needs_own(&self) -> bool {
        self.next.front().is_some_and(|changing| changing.change.is_alone())
    }

    /// Takes the changes of a commit with so many entries; only one if that needs its own.
    pub(super) fn take(&mut self, entries: usize) -> Vec<Changing> {
        if self.needs_own() {
            return self.next.pop_front().into_iter().collect();
        }
        let shared = self.next.iter().take(COMMIT_APPENDS_MAX);
        let count = shared.take_while(|changing| !changing.change.is_alone()).count();
        let mut taken: Vec<Changing> = self.next.drain(..count).collect();
        // As many as the others at least: what an urgent change leaves to be done goes on as well.
        let room = COMMIT_SPARE_MAX.saturating_sub(entries + count).max(entries + count);
        let room = room.min(COMMIT_APPENDS_MAX).min(self.spare.len());
        taken.extend(self.spare.drain(..room));
        taken
    }

    /// Takes all of them.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Changing> {
        let Self { next, spare } = std::mem::take(self);
        next.into_iter().chain(spare)
    }
}
