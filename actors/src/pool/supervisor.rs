//! The actor behind a pool: watches members, replaces ended ones, ends idle ones.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use turnwheel_runtime::Failure;

use super::shared::{Grown, Shared};
use crate::actor::{Actor, Context, Exit, Handler, RestartCounter};

/// The least pause between two looks for idle members.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(1);

/// Failure of a pool that gives up; see [`Pool::closed`](crate::Pool::closed).
#[derive(Clone, Debug, thiserror::Error)]
#[error("members of the pool {pool} failed too often: {failure}")]
#[non_exhaustive]
pub struct PoolFailure {
    /// The name of the pool.
    pub pool: String,
    /// Failure of the last member.
    pub failure: Failure,
}

pub(super) struct PoolSupervisor<A: Actor> {
    pool: Weak<Shared<A>>,
    /// Counts the members that failed for good.
    counter: RestartCounter,
    /// Number of watched members.
    watched: usize,
    is_timing: bool,
}

/// The first message: the pool to keep. The supervisor does not keep it alive.
pub(super) struct Supervise<A: Actor>(pub(super) Weak<Shared<A>>);

/// The pool has changed: new members, or it is closed.
pub(super) struct Look;

impl<A: Actor> PoolSupervisor<A> {
    pub(super) fn new(counter: RestartCounter) -> Self {
        Self { pool: Weak::new(), counter, watched: 0, is_timing: false }
    }

    fn look(&mut self, cx: &mut Context<'_, Self>) {
        let Some(pool) = self.pool.upgrade() else { return };
        for member in pool.take_unwatched() {
            self.watched += 1;
            let (id, closed) = (member.id(), member.closed());
            drop(member);
            cx.when_done_started(closed, move |supervisor, cx, outcome| {
                supervisor.watched -= 1;
                supervisor.ended(id, &outcome.into(), cx);
            });
        }
        if pool.is_closed() {
            if self.watched == 0 {
                cx.close();
            }
            return;
        }
        self.time(&pool, cx);
    }

    fn ended(&mut self, id: u64, exit: &Exit, cx: &mut Context<'_, Self>) {
        let Some(pool) = self.pool.upgrade() else { return };
        pool.forget(id);
        if let (Exit::Failed(failure), false) = (exit, pool.is_closed()) {
            if self.counter.next(cx.group().now_ns(), id).is_none() {
                pool.end();
                let failure =
                    PoolFailure { pool: pool.settings.name.clone(), failure: failure.clone() };
                tracing::error!(%failure, "a pool gives up");
                return cx.fail(Failure::error(failure));
            }
            tracing::warn!(pool = pool.settings.name, %failure, "a member of a pool is replaced");
            // A member that has closed in order is replaced when it is needed; otherwise a member
            // that closes itself at once would be replaced endlessly.
            while let Grown::New(..) = pool.grow(pool.settings.min, false) {}
        }
        self.look(cx);
    }

    /// Looks for idle members when the first of them may be due.
    fn time(&mut self, pool: &Arc<Shared<A>>, cx: &mut Context<'_, Self>) {
        let now_ns = cx.group().now_ns();
        let Some(due_ns) = pool.idle_due_ns(now_ns).filter(|_| !self.is_timing) else { return };
        let pause = Duration::from_nanos(due_ns.saturating_sub(now_ns)).max(LOOK_PAUSE_MIN);
        self.is_timing = true;
        let pause = cx.group().sleep(pause);
        cx.when_done_started(pause, |supervisor, cx, slept| {
            supervisor.is_timing = false;
            let Some(pool) = supervisor.pool.upgrade() else { return };
            if slept.is_err() {
                // No room for a timer: the next new member brings the next look.
                return;
            }
            pool.collect(cx.group().now_ns());
            supervisor.look(cx);
        });
    }
}

impl<A: Actor> Actor for PoolSupervisor<A> {
    type Error = Infallible;

    fn ended(&mut self, _: &Exit) {
        // Also after a kill of the supervisor: without it no actor watches the members.
        if let Some(pool) = self.pool.upgrade() {
            pool.end();
        }
    }
}

impl<A: Actor> Handler<Supervise<A>> for PoolSupervisor<A> {
    type Reply = ();

    fn handle(&mut self, Supervise(pool): Supervise<A>, _: &mut Context<'_, Self>) {
        self.pool = pool;
    }
}

impl<A: Actor> Handler<Look> for PoolSupervisor<A> {
    type Reply = ();

    fn handle(&mut self, _: Look, cx: &mut Context<'_, Self>) {
        if let Some(pool) = self.pool.upgrade() {
            pool.is_poked.store(false, Ordering::Release);
        }
        self.look(cx);
    }
}
