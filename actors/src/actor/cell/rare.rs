//! State that few actors need, allocated at its first use.

use std::sync::Arc;

use turnwheel_runtime::internal::Lender;
use turnwheel_runtime::Failure;

use crate::actor::cell::gate::Gate;
use crate::actor::{Actor, Children, Forwarder, Restarter, Turn};
use crate::call::Asker;
use crate::system::Chain;

/// Registration that is made once the actor has started: made before, it would hold the start.
pub(crate) type Deferred<A> = Box<dyn FnOnce(&mut Turn<'_, A>) + Send>;

/// State that few actors need.
pub(crate) struct RareState<A: Actor> {
    pub(crate) gate: Gate<A>,
    /// The place to which an exclusive handler's future returns the actor, also when it is dropped.
    pub(crate) lender: Lender<A>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) class: Option<Arc<str>>,
    /// Interceptors around its messages.
    pub(crate) chain: Chain,
    /// Identity of its calls: from exclusive handlers, and from handlers that admit returning
    /// calls.
    pub(crate) askers: [Option<Asker>; 2],
    pub(crate) restarter: Option<Restarter<A>>,
    pub(crate) children: Children,
    /// Registrations that are made once the actor has started.
    pub(crate) deferred: Vec<Deferred<A>>,
    /// The actor was restarted and is in its start.
    pub(crate) is_restarting: bool,
    /// Why no message is handled any more.
    pub(crate) broken: Option<Failure>,
    /// Destination of all messages, if it is not this actor.
    pub(crate) forwarder: Option<Box<dyn Forwarder<A>>>,
    /// Time until which an entity does not count as idle, in nanoseconds.
    pub(crate) kept_until_ns: u64,
    /// Ticks of timers under way that are no activity.
    pub(crate) ticking: u32,
    /// Shared with each stream of answers that is open; made at the first.
    pub(crate) open_streams: Option<Arc<()>>,
}

default_fields!(impl<A: Actor> RareState<A>, gate, lender, name, class, chain, askers, restarter,
    children, deferred, is_restarting, broken, forwarder, kept_until_ns, ticking, open_streams);

impl<A: Actor> RareState<A> {
    /// Whether streams of answers are open.
    pub(crate) fn has_open_streams(&self) -> bool {
        self.open_streams.as_ref().is_some_and(|open| Arc::strong_count(open) > 1)
    }

    /// Whether it holds nothing, but perhaps a name that can be found again.
    pub(crate) fn is_unused(&self) -> bool {
        self.gate.is_free()
            && self.lender.is_empty()
            && self.chain.is_empty()
            && self.restarter.is_none()
            && self.children.is_empty()
            && self.deferred.is_empty()
            && self.broken.is_none()
            && self.forwarder.is_none()
            && self.kept_until_ns == 0
            && self.ticking == 0
            && !self.has_open_streams()
    }
}
