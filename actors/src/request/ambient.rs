//! The ambient request: thread-local while an actor handles a message.

use std::sync::Arc;

use turnwheel_runtime::internal::{hide_from_turns, Scoped};
use turnwheel_runtime::oneshot::WeakOneshot;

use super::context::Baggage;
use super::delivery::Delivery;
use crate::call::{Asker, Call, CallChain, ReplyTo};

/// The request that an actor handles now, and the data that its calls inherit.
#[derive(Debug)]
pub(crate) struct Ambient {
    pub(crate) baggage: Option<Arc<Baggage>>,
    /// The chain of a call made now: the actor, if it takes nothing else while the handler waits,
    /// and the call that it handles, if its handler may answer later than it returns.
    pub(crate) chain: CallChain,
    /// Time at which the last waiting caller gives up, in nanoseconds; `u64::MAX` for never.
    pub(crate) deadline_ns: u64,
}

clone_fields!(impl Ambient, baggage, chain, deadline_ns);

default_value! {
    /// Nothing is ambient.
    #[inline(always)]
    Ambient => Self { baggage: None, chain: CallChain::default(), deadline_ns: u64::MAX }
}

thread_local! {
    static AMBIENT: Scoped<Ambient> = const { Scoped::new() };
}

impl Ambient {
    /// The ambient request of a message whose handler may answer after it has returned. The
    /// `asker` waits for the calls of the handler.
    pub(crate) fn of<M, R: Send + 'static>(
        delivery: &Delivery<M, R>,
        asker: Option<Asker>,
    ) -> Self {
        let reply = delivery.reply.as_ref();
        Self {
            baggage: delivery.baggage.clone(),
            chain: match asker {
                Some(asker) => CallChain::waiting(asker, reply.and_then(ReplyTo::handled)),
                None => CallChain::beside(reply.and_then(ReplyTo::asked)),
            },
            deadline_ns: reply.and_then(ReplyTo::call).map_or(u64::MAX, |call| call.deadline_ns),
        }
    }

    /// The ambient request of a plain handler: it has answered when it returns, so that no call of
    /// its own can wait for it.
    #[inline(always)]
    pub(crate) fn plain(baggage: Option<Arc<Baggage>>, deadline_ns: u64) -> Self {
        Self { baggage, deadline_ns, ..Self::default() }
    }

    /// Drops an ambient request made by [`Ambient::plain`], without checks of its empty fields.
    #[inline(always)]
    pub(crate) fn end_plain(mut self) {
        debug_assert!(self.chain.is_empty(), "a plain handler waits for nobody");
        drop(self.baggage.take());
        std::mem::forget(self);
    }

    /// The ambient request for work beside the handler, for which the actor does not wait.
    pub(crate) fn inherited() -> Self {
        Self { chain: CallChain::beside(call()), ..outgoing() }
    }

    /// Runs a closure with this as the ambient request.
    #[inline(always)]
    pub(crate) fn within<R>(&self, run: impl FnOnce() -> R) -> R {
        Scoped::enter_here(&AMBIENT, self, run)
    }

    /// Keeps the ambient request of a thread from the turns that it runs.
    pub(crate) fn hide_from_turns() {
        hide_from_turns(|run| AMBIENT.with(|ambient| ambient.leave(run)));
    }

    #[inline(always)]
    pub(super) fn with<R>(look: impl FnOnce(&Self) -> R) -> Option<R> {
        Scoped::look_here(&AMBIENT, look)
    }
}

/// The values and the trace of a message sent now.
#[inline(always)]
pub(crate) fn baggage() -> Option<Arc<Baggage>> {
    Ambient::with(|ambient| ambient.baggage.clone()).flatten()
}

/// The call that is handled now, if its handler may answer later than it returns.
pub(crate) fn call() -> Option<WeakOneshot<Call>> {
    Ambient::with(|ambient| ambient.chain.above_weak()).flatten()
}

/// Whether a call made now to this actor would never be answered, since it waits for the call.
#[inline(always)]
pub(crate) fn closes_cycle(actor: u64) -> bool {
    Ambient::with(|ambient| ambient.chain.blocks(actor)).unwrap_or(false)
}

/// The context of a call made now.
pub(crate) fn outgoing() -> Ambient {
    outgoing_for::<()>()
}

/// As [`outgoing`], for calls of one kind: a closure that is called from a single place is inlined,
/// and its result does not go through memory.
#[inline(always)]
#[expect(clippy::extra_unused_type_parameters, reason = "each kind has a closure of its own")]
pub(crate) fn outgoing_for<Kind>() -> Ambient {
    Ambient::with(|ambient| ambient.clone()).unwrap_or_default()
}
