//! The part of a turn that runs ready subscriptions.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

use super::current;
use super::phases;
use super::run::Turn;
use crate::failure::contain;
use crate::subscription::{Source, Step};
use crate::sync::Arc;

/// Origin of a ready subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// With its mark, through a queue.
    Marked,
    /// With the end of its task's hold, without a mark.
    Woken,
}

impl Turn {
    /// Visits the subscriptions that are ready now. False when interrupted or used up.
    pub(in crate::task) fn ready_jobs(&mut self) -> bool {
        self.owe_ready_jobs();
        self.owed_jobs()
    }

    /// Notes the subscriptions that are ready now: the round under way visits each of them.
    pub(in crate::task) fn owe_ready_jobs(&mut self) {
        let ready = self.header().extra().map(|extra| &extra.ready);
        self.subscriptions(|own| {
            ready.into_iter().for_each(|ready| ready.take(&mut own.ready));
            own.owe_ready();
        });
    }

    /// Whether the round under way has subscriptions left to visit.
    #[inline(always)]
    pub(in crate::task) fn owes_ready_jobs(&self) -> bool {
        self.subscriptions(|own| own.owed > 0).unwrap_or(false)
    }

    /// Visits the noted subscriptions, the oldest first. False when interrupted or used up.
    pub(in crate::task) fn owed_jobs(&mut self) -> bool {
        while self.owes_ready_jobs() {
            if !self.may_go_on() {
                return false;
            }
            let next = self.subscriptions(|own| {
                own.owed -= 1;
                let woken = own.woken.take().map(|source| (source, Arrival::Woken));
                woken.or_else(|| Some((own.ready.pop_front()?, Arrival::Marked)))
            });
            let Some((source, entry)) = next.flatten() else { continue };
            self.ready_job(&source, entry);
            self.put_back(source);
            if !self.fast_jobs() || self.is_signalled() {
                return false;
            }
        }
        true
    }

    fn ready_job(&mut self, source: &Arc<Source>, entry: Arrival) {
        let phase = self.phase();
        let taken = self.subscriptions(|own| {
            let exclusive = own.exclusive.front().copied();
            let slot = own.get(source)?;
            if slot.triggers_in(phase) && exclusive.is_none_or(|index| index == source.index) {
                return Some((slot.job.take()?, exclusive.is_some()));
            }
            // Only the thread that has set the mark queues the source, so it is queued once.
            if entry == Arrival::Marked || source.mark.take() {
                own.waiting.push_back(Arc::clone(source));
            }
            None
        });
        let Some((mut job, is_exclusive)) = taken.flatten() else { return };
        if entry == Arrival::Marked {
            source.mark.clear_owner();
        }
        self.stride_left = self.stride_left.saturating_sub(1);
        self.jobs += 1;
        current::start_job();
        let outcome = catch_unwind(AssertUnwindSafe(|| job(self, source)));
        let mut left = Some(job);
        let is_done = self.subscriptions(|own| {
            // A recurring job stays registered when it panics; a one-shot is gone.
            let step = match outcome {
                Ok(step) => step,
                Err(_) => own.step_after_panic(source),
            };
            if step == Step::Done {
                // Without its job: nothing of the user's is dropped within the borrow.
                drop(own.remove(source));
                return true;
            }
            if let Some(slot) = own.get(source) {
                slot.job = left.take();
            }
            if step == Step::More {
                source.queue_owner(&mut own.ready);
            }
            false
        });
        if is_exclusive && is_done == Some(true) {
            phases::exclusive_ended(self);
        }
        if let Err(panic) = outcome {
            // The leftovers of a panicked one-shot are dropped apart: two panics at once would
            // abort.
            contain("dropping a subscription", || drop(left));
            resume_unwind(panic);
        }
    }

    /// Keeps the source of a job that has run, for the next waker or the next subscription.
    #[inline(always)]
    fn put_back(&self, source: Arc<Source>) {
        if source.mark.is_attached() {
            return source.keep_spare_owner();
        }
        let before = self.subscriptions(|own| own.keep(source));
        drop(before);
    }
}
