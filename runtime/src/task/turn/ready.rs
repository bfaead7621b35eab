//! The part of a turn that runs ready subscriptions.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

use super::current;
use super::phases;
use super::run::Turn;
use crate::failure::contain;
use crate::subscription::{Source, Step};
use crate::sync::Arc;
use crate::task::cell::extra::Extra;

/// How a ready subscription came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
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
        let Some(extra) = self.header().extra() else { return };
        // SAFETY: we are the runner and the borrow ends here.
        let own = unsafe { extra.subscriptions_owner() };
        extra.ready.take(&mut own.ready);
        own.owe_ready();
    }

    /// Whether the round under way has subscriptions left to visit.
    #[inline(always)]
    pub(in crate::task) fn owes_ready_jobs(&self) -> bool {
        let Some(extra) = self.header().extra() else { return false };
        // SAFETY: we are the runner and the borrow ends here.
        unsafe { extra.subscriptions_owner() }.owed > 0
    }

    /// Visits the noted subscriptions, the oldest first. False when interrupted or used up.
    pub(in crate::task) fn owed_jobs(&mut self) -> bool {
        while self.owes_ready_jobs() {
            if !self.may_go_on() {
                return false;
            }
            let extra = self.header().extra_or_make();
            // SAFETY: we are the runner and the borrow ends here.
            let own = unsafe { extra.subscriptions_owner() };
            own.owed -= 1;
            let woken = own.woken.take().map(|source| (source, Entry::Woken));
            let next = woken.or_else(|| Some((own.ready.pop_front()?, Entry::Marked)));
            let Some((source, entry)) = next else { continue };
            self.ready_job(&source, entry);
            put_back(extra, source);
            if !self.fast_jobs() || self.is_signalled() {
                return false;
            }
        }
        true
    }

    fn ready_job(&mut self, source: &Arc<Source>, entry: Entry) {
        let header = self.header();
        let phase = header.phase();
        let extra = header.extra_or_make();
        // SAFETY: we are the runner and the borrow ends before user code runs.
        let own = unsafe { extra.subscriptions_owner() };
        let exclusive = own.exclusive.front().copied();
        let Some(slot) = own.get(source) else { return };
        if !slot.triggers_in(phase) || exclusive.is_some_and(|index| index != source.index) {
            // Only the thread that has set the mark queues the source, so it is queued once.
            if entry == Entry::Marked || source.take_mark_owner() {
                own.waiting.push_back(Arc::clone(source));
            }
            return;
        }
        let Some(mut job) = slot.job.take() else {
            return;
        };
        if entry == Entry::Marked {
            source.clear_mark_owner();
        }
        self.stride_left = self.stride_left.saturating_sub(1);
        self.jobs += 1;
        current::start_job();
        let outcome = catch_unwind(AssertUnwindSafe(|| job(self, source)));
        // SAFETY: as above; the job is over.
        let own = unsafe { extra.subscriptions_owner() };
        // A recurring job stays registered when it panics; a one-shot is gone.
        let step = match outcome {
            Ok(step) => step,
            Err(_) => own.step_after_panic(source),
        };
        let mut left = Some(job);
        let removed = if step == Step::Done {
            own.remove(source)
        } else {
            if let Some(slot) = own.get(source) {
                slot.job = left.take();
            }
            if step == Step::More {
                source.queue_owner(&mut own.ready);
            }
            None
        };
        drop(removed);
        if step == Step::Done && exclusive.is_some() {
            phases::exclusive_ended(self);
        }
        if let Err(panic) = outcome {
            // What a one-shot that panicked leaves is dropped apart: two panics at once would
            // abort.
            contain("dropping a subscription", || drop(left));
            resume_unwind(panic);
        }
    }
}

/// What becomes of the source of a job that has run.
#[inline(always)]
fn put_back(extra: &Extra, source: Arc<Source>) {
    if source.is_attached() {
        return source.keep_spare_owner();
    }
    // SAFETY: we are the runner and the borrow ends here.
    let before = unsafe { extra.subscriptions_owner() }.keep(source);
    drop(before);
}
