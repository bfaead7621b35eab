//! The ambient request: thread-local while an actor handles a message.

use std::cell::OnceCell;
use std::sync::Arc;

use turnwheel_runtime::internal::Scoped;
use turnwheel_runtime::oneshot::WeakOneshot;

use super::context::Baggage;
use super::delivery::Delivery;
use crate::call::{Above, Asker, Call, CallChain, ReplyTo};

/// The request that an actor handles now.
#[derive(Clone, Debug)]
pub(crate) struct Ambient {
    pub(crate) baggage: Option<Arc<Baggage>>,
    /// The chain of calls that the message came by.
    pub(crate) chain: CallChain,
    /// When nobody waits for the answer any more, nanoseconds; `u64::MAX` never.
    pub(crate) deadline_ns: u64,
    /// The actor, if it takes nothing else while the handler waits.
    pub(crate) asker: Option<Asker>,
    /// The chain as what is above the asker, once it was needed.
    pub(crate) above: OnceCell<Option<Above>>,
    /// The call that is handled, if its handler may answer later than it returns.
    pub(crate) call: Option<WeakOneshot<Call>>,
}

impl Default for Ambient {
    /// Nothing is ambient.
    #[inline(always)]
    fn default() -> Self {
        Self {
            baggage: None,
            chain: CallChain::default(),
            deadline_ns: u64::MAX,
            asker: None,
            above: OnceCell::new(),
            call: None,
        }
    }
}

thread_local! {
    static AMBIENT: Scoped<Ambient> = const { Scoped::new() };
}

impl Ambient {
    /// The ambient request of a message whose handler may answer after it has returned.
    pub(crate) fn of<M, R: Send + 'static>(delivery: &Delivery<M, R>) -> Self {
        let call = delivery.reply.as_ref().and_then(ReplyTo::call);
        Self {
            baggage: delivery.baggage.clone(),
            chain: call.map(|call| call.chain.clone()).unwrap_or_default(),
            deadline_ns: call.map_or(u64::MAX, |call| call.deadline_ns),
            call: delivery.reply.as_ref().and_then(ReplyTo::asked),
            ..Self::default()
        }
    }

    /// The ambient request of a plain handler: it has answered when it returns, so that no call of
    /// its own can wait for it.
    #[inline(always)]
    pub(crate) fn plain(baggage: Option<Arc<Baggage>>, deadline_ns: u64) -> Self {
        Self { baggage, deadline_ns, ..Self::default() }
    }

    /// Drops what [`Ambient::plain`] made, without a look at all that it does not hold.
    #[inline(always)]
    pub(crate) fn end_plain(mut self) {
        debug_assert!(self.chain.is_empty(), "nobody waits for a plain handler");
        debug_assert!(self.asker.is_none(), "a plain handler waits for nobody");
        debug_assert!(self.call.is_none() && self.above.get().is_none(), "nor do its calls");
        drop(self.baggage.take());
        std::mem::forget(self);
    }

    /// The ambient request for work beside the handler, for which the actor does not wait.
    pub(crate) fn inherited() -> Self {
        let inherit =
            |ambient: &Self| Self { asker: None, above: OnceCell::new(), ..ambient.clone() };
        Self::with(inherit).unwrap_or_default()
    }

    /// Runs a closure with this as what is ambient.
    #[inline(always)]
    pub(crate) fn within<R>(&self, run: impl FnOnce() -> R) -> R {
        AMBIENT.with(|ambient| ambient.enter(self, run))
    }

    #[inline(always)]
    pub(super) fn with<R>(look: impl FnOnce(&Self) -> R) -> Option<R> {
        Scoped::look_here(&AMBIENT, look)
    }

    /// Whether a call made now to this actor closes a cycle; as of [`Ambient::outgoing_chain`].
    #[inline(always)]
    fn blocks(&self, actor: u64) -> bool {
        self.asker.as_ref().is_some_and(|asker| asker.blocks(actor)) || self.chain.blocks(actor)
    }

    /// The context of a call made now. In line: out of line its result would go through memory.
    #[inline(always)]
    fn outgoing(&self) -> Outgoing {
        Outgoing {
            baggage: self.baggage.clone(),
            chain: self.outgoing_chain(),
            deadline_ns: self.deadline_ns,
            made_for: self.call.clone(),
        }
    }

    /// The chain of a call made now.
    #[inline(always)]
    fn outgoing_chain(&self) -> CallChain {
        match &self.asker {
            None => self.chain.clone(),
            Some(asker) => {
                let above = self.above.get_or_init(|| self.chain.above());
                CallChain::of(asker.clone(), above.clone())
            }
        }
    }
}

/// The values and the trace of a message sent now.
#[inline(always)]
pub(crate) fn baggage() -> Option<Arc<Baggage>> {
    Ambient::with(|ambient| ambient.baggage.clone()).flatten()
}

/// The context that a call carries.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) baggage: Option<Arc<Baggage>>,
    pub(crate) chain: CallChain,
    pub(crate) deadline_ns: u64,
    /// The call that is handled by who makes this one.
    pub(crate) made_for: Option<WeakOneshot<Call>>,
}

/// The call that is handled now, if its handler may answer later than it returns.
pub(crate) fn call() -> Option<WeakOneshot<Call>> {
    Ambient::with(|ambient| ambient.call.clone()).flatten()
}

/// Whether a call made now to this actor would never be answered, since it waits for the call.
#[inline(always)]
pub(crate) fn closes_cycle(actor: u64) -> bool {
    Ambient::with(|ambient| ambient.blocks(actor)).unwrap_or(false)
}

/// The context of a call made now.
pub(crate) fn outgoing() -> Outgoing {
    outgoing_for::<()>()
}

/// As [`outgoing`], for calls of one kind: a closure that is called from one place alone comes in
/// line, and what it answers does not go through memory.
#[inline(always)]
#[expect(clippy::extra_unused_type_parameters, reason = "each kind has a closure of its own")]
pub(crate) fn outgoing_for<Kind>() -> Outgoing {
    Ambient::with(|ambient| ambient.outgoing()).unwrap_or_else(|| Outgoing {
        baggage: None,
        chain: CallChain::default(),
        deadline_ns: u64::MAX,
        made_for: None,
    })
}
