//! Errors, and their remedies.

mod state_name;
mod text;
mod unanswered;

use std::any::Any;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use self::text::cut;
pub use self::text::TextTooLong;
pub(crate) use self::unanswered::not_taken;
pub use self::unanswered::unanswered;
use crate::connect::ConnectError;
use crate::id::{ActionId, PlanId, StepId};
use crate::limits::{ERROR_BYTES_MAX, PAYLOAD_BYTES_MAX, REASON_BYTES_MAX};

/// The kind of the error of a step or a planning whose action a world does not know.
pub(crate) const UNKNOWN_ACTION: &str = "unknown_action";

/// An input, output or event that cannot be written or understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The value cannot be expressed as JSON.
    #[error("cannot be written as JSON: {0}")]
    NotSerializable(#[source] serde_json::Error),
    /// It has a float that is not finite: JSON has none, and would say `null`.
    #[error(
        "has a float that is NaN or infinite, which JSON cannot express: use an option or a text"
    )]
    NotFinite,
    /// The text is not what was expected.
    #[error("cannot be understood: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The text is too long.
    #[error(
        "has {bytes} bytes as JSON and {PAYLOAD_BYTES_MAX} are the limit: keep large data in a \
         file or object store and pass its name"
    )]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
}

impl PayloadError {
    /// The error of a step: says what kind of value it is about, and of which action.
    pub(crate) fn of(self, value: &str, action: &str) -> ActionError {
        let mut error = ActionError::from(self);
        error.message = format!("{value} of «{action}» {}", error.message);
        error
    }
}

/// Failure of an action, as it is stored with its step.
///
/// Any error becomes one by `?`. It also says whether a retry makes sense.
///
/// Because of that conversion it cannot be a [`std::error::Error`] itself, like `anyhow::Error`:
/// Rust allows only one of both. By `?` it becomes a boxed error;
/// [`into_error`](ActionError::into_error) makes an error type of it, which `?` turns back
/// unchanged.
///
/// ```
/// use std::error::Error;
/// use turnwheel_engine::ActionError;
///
/// fn action() -> Result<(), ActionError> {
///     Err(ActionError::new("card", "the card is refused").and_final())
/// }
///
/// fn program() -> Result<(), Box<dyn Error + Send + Sync>> {
///     action()?; // As most mains do.
///     Ok(())
/// }
///
/// fn other_action() -> Result<(), ActionError> {
///     // For code that needs an error type: anyhow, eyre, the source of an error of your own.
///     let failure = action().map_err(ActionError::into_error);
///     Ok(failure?)
/// }
///
/// assert_eq!(program().unwrap_err().to_string(), "the card is refused (card)");
/// let back = other_action().unwrap_err();
/// assert_eq!((back.kind.as_str(), back.is_final), ("card", true));
///
/// // A boxed error, or an `anyhow::Error`:
/// let boxed: Box<dyn Error> = "no paper".into();
/// assert_eq!(ActionError::of("printer", &*boxed).message, "no paper");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionError {
    /// The type of the error, or a code of the action's own.
    pub kind: String,
    /// The message, with its causes.
    pub message: String,
    /// Whether trying again cannot help.
    pub is_final: bool,
}

impl ActionError {
    /// An error with a code and a message.
    pub fn new(kind: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { kind: kind.into(), message: message.to_string(), is_final: false }
    }

    /// An error with a code, of another one with its causes: for errors whose type is not known, such as a
    /// `Box<dyn Error>`, which `?` does not take.
    pub fn of(kind: impl Into<String>, error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Self { kind: kind.into(), message, is_final: false }
    }

    /// The same, but no retry policy tries again.
    #[must_use]
    pub fn and_final(mut self) -> Self {
        self.is_final = true;
        self
    }

    /// The same within the limits of what is stored.
    pub(crate) fn within_limits(mut self) -> Self {
        self.kind = cut(self.kind, REASON_BYTES_MAX);
        self.message = cut(self.message, ERROR_BYTES_MAX);
        self
    }

    /// The same as a [`std::error::Error`].
    #[must_use]
    pub fn into_error(self) -> ActionFailure {
        ActionFailure(self)
    }
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.kind)
    }
}

impl<E: std::error::Error + 'static> From<E> for ActionError {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<ActionFailure>() {
            Some(ActionFailure(own)) => own.clone(),
            None => Self::of(std::any::type_name::<E>(), &error),
        }
    }
}

