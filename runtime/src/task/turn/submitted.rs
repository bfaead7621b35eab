//! The submitted lane in the hands of a turn: one job after the other, up to the round's mark.

use std::ptr;

use super::run::Turn;
use crate::limits::DONE_PUBLISH_JOBS;
use crate::task::lane::inbox::bits;
use crate::task::lane::mail::{mail_len, pop_mail};
use crate::task::lane::node::{self, Flow, Link, Node};

impl Turn {
    /// One round of the submitted lane: the jobs present now. False when interrupted or used up.
    #[inline(always)]
    pub(super) fn submitted_jobs(&mut self) -> bool {
        // SAFETY: used within this function alone, which does not leave the task.
        let header = unsafe { self.header_apart() };
        // SAFETY: a turn is the runner of its task.
        let owner = unsafe { header.owner() };
        if !owner.open.get() {
            return true;
        }
        if self.is_signalled() {
            return false;
        }
        let mark = header.inbox.mark_owner();
        if header.capacity == 0 && !self.mailed_jobs() {
            return false;
        }
        while owner.position.get().addr() != mark && mark > bits::LANE_EMPTY_MAX {
            if !self.may_go_on() {
                return false;
            }
            // SAFETY: we are the runner and this is our position.
            let node = unsafe { header.inbox.next_owner(owner.position.get()) };
            if node.is_null() {
                // A producer is between its two steps; going idle will wait for it.
                return true;
            }
            self.advance(node);
            self.submitted_job(node);
            if !self.fast_jobs_of(owner) {
                return false;
            }
            if header.inbox.signals() & bits::SYSTEM != 0 || !owner.open.get() {
                self.is_interrupted = true;
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn submitted_job(&mut self, node: *mut Node) {
        self.consumed += 1;
        if self.consumed >= DONE_PUBLISH_JOBS || self.header().capacity < 4 * DONE_PUBLISH_JOBS {
            self.publish();
        }
        if self.call(node) == Flow::Again {
            // The node stays as our position in the lane; the job moves on in a new one.
            let moved = node::relocate(node);
            self.keep_current(moved);
        }
    }

    /// Moves to the next node of the submitted lane and frees the previous one.
    #[inline(always)]
    pub(crate) fn advance(&self, node: *mut Node) {
        let owner = self.owner();
        let before = owner.position.get();
        owner.position.set(node.cast());
        self.free_position(before);
    }

    #[inline(always)]
    fn free_position(&self, position: *const Link) {
        let inbox = &self.header().inbox;
        if ptr::eq(position, inbox.stub()) {
            inbox.leave_stub_owner();
        } else {
            // SAFETY: its link was seen, or the lane was left idle from it: no producer needs it.
            unsafe { node::free(position.cast_mut().cast()) };
        }
    }

    /// Jobs of a mailbox with another policy than «reject».
    fn mailed_jobs(&mut self) -> bool {
        for _ in 0..mail_len(self.header()) {
            if !self.may_go_on() {
                return false;
            }
            let Some(queued) = pop_mail(self.header()) else { break };
            self.run_node(queued.0);
            if !self.fast_jobs() || self.is_signalled() || !self.owner().open.get() {
                return false;
            }
        }
        true
    }
}
