//! Futures and continuations of a task, and their handle.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as PollContext, Poll};

use super::context::Context;
use crate::handoff::polling;
use crate::subscription::{waker, Kind, Source, Step};
use crate::sync::{Arc, Ordering};
use crate::task::Turn;

/// Handle of a continuation, for cancelling it. Dropping it cancels nothing (see [the
/// rule](crate#handles)).
#[derive(Clone, Debug)]
pub struct Subscription(Arc<Source>);

impl Subscription {
    pub(crate) fn new(source: Arc<Source>) -> Self {
        Self(source)
    }

    /// Drops the continuation unrun, from any thread, unless it has begun.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Release);
        self.0.ready();
    }

    /// Counts of its source: wakers, handles and the task's; the kept one of a waker is none.
    #[cfg(turnwheel_loom)]
    pub(crate) fn counted(&self) -> usize {
        Arc::strong_count(&self.0) - usize::from(self.0.has_spare.load(Ordering::Relaxed))
    }

    /// Whether it is still registered.
    pub fn is_registered(&self) -> bool {
        self.0.mark.is_attached()
    }
}

impl<S: Send + 'static> Context<'_, S> {
    /// Registers a future; one heap allocation for it and its job. It reuses the source of the
    /// previous one if no other reference to that is left.
    pub(in crate::task) fn await_future<Fut, F>(
        &mut self,
        kind: Kind,
        future: Fut,
        then: F,
    ) -> Subscription
    where
        Fut: Future + Send + 'static,
        F: FnOnce(&mut S, &mut Context<'_, S>, Fut::Output) + Send + 'static,
    {
        let source = self.begin_future(kind, future, then);
        self.queue(Arc::clone(&source));
        Subscription::new(source)
    }

    /// Registers a future; `queue` has it polled.
    pub(in crate::task) fn begin_future<Fut: Future + Send + 'static, F>(
        &mut self,
        kind: Kind,
        future: Fut,
        then: F,
    ) -> Arc<Source>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>, Fut::Output) + Send + 'static,
    {
        let mut then = Some(then);
        let mut future = Some(future);
        self.add(
            kind,
            Box::new(move |turn, source| {
                let is_cancelled = source.is_cancelled.load(Ordering::Acquire);
                let Some(polled) = future.as_mut().filter(|_| !is_cancelled) else {
                    return Step::Done;
                };
                // Lent by the caller's count: a waker of its own would be counted for each future.
                let waker = waker(source);
                // SAFETY: this closure was boxed before its first call and is never moved out of
                // the box; the future is dropped in its place, below or with the closure.
                let polled = unsafe { Pin::new_unchecked(polled) };
                let answer = polling(&waker, || polled.poll(&mut PollContext::from_waker(&waker)));
                let Poll::Ready(value) = answer else { return Step::Stay };
                future = None;
                if let Some(then) = then.take() {
                    call(turn, move |state, cx| then(state, cx, value));
                }
                Step::Done
            }),
        )
    }

    /// The first poll is a job like any other, and needs no signal: the turn lasts.
    pub(in crate::task) fn queue(&mut self, source: Arc<Source>) {
        let extra = self.turn.header().extra_or_make();
        // SAFETY: we are in the task's turn and the borrow ends here.
        let own = unsafe { extra.subscriptions_owner() };
        if own.has_ready() {
            source.queue_owner(&mut own.ready);
        } else if source.mark.is_attached() {
            // No other code knows it yet: it needs no mark.
            own.woken = Some(source);
        }
    }
}

/// Calls a job of this task within its turn.
pub(super) fn call<S>(turn: &mut Turn, job: impl FnOnce(&mut S, &mut Context<'_, S>)) {
    turn.announce();
    let state = turn.state.cast::<S>();
    // SAFETY: a context of this task registered the job, so the state is an `S`; the runner has
    // exclusive access to it.
    let state = unsafe { &mut *state };
    job(state, &mut Context::new(turn));
}

pub(super) fn call_mut<S>(turn: &mut Turn, job: &mut impl FnMut(&mut S, &mut Context<'_, S>)) {
    call(turn, |state, cx| job(state, cx));
}