impl From<ActionError> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: ActionError) -> Self {
        Box::new(error.into_error())
    }
}

impl From<ActionError> for Box<dyn std::error::Error> {
    fn from(error: ActionError) -> Self {
        Box::new(error.into_error())
    }
}

/// An [`ActionError`] where a [`std::error::Error`] is needed: [`ActionError::into_error`]. It has no
/// source: the causes are part of the message, as they are stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ActionFailure(pub ActionError);

/// The store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process or world has it open.
    #[error("the store {store} is in use by {holder}: stop that one, or use another store")]
    InUse {
        /// The store.
        store: String,
        /// Its holder.
        holder: String,
    },
    /// It was written by a newer version.
    #[error(
        "the store {store} has format {found} and this version knows {known}: use the version that \
         wrote it, or a newer one"
    )]
    TooNew {
        /// The store.
        store: String,
        /// The format found.
        found: u32,
        /// The newest format that is known.
        known: u32,
    },
    /// Its content cannot be read.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// Its content was encoded, and cannot be decoded. Nothing is lost.
    #[error(
        "what was encoded with the key «{key}» cannot be decoded: {problem}. Start the world with a \
         codec that knows the key"
    )]
    Undecodable {
        /// The id of the key.
        key: String,
        /// Why.
        problem: String,
    },
    /// There is no room; nothing of the write was kept.
    #[error("the store is full: {0}")]
    Full(String),
    /// It failed for another reason.
    #[error("the store failed: {0}")]
    Failed(String),
    /// Another owner has taken over.
    #[error("epoch {epoch} is over: epoch {newest} owns the store now")]
    Fenced {
        /// The writer's epoch.
        epoch: u64,
        /// The newest one.
        newest: u64,
    },
}

impl StoreError {
    /// Whether the store has answered, and what is stored cannot be understood: the same read gives
    /// the same error for as long as this version and its codec read it, and other reads succeed.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::TooNew { .. } | Self::Undecodable { .. })
    }
}

/// A world could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two actions have the same name.
    #[error("two actions are called «{0}»: names must differ, they are stored with each plan")]
    DuplicateAction(String),
    /// One process at a time uses the store.
    #[error("{0} is for one process at a time: nodes need a store that several processes share")]
    OneProcess(String),
    /// Another node that is alive has the name.
    #[error(
        "the name «{name}» is that of a node that is alive: world {world}, process {process} on \
         {host}; give another name, or stop that one first"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The world that has it.
        world: u64,
        /// The machine of that world.
        host: String,
        /// The process of that world.
        process: u32,
    },
    /// The lease of a node is too short.
    #[error("a lease of {lease:?} is too short: heartbeats need at least {least:?}")]
    LeaseTooShort {
        /// The lease.
        lease: std::time::Duration,
        /// The least one.
        least: std::time::Duration,
    },
    /// An action extends another one twice.
    #[error("«{plugin}» extends «{base}» twice: it would be planned twice, say it once")]
    ExtendedTwice {
        /// The action that extends.
        plugin: &'static str,
        /// The action that is extended.
        base: &'static str,
    },
    /// The rules of middleware contradict one another.
    #[error(
        "the middleware of «{action}» has no order: the rules of {names} contradict one another, take \
         one of them away"
    )]
    MiddlewareCircle {
        /// The action.
        action: String,
        /// The middleware.
        names: String,
    },
    /// Actions extend one another, so that planning one would never end.
    #[error("actions extend one another in a circle: {0}; take one of these extensions away")]
    ExtensionCircle(String),
    /// Two queues have the same name.
    #[error("two queues are called «{0}»: describe each queue once")]
    DuplicateQueue(String),
    /// A queue cannot be as it is described.
    #[error("the queue «{name}» cannot be: {problem}")]
    Queue {
        /// The queue.
        name: String,
        /// The problem.
        problem: String,
    },
    /// A name, or what the world says of itself, is too long.
    #[error(transparent)]
    TooLong(#[from] TextTooLong),
    /// A world that joins a store cannot have a codec of its own.
    #[error(
        "a world that joins a store has the codec of that store: open the store as a CodedStore"
    )]
    Codec,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The world has ended before the store has taken the newest entries of these plans.
    #[error(
        "{} not written: {problem}; what was answered is in the store, and the next start decides the \
         rest anew",
        self::unanswered::of_plans(.plans)
    )]
    NotWritten {
        /// The plans, as far as they are known.
        plans: Vec<PlanId>,
        /// Why.
        problem: String,
    },
    /// The world has ended before the store has taken all dead letters.
    #[error("{letters} dead letters are lost: the store did not take them before the end")]
    LettersLost {
        /// Their number.
        letters: usize,
    },
    /// A group of threads could not be made.
    #[error("no threads: {0}")]
    Threads(String),
}

