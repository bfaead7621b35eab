//! The handle of a system.

use std::sync::{Arc, Weak};
use std::time::Duration;

use turnwheel_runtime::Group;

use super::registry::Names;
use crate::call::{Abandoned, Deadlines, ReplyTo};
use crate::request::Ambient;
use crate::system::dead_letter::register;
use crate::system::{Chain, DeadLetter, DeadLetters, Interceptor};

/// Time limit of an `ask` by default: longer than any healthy answer takes, short enough to reveal
/// a lost one.
pub const ASK_LIMIT_DEFAULT: Duration = Duration::from_secs(30);

/// A limit from which on it does not matter that the clock was read at the begin of the turn: no
/// turn should last a twentieth of it, and a reading costs as much as half a message.
const RECENT_LIMIT: Duration = Duration::from_secs(10);

/// The actors of a program, on one group of workers. Clones share it.
///
/// It owns nothing but counters and settings: shutting the group down ends the actors.
#[derive(Clone)]
pub struct System {
    shared: Arc<Shared>,
}

debug_fields!(impl System, self => group: self.group().name());

/// State that the clones of a system share.
pub(crate) struct Shared {
    pub(crate) group: Group,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) ask_limit: Duration,
    pub(crate) deadlines: Arc<Deadlines>,
    /// Interceptors of messages that its actors handle.
    pub(crate) incoming: Chain,
    /// Interceptors of messages sent to its actors.
    pub(crate) outgoing: Chain,
    pub(crate) names: Names,
}

impl System {
    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }

    /// A system with the defaults.
    pub fn new(group: &Group) -> Self {
        Self::builder(group).build()
    }

    /// Describes a system; every value has a default.
    pub fn builder(group: &Group) -> SystemBuilder {
        SystemBuilder::new(group)
    }

    /// The time from which the limit of a call counts.
    ///
    /// A short limit needs a reading of the clock: the worker's own is from the begin of the turn,
    /// so a call after a long computation would be late before it is sent.
    #[inline]
    pub(crate) fn asking_ns(&self, limit: Duration) -> u64 {
        let group = self.group();
        if limit >= RECENT_LIMIT {
            group.recent_ns()
        } else {
            group.now_ns()
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The group its actors run in unless they name another.
    pub fn group(&self) -> &Group {
        &self.shared.group
    }

    /// Messages that no actor handled, so far.
    pub fn dead_letters(&self) -> u64 {
        self.shared.dead_letters.count()
    }

    /// Calls that were given up before their handler began, so far: dead letters whose handler was
    /// skipped ([`Ask::cancel`](crate::Ask::cancel)).
    pub fn cancelled_calls(&self) -> u64 {
        self.shared.dead_letters.cancelled()
    }
}

impl<R: Send + 'static> ReplyTo<R> {
    /// Completes when the caller has given up: it has dropped its [`Ask`](crate::Ask), its deadline
    /// has passed, or its own caller has given up. Never completes without a caller, nor after the
    /// answer.
    ///
    /// `system` is the actor's system.
    pub fn abandoned(&self, system: &System) -> Abandoned {
        Abandoned::new(self.asked(), system.group().clone())
    }
}

/// Describes a system.
#[must_use]
pub struct SystemBuilder {
    shared: Shared,
}

debug_fields!(impl SystemBuilder, self => group: self.shared.group.name());

impl SystemBuilder {
    fn new(group: &Group) -> Self {
        Ambient::hide_from_turns();
        let shared = Shared {
            group: group.clone(),
            dead_letters: DeadLetters::default(),
            ask_limit: ASK_LIMIT_DEFAULT,
            deadlines: Deadlines::new(group),
            incoming: Chain::default(),
            outgoing: Chain::default(),
            names: Names::default(),
        };
        Self { shared }
    }

    setters! {
        /// Default time limit of an `ask`; [`Duration::MAX`] for ever.
        ask_limit(self, limit: Duration) => self.shared.ask_limit = limit;

        /// Called for each dead letter, on the thread where it is noticed: it must be quick.
        on_dead_letter(self, hook: impl Fn(&DeadLetter) + Send + Sync + 'static) =>
            self.shared.dead_letters.hook = Some(Box::new(hook));

        /// Puts an interceptor around every message that an actor of the system handles, inside
        /// earlier ones. See [`intercept`](crate::intercept).
        intercept(self, interceptor: impl Interceptor) => self.shared.incoming.push(interceptor);

        /// Puts an interceptor around the sending of every message to an actor of the system, from
        /// its handlers and from elsewhere, inside earlier ones. See
        /// [`intercept`](crate::intercept).
        intercept_outgoing(self, interceptor: impl Interceptor) =>
            self.shared.outgoing.push(interceptor);
    }

    /// Makes the system.
    pub fn build(self) -> System {
        let shared = Arc::new(self.shared);
        register(&shared);
        System { shared }
    }
}
