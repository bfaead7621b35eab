//! End of a turn: the task becomes idle, held, over, or is queued again.

use std::ptr;

use super::phases;
use super::run::Turn;
use crate::task::lane::inbox::{bits, Idle};
use crate::task::lane::node;

/// Result of leaving a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Idle, held or over: not ours any more.
    Gone,
    /// The task has more to do.
    Stays,
    /// The task has more to do, but not now.
    Requeue,
}

impl Turn {
    /// Leaves the task as its phase allows, or finds more to do.
    #[inline(always)]
    pub(in crate::task) fn leave(&mut self) -> Left {
        let header = self.header();
        // SAFETY: a turn is the runner of its task.
        let owner = unsafe { header.owner() };
        if !owner.open.get() || header.inbox.is_closed() || owner.orphaned.get() {
            return phases::advance(self);
        }
        if owner.has_urgent.get() {
            return Left::Stays;
        }
        self.go_idle()
    }

    /// Tries to leave the task idle.
    #[inline(always)]
    pub(crate) fn go_idle(&mut self) -> Left {
        let header = self.header();
        // SAFETY: a turn is the runner of its task.
        let owner = unsafe { header.owner() };
        if header.inbox.signals() & bits::WAKE != 0 || phases::has_ready(self) {
            return Left::Stays;
        }
        let position = owner.position.get();
        let stub = header.inbox.stub();
        owner.position.set(stub);
        match header.inbox.try_idle_owner(position) {
            Idle::Gone => {
                if !ptr::eq(position, stub) {
                    // SAFETY: the lane was left idle from this node: no producer needs it.
                    unsafe { node::free(position.cast_mut().cast()) };
                }
                Left::Gone
            }
            Idle::Signalled => {
                owner.position.set(position);
                Left::Stays
            }
            Idle::More => {
                owner.position.set(position);
                // SAFETY: we are the runner and this is our position.
                let node = unsafe { header.inbox.next_linked_owner(position) };
                if node.is_null() {
                    Left::Requeue
                } else {
                    Left::Stays
                }
            }
        }
    }

    /// Tries to leave the task held: only a signal brings it back.
    pub(crate) fn hold(&mut self) -> Left {
        if self.header().inbox.try_hold_owner() {
            Left::Gone
        } else {
            Left::Stays
        }
    }
}
