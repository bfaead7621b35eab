//! Admission of messages while futures of the actor's handlers wait.
//!
//! The gate is free, and costs one look at a flag, unless an
//! [`InterleavedHandler`](crate::InterleavedHandler) that does not admit everything is under way. A
//! message that has to wait keeps its place: only calls of a chain that the actor itself waits for
//! pass it, so that readers never starve a writer. A writer whose deadline passes or whose caller
//! gives up is removed, which admits the readers behind it.

use std::collections::VecDeque;

use turnwheel_runtime::oneshot::WeakOneshot;
use turnwheel_runtime::{Context, Subscription};

use crate::actor::{Access, Actor, ActorCell, Admits};
use crate::call::Call;

/// Messages that wait for other handlers of one actor, at most; a further one is refused. They have
/// left the mailbox, so its bound does not count them.
pub const WAITING_MAX: usize = 1_024;

/// The gate's decision about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Take,
    Wait,
    /// It would wait for a handler that waits for it.
    Cycle,
    TooMany,
}

/// Why a message leaves the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// It fits now: its handler runs.
    Admitted,
    /// Its deadline passed, or its caller gave up, while it waited.
    Expired,
    /// The actor takes no more messages: this one is admitted again, and so refused or forwarded.
    Again,
}

/// A message that waits; called once when it leaves the gate.
pub(crate) type Waiter<A> =
    Box<dyn FnOnce(&mut ActorCell<A>, Context<'_, ActorCell<A>>, Release) + Send>;

struct Waiting<A: Actor> {
    access: Access,
    waiter: Waiter<A>,
    /// The call of the message, if it has a caller.
    call: Option<WeakOneshot<Call>>,
    /// Looks when the caller gives up.
    look: Option<Subscription>,
}

impl<A: Actor> Waiting<A> {
    fn into_waiter(self) -> Waiter<A> {
        if let Some(look) = self.look {
            look.cancel();
        }
        self.waiter
    }

    /// Whether its caller has stopped waiting.
    fn is_late(&self, now_ns: u64) -> bool {
        let call = self.call.as_ref().and_then(WeakOneshot::upgrade);
        call.is_some_and(|call| call.is_closed() || now_ns >= call.metadata().deadline_ns)
    }
}

/// The futures under way and the messages that wait for them.
pub(crate) struct Gate<A: Actor> {
    readers: u32,
    chains: u32,
    waiting: VecDeque<Waiting<A>>,
}

default_fields!(impl<A: Actor> Gate<A>, readers, chains, waiting);

impl<A: Actor> Gate<A> {
    /// Whether nothing is under way that keeps messages out.
    pub(crate) fn is_free(&self) -> bool {
        self.readers == 0 && self.chains == 0 && self.waiting.is_empty()
    }

    /// Decides about a message; `comes_back` if the actor itself waits in its call chain.
    pub(crate) fn judge(&self, access: Access, comes_back: bool) -> Verdict {
        let fits = self.fits(access);
        if access == Access::Always {
            return Verdict::Take;
        }
        if comes_back {
            // The handler that it would wait for waits for it.
            let is_taken = self.chains > 0 || fits;
            return if is_taken { Verdict::Take } else { Verdict::Cycle };
        }
        match fits && self.waiting.is_empty() {
            true => Verdict::Take,
            false if self.waiting.len() >= WAITING_MAX => Verdict::TooMany,
            false => Verdict::Wait,
        }
    }

    fn fits(&self, access: Access) -> bool {
        self.chains == 0 && (self.readers == 0 || access != Access::Write)
    }

    /// Notes a future that keeps messages out.
    pub(crate) fn enter(&mut self, admits: Admits) {
        self.readers += u32::from(admits == Admits::Readers);
        self.chains += u32::from(admits == Admits::Chain);
    }

    /// Notes its end.
    pub(crate) fn leave(&mut self, admits: Admits) {
        self.readers -= u32::from(admits == Admits::Readers);
        self.chains -= u32::from(admits == Admits::Chain);
    }

    /// Keeps a message until it is admitted. Returns whether it is the only one. With `look`,
    /// messages behind it may be admitted when its caller gives up.
    pub(crate) fn keep(
        &mut self,
        access: Access,
        waiter: Waiter<A>,
        call: Option<WeakOneshot<Call>>,
        look: Option<Subscription>,
    ) -> bool {
        self.waiting.push_back(Waiting { access, waiter, call, look });
        self.waiting.len() == 1
    }

    /// Whether a message of this kind, which waits, keeps others from readers that they would fit
    /// to.
    pub(crate) fn holds_readers_up(&self, access: Access) -> bool {
        access == Access::Write && self.readers > 0
    }

    /// Whether a further message is refused, unless some that wait are late.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Removes a message whose deadline has passed, or whose caller has given up.
    pub(crate) fn next_late(&mut self, now_ns: u64) -> Option<Waiter<A>> {
        let at = self.waiting.iter().position(|waiting| waiting.is_late(now_ns))?;
        self.waiting.remove(at).map(Waiting::into_waiter)
    }

    /// The current futures are gone; waiting messages stay.
    pub(crate) fn clear(&mut self) {
        (self.readers, self.chains) = (0, 0);
    }

    /// Whether messages wait.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes all that waits, in order.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = Waiter<A>> {
        std::mem::take(&mut self.waiting).into_iter().map(Waiting::into_waiter)
    }

    /// Takes out the first waiting message if it fits now.
    pub(crate) fn next(&mut self) -> Option<Waiter<A>> {
        let access = self.waiting.front()?.access;
        let waiting = if self.fits(access) { self.waiting.pop_front() } else { None };
        waiting.map(Waiting::into_waiter)
    }
}
