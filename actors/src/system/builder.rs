//! Making a system.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::Group;

use super::dead_letter::{self, DeadLetter, DeadLetters};
use super::handle::{Shared, System, ASK_LIMIT_DEFAULT};
use super::id::{mark_of, OUTGOING_BIT};
use super::intercept::{Chain, Interceptor};
use super::registry::Names;
use crate::call::deadlines::Deadlines;

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
    pub(super) fn new(group: &Group) -> Self {
        Self {
            group: group.clone(),
            dead_letters: DeadLetters::default(),
            ask_limit: ASK_LIMIT_DEFAULT,
            incoming: Chain::default(),
            outgoing: Chain::default(),
        }
    }

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
        let mark = mark_of(dead_letter::register(&shared));
        shared.marks.store(marks | mark, Ordering::Relaxed);
        System::of(shared)
    }
}
