//! Calls that are made again if they fail.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::time::Duration;

use turnwheel_actors::intercept::{Call, Direction, Interceptor, MessageInfo, Outcome};
use turnwheel_actors::{AskError, TellError};
use turnwheel_runtime::{Backoff, Delays, Failure, SubmitErrorKind};

/// Attempts in all, by default: enough for a full mailbox or a restart, too few to keep a sick
/// actor busy.
const ATTEMPTS_DEFAULT: u32 = 3;

/// Repeats failed outgoing calls, after pauses, up to a number of attempts.
///
/// Only calls with messages of the registered types: their handling must be idempotent, since a
/// call without an answer may have been handled. Each call of such a type costs a clone of its
/// message. Messages without a caller are sent once.
///
/// The caller's deadline counts for all attempts together, and no pause goes beyond it. A lost call
/// with the default deadline uses all of it up; give each attempt less time with
/// [`attempt_limit`](Retry::attempt_limit). Further attempts are made only while the call is
/// polled.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_actors::{Actor, Context, Directive, Handler, System};
/// use turnwheel_interceptors::Retry;
/// use turnwheel_runtime::{Backoff, Failure, Group};
///
/// struct Shaky(u32);
/// impl Actor for Shaky {
///     type Error = std::convert::Infallible;
///     fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
///         Directive::Resume
///     }
/// }
/// #[derive(Clone)]
/// struct Get;
/// impl Handler<Get> for Shaky {
///     type Reply = u32;
///     fn handle(&mut self, _: Get, _: &mut Context<'_, Self>) -> u32 {
///         self.0 += 1;
///         if self.0 < 3 {
///             Failure::Refused("not yet").raise();
///         }
///         self.0
///     }
/// }
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let pauses = Backoff::constant(Duration::from_millis(1));
/// let system = System::builder(&group)
///     .intercept_outgoing(Retry::new(5, pauses).of::<Get>())
///     .build();
/// assert_eq!(system.spawn(Shaky(0))?.ask(Get).wait()?, 3);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Retry {
    attempts: u32,
    backoff: Backoff,
    attempt_limit: Duration,
    copiers: HashMap<TypeId, Copier>,
    condition: Condition,
}

/// Filter of errors that are worth another attempt.
type Condition = Box<dyn Fn(&AskError<()>) -> bool + Send + Sync>;

/// Makes a copy of a message that can be sent again and again.
type Copier = fn(&dyn Any) -> Option<Box<dyn Repeat>>;

/// A copy of a message.
trait Repeat: Send {
    /// Has the call made again; false if that is not possible any more.
    fn repeat(&self, outcome: &mut Outcome<'_>, delay: Duration) -> bool;
}

struct Copied<M>(M);

impl<M: Clone + Send + 'static> Repeat for Copied<M> {
    fn repeat(&self, outcome: &mut Outcome<'_>, delay: Duration) -> bool {
        outcome.retry(self.0.clone(), delay).is_ok()
    }
}

debug_fields!(impl Retry, self => attempts: self.attempts, types: self.copiers.len());

impl Default for Retry {
    /// Three attempts, with the default back-off.
    fn default() -> Self {
        Self::new(ATTEMPTS_DEFAULT, Backoff::default())
    }
}

impl Retry {
    /// So many attempts in all, at least one, with these pauses between them.
    pub fn new(attempts: u32, backoff: Backoff) -> Self {
        Self {
            attempts: attempts.max(1),
            backoff,
            attempt_limit: Duration::MAX,
            copiers: HashMap::new(),
            condition: Box::new(is_passing),
        }
    }

    /// Messages of this type may be handled more than once.
    pub fn of<M: Clone + Send + 'static>(mut self) -> Self {
        let copy: Copier = |message| {
            let message: &M = message.downcast_ref()?;
            Some(Box::new(Copied(message.clone())))
        };
        self.copiers.insert(TypeId::of::<M>(), copy);
        self
    }

    /// Time limit of one attempt; by default all the time that the caller has.
    pub fn attempt_limit(mut self, limit: Duration) -> Self {
        self.attempt_limit = limit;
        self
    }

    /// Filter of errors that are worth another attempt. By default all but cycles, refusals by
    /// outgoing interceptors, and actors that ended before they took the message.
    pub fn when(
        mut self,
        condition: impl Fn(&AskError<()>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.condition = Box::new(condition);
        self
    }
}

/// Whether an error may be gone by the next attempt.
fn is_passing(error: &AskError<()>) -> bool {
    match error {
        AskError::Refused(TellError { kind, .. }) => {
            matches!(kind, SubmitErrorKind::Full | SubmitErrorKind::GroupMemory)
        }
        AskError::TimedOut(_) | AskError::Unanswered(_) => true,
        _ => false,
    }
}

/// A call that may be made again.
pub struct Retried {
    message: Box<dyn Repeat>,
    pauses: Delays,
    left: u32,
}

debug_fields!(impl Retried, self => left: self.left);

impl Interceptor for Retry {
    type State = Option<Retried>;

    fn begin(&self, call: &mut Call<'_>) -> Result<Option<Retried>, Failure> {
        if call.direction() != Direction::Outgoing || !call.is_ask() {
            return Ok(None);
        }
        let message = call.any_message();
        let copy = self.copiers.get(&message.type_id());
        let Some(message) = copy.and_then(|copy| copy(message)) else {
            return Ok(None);
        };
        call.shorten(self.attempt_limit);
        let pauses = self.backoff.delays(call.now_ns());
        Ok(Some(Retried { message, pauses, left: self.attempts - 1 }))
    }

    fn end(&self, state: &mut Option<Retried>, info: &MessageInfo, outcome: &mut Outcome<'_>) {
        let (Some(retried), Some(error)) = (state, outcome.error()) else { return };
        if retried.left == 0 || !(self.condition)(error) {
            return;
        }
        retried.left -= 1;
        let pause = retried.pauses.next().unwrap_or_default();
        let (actor, message, why) = (info.actor(), info.message_type(), error.to_string());
        if retried.message.repeat(outcome, pause) {
            tracing::debug!(actor, message, why, ?pause, "a call is made again");
        }
    }
}