/// A plan was not triggered.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TriggerError {
    /// The action is not registered with this world.
    #[error("no action «{0}» is registered: add it to the world's builder")]
    UnknownAction(String),
    /// The input cannot be stored.
    #[error("the input of «{action}» {problem}")]
    Input {
        /// The action.
        action: String,
        /// The problem.
        problem: String,
    },
    /// A label cannot be stored.
    #[error("{0}")]
    Label(String),
    /// The idempotency key is too long.
    #[error("{0}")]
    Key(TextTooLong),
    /// The idempotency key has begun another plan: one with another action or input.
    #[error(
        "the key «{key}» has begun plan {plan} with {differs}: repeat the request as it was, or take \
         a new key for a new plan"
    )]
    KeyReused {
        /// The key.
        key: String,
        /// The plan that has it.
        plan: PlanId,
        /// The difference: another action, or another input and where. No value is repeated.
        differs: String,
    },
    /// Planning failed; the plan is stored with its error.
    #[error("planning of plan {plan} failed: {error}")]
    Planning {
        /// The plan.
        plan: PlanId,
        /// The error of the root action.
        error: ActionError,
    },
    /// A middleware around the delay has failed, did not pass, or has made an input that the action does
    /// not understand; there is no plan.
    #[error("the plan of «{action}» was not delayed: {error}")]
    Delay {
        /// The root action.
        action: String,
        /// The error.
        error: ActionError,
    },
    /// A plan with this id exists.
    #[error("a plan {0} exists already")]
    Exists(PlanId),
    /// It could not be made durable; nothing runs.
    #[error("the plan was not stored: {0}")]
    Store(#[from] StoreError),
    /// The world is going down, or a queue is full.
    #[error("the plan was not taken: {0}")]
    Refused(String),
    /// No world runs it, or the one that would did not answer.
    #[error("the plan was not taken: {0}")]
    Connect(#[source] ConnectError),
}

/// Name of a state. (An alias, so that it is stored by name and not borrowed.)
type StateName = &'static str;

/// A request about a plan was refused, and nothing was changed.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no such plan.
    #[error("there is no plan {0}")]
    Unknown(PlanId),
    /// The plan is not in a state for it.
    #[error("plan {plan} is {state}: {problem}")]
    State {
        /// The plan.
        plan: PlanId,
        /// Its state.
        #[serde(with = "state_name")]
        state: StateName,
        /// Why that does not fit.
        problem: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The id of an event is too long.
    #[error("plan {plan}: {problem}")]
    EventId {
        /// The plan.
        plan: PlanId,
        /// Its length and the limit.
        problem: TextTooLong,
    },
    /// It did not answer in time.
    #[error("plan {plan} did not answer within {limit:?}")]
    TimedOut {
        /// The plan.
        plan: PlanId,
        /// The limit.
        limit: Duration,
    },
    /// The plan does not hold what was looked for.
    #[error("plan {plan}, action «{action}»: {problem}")]
    Content {
        /// The plan.
        plan: PlanId,
        /// The action.
        action: String,
        /// The missing or invalid part.
        problem: String,
    },
    /// The request could not be taken, or nothing can be done about the plan now.
    #[error("plan {plan}: {problem}")]
    Refused {
        /// The plan.
        plan: PlanId,
        /// Why.
        problem: String,
    },
    /// An edited input is none of its action: its step would fail.
    #[error(
        "plan {plan}, the new input for action {action} «{name}»{}: {problem}",
        of_step(.step)
    )]
    Input {
        /// The plan.
        plan: PlanId,
        /// The action.
        action: ActionId,
        /// Its name.
        name: String,
        /// The step that would be called with it, if there is one.
        step: Option<StepId>,
        /// The invalid part, and its place.
        problem: String,
    },
    /// The world that owns the plan did not answer.
    #[error("plan {plan}: {error}")]
    Connect {
        /// The plan.
        plan: PlanId,
        /// Why.
        #[source]
        error: ConnectError,
    },
}

fn of_step(step: &Option<StepId>) -> String {
    step.map_or_else(String::new, |step| format!(" of step {step}"))
}
