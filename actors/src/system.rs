//! What the actors of a program share: the group they run in, dead letters, defaults.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use turnwheel_runtime::Group;

use crate::actor::Actor;
use crate::address::Address;
use crate::dead_letter::{self, DeadLetter, DeadLetters};
use crate::deadline::Deadlines;
use crate::error::SpawnError;
use crate::intercept::{Chain, Interceptor};
use crate::registry::Names;
use crate::spawn::{self, ActorBuilder, OUTGOING_BIT};

/// How long an `ask` waits by default: longer than any healthy answer takes, short enough that a lost
/// one shows.
pub const ASK_LIMIT_DEFAULT: Duration = Duration::from_secs(30);

/// A limit from which on it does not matter that the clock was read at the begin of the turn: no turn
/// should last a twentieth of it, and a reading costs as much as half a message.
const RECENT_LIMIT: Duration = Duration::from_secs(10);

/// The actors of a program, on one group of workers. Clones share it.
///
/// It owns nothing but counters and settings: shutting the group down ends the actors.
#[derive(Clone, Debug)]
pub struct System {
    shared: Arc<Shared>,
}

/// What the clones of a system share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What is kept in the numbers of its actors: that it is around what they are sent, and which it is.
    pub(crate) marks: AtomicU64,
    pub(crate) group: Group,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) ask_limit: Duration,
    pub(crate) deadlines: Arc<Deadlines>,
    /// Around what its actors handle.
    pub(crate) incoming: Chain,
    /// Around what its actors are sent.
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
        SystemBuilder {
            group: group.clone(),
            dead_letters: DeadLetters::default(),
            ask_limit: ASK_LIMIT_DEFAULT,
            incoming: Chain::default(),
            outgoing: Chain::default(),
        }
    }

    /// The time from which the limit of a call counts.
    ///
    /// A short limit wants a reading of the clock: the worker's own is from the begin of the turn, so
    /// a call after a long computation would be late before it is sent.
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

    /// Spawns an actor; the short form of [`System::actor`].
    ///
    /// # Errors
    ///
    /// The group shuts down; the actor comes back.
    pub fn spawn<A: Actor>(&self, actor: A) -> Result<Address<A>, SpawnError<A>> {
        self.actor(actor).spawn()
    }

    /// Describes an actor.
    pub fn actor<A: Actor>(&self, actor: A) -> ActorBuilder<A> {
        ActorBuilder::new(self.clone(), actor)
    }

    /// Messages that nobody handled, so far.
    pub fn dead_letters(&self) -> u64 {
        self.shared.dead_letters.count()
    }
}

/// Describes a system.
#[must_use]
pub struct SystemBuilder {
    group: Group,
    dead_letters: DeadLetters,
    ask_limit: Duration,
    incoming: Chain,
    outgoing: Chain,
}

impl fmt::Debug for SystemBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemBuilder").field("group", &self.group.name()).finish_non_exhaustive()
    }
}

impl SystemBuilder {
    /// How long an `ask` waits unless it says otherwise; [`Duration::MAX`] for ever.
    pub fn ask_limit(mut self, limit: Duration) -> Self {
        self.ask_limit = limit;
        self
    }

    /// Told of each dead letter, on the thread where it is noticed: it must be quick.
    pub fn on_dead_letter(mut self, hook: impl Fn(&DeadLetter) + Send + Sync + 'static) -> Self {
        self.dead_letters.hook = Some(Box::new(hook));
        self
    }

    /// Puts an interceptor around every message that an actor of the system handles, inside those
    /// that were put before. See [`intercept`](crate::intercept).
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.incoming.push(interceptor);
        self
    }

    /// Puts an interceptor around the sending of every message to an actor of the system, from its
    /// handlers and from elsewhere, inside those that were put before. See
    /// [`intercept`](crate::intercept).
    pub fn intercept_outgoing(mut self, interceptor: impl Interceptor) -> Self {
        self.outgoing.push(interceptor);
        self
    }

    /// Makes the system.
    pub fn build(self) -> System {
        let Self { group, dead_letters, ask_limit, incoming, outgoing } = self;
        let deadlines = Deadlines::new(&group);
        let marks = if outgoing.is_empty() { 0 } else { OUTGOING_BIT };
        let shared = Arc::new(Shared {
            marks: AtomicU64::new(marks),
            group,
            dead_letters,
            ask_limit,
            deadlines,
            incoming,
            outgoing,
            names: Names::default(),
        });
        let mark = spawn::mark_of(dead_letter::register(&shared));
        shared.marks.store(marks | mark, Ordering::Relaxed);
        System { shared }
    }
}
