//! Changes of what is kept beside plans, on their way to a commit.
//!
//! Two queues: callers wait for the changes of the first. Work that nobody waits for, such as lines
//! of users that are due, is in the second: a commit takes of it what is left of a small size. So a
//! caller never waits behind a backlog, and the backlog still goes on under load.

use std::collections::VecDeque;

use super::Tickets;
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

/// Changes that were handed over together, and are in one commit.
pub(super) struct Changing {
    pub(super) changes: Vec<Change>,
    pub(super) tickets: Tickets,
    pub(super) urgency: Urgency,
}

impl Changing {
    fn is_alone(&self) -> bool {
        self.changes.iter().any(Change::is_alone)
    }
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
        self.next.front().is_some_and(Changing::is_alone)
    }

    /// Takes the changes of a commit with so many entries; only one if that needs its own.
    pub(super) fn take(&mut self, entries: usize) -> Vec<Changing> {
        if self.needs_own() {
            return self.next.pop_front().into_iter().collect();
        }
        let mut taken = Taken::default();
        let count = taken.take(&mut self.next, COMMIT_APPENDS_MAX);
        // As many as the others at least: what an urgent change leaves to be done goes on as well.
        let room = COMMIT_SPARE_MAX.saturating_sub(entries + count).max(entries + count);
        taken.take(&mut self.spare, room.min(COMMIT_APPENDS_MAX));
        taken.all
    }

    /// Takes all of them.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Changing> {
        let Self { next, spare } = std::mem::take(self);
        next.into_iter().chain(spare)
    }
}

/// Changes for a commit.
#[derive(Default)]
struct Taken {
    all: Vec<Changing>,
    /// Places of those that remove states.
    removals: Vec<usize>,
}

impl Taken {
    /// Takes the first changes of a queue, at most so many, and those that belong together at
    /// least: returns how many. The first that needs a commit of its own ends it, and the first
    /// that must not be in one commit with what is taken.
    fn take(&mut self, from: &mut VecDeque<Changing>, most: usize) -> usize {
        let mut count = 0;
        while let Some(next) = from.front() {
            let with = count + next.changes.len();
            let is_full = most == 0 || (count > 0 && with > most);
            if is_full || next.is_alone() || self.has_key_of(next) {
                break;
            }
            count = with;
            if next.changes.iter().any(|change| change.gone().is_some()) {
                self.removals.push(self.all.len());
            }
            self.all.extend(from.pop_front());
        }
        count
    }

    /// Whether these changes remove a state that is written by what is taken, or the other way
    /// round: in one commit their order would not count in every store.
    fn has_key_of(&self, next: &Changing) -> bool {
        fn writes(by: &Changing, gone: (&str, &str)) -> bool {
            by.changes.iter().any(|it| it.state() == Some(gone) && it.gone().is_none())
        }
        let mut gone = next.changes.iter().filter_map(Change::gone);
        let removed = self.removals.iter().flat_map(|at| &self.all[*at].changes);
        gone.any(|key| self.all.iter().any(|by| writes(by, key)))
            || removed.filter_map(Change::gone).any(|key| writes(next, key))
    }
}
