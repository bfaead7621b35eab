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
    /// Runs the subscriptions that are ready now. False when interrupted or used up.
    pub(in crate::task) fn ready_jobs(&mut self) -> bool {
        let Some(extra) = self.header().extra() else {
            return true;
        };
        let (woken, present) = {
            // SAFETY: we are the runner and the borrow ends here.
            let own = unsafe { extra.subscriptions_owner() };
            extra.ready.take(&mut own.ready);
            (own.woken.take(), own.ready.len())
        };
        if let Some(source) = woken {
            if !self.may_go_on() {
                // SAFETY: as above.
                unsafe { extra.subscriptions_owner() }.woken = Some(source);
                return false;
            }
            self.ready_job(&source, Entry::Woken);
            put_back(extra, source);
            if !self.fast_jobs() {
                return false;
            }
        }
        for _ in 0..present {
            // SAFETY: as above.
            let next = unsafe { extra.subscriptions_owner() }.ready.pop_front();
            let Some(source) = next else { break };
            if !self.may_go_on() {
                // SAFETY: as above.
                unsafe { extra.subscriptions_owner() }.ready.push_front(source);
                return false;
            }
            self.ready_job(&source, Entry::Marked);
            put_back(extra, source);
            if !self.fast_jobs() {
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
            // Whoever has set the mark queues it: it waits in one place.
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
        if step == Step::Done {
            phases::subscription_ended(self);
        }
        if let Err(panic) = outcome {
            // What a one-shot that panicked leaves is dropped apart: two panics at once would abort.
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
