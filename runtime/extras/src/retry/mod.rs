//! Retries of a task's operation: which failures are retried, how often, and when.
//!
//! A layer on the public API of the task. Invariant: every retry ends with an answer, even if the
//! operation panics or its task or group ends.

mod run;

use std::fmt;
use std::sync::Arc;

use turnwheel_runtime::{Backoff, Completion, Context, Failure};

use crate::limits::RETRY_ATTEMPTS_DEFAULT;

/// Outcome of an attempt that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<T> {
    /// It has succeeded.
    Done(T),
    /// Not yet: try again.
    NotYet,
}

/// Outcome of a retry. If an attempt fails with a failure that is not retried, the completion fails
/// with that failure instead.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Retried<T> {
    /// An attempt has succeeded.
    Succeeded(T),
    /// The abort condition held, the completion was dropped or cancelled, or the task closes.
    Aborted {
        /// Attempts made.
        attempts: u64,
        /// Why the last attempt failed; none if it was «not yet».
        last: Option<Failure>,
    },
    /// As many attempts as allowed were made.
    LimitReached {
        /// Attempts made: the limit.
        attempts: u64,
        /// Why the last attempt failed; none if it was «not yet».
        last: Option<Failure>,
    },
}

/// Why a retry has no value.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError {
    /// See [`Retried::Aborted`].
    #[error("given up after {attempts} attempts{}", because(.last))]
    Aborted {
        /// Attempts made.
        attempts: u64,
        /// Why the last attempt failed.
        last: Option<Failure>,
    },
    /// See [`Retried::LimitReached`].
    #[error("not done after {attempts} attempts, which is the limit{}", because(.last))]
    LimitReached {
        /// Attempts made.
        attempts: u64,
        /// Why the last attempt failed.
        last: Option<Failure>,
    },
}

fn because(last: &Option<Failure>) -> String {
    match last {
        Some(failure) => format!("; the last one failed: {failure}"),
        None => String::new(),
    }
}

impl<T> Retried<T> {
    /// Returns the value, or the reason why there is none.
    ///
    /// # Errors
    ///
    /// The retry was aborted or has reached its limit.
    pub fn into_result(self) -> Result<T, RetryError> {
        match self {
            Self::Succeeded(value) => Ok(value),
            Self::Aborted { attempts, last } => Err(RetryError::Aborted { attempts, last }),
            Self::LimitReached { attempts, last } => {
                Err(RetryError::LimitReached { attempts, last })
            }
        }
    }

    /// The value, if an attempt has succeeded.
    pub fn value(self) -> Option<T> {
        self.into_result().ok()
    }

    /// Whether the retry was aborted.
    pub fn is_aborted(&self) -> bool {
        matches!(self, Self::Aborted { .. })
    }
}

/// Strategy of a retry. Cheap to clone, and one strategy serves any number of operations at once.
///
/// Without a back-off the retry stays the current job of its task: other tasks get their turns
/// between two attempts, other jobs of the same task do not. With a [`Backoff`] the task runs other
/// jobs while it waits.
///
/// «Not yet» is always retried; failures are retried by the strategy's filter; a panic never is.
/// Three checks follow each attempt without success: the abort condition, the end of the task (a
/// close request aborts a retry that began before it), and whether the caller still waits for the
/// answer.
///
/// # Example
///
/// ```
/// use turnwheel_extras::{Attempt, Retry};
/// use turnwheel_runtime::Group;
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let task = group.spawn(0_u32)?;
/// let third = task.call(|_, cx| {
///     Retry::limited(5).run(cx, |tries: &mut u32, _| {
///         *tries += 1;
///         Ok(if *tries == 3 { Attempt::Done("third") } else { Attempt::NotYet })
///     })
/// });
/// assert_eq!(third.wait()?.wait()?.into_result()?, "third");
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[doc(alias = "RetryStrategy")]
#[must_use]
pub struct Retry {
    attempts_max: u64,
    recoverable: Recoverable,
    aborts: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    backoff: Option<Backoff>,
}

/// Failures that are retried.
#[derive(Clone)]
enum Recoverable {
    All,
    None,
    If(Arc<dyn Fn(&Failure) -> bool + Send + Sync>),
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts_max", &self.attempts_max)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}

impl Retry {
    /// Without a limit: «not yet» and every failure are retried until success, abort, or the end of
    /// the task.
    #[doc(alias = "EndlessRetryStrategy")]
    pub fn endless() -> Self {
        Self::limited(u64::MAX)
    }

    /// At most so many attempts, at least one; every failure is retried.
    pub fn limited(attempts: u64) -> Self {
        Self {
            attempts_max: attempts.max(1),
            recoverable: Recoverable::All,
            aborts: None,
            backoff: None,
        }
    }

    /// Retries failures of which the predicate says so, any other ends the retry at once. At most
    /// [`RETRY_ATTEMPTS_DEFAULT`] attempts.
    #[doc(alias = "RecoverableRetryStrategy")]
    pub fn recoverable(is_recoverable: impl Fn(&Failure) -> bool + Send + Sync + 'static) -> Self {
        let recoverable = Recoverable::If(Arc::new(is_recoverable));
        Self { recoverable, ..Self::limited(RETRY_ATTEMPTS_DEFAULT) }
    }

    /// Retries «not yet» until the condition holds; the first failure ends it. At most
    /// [`RETRY_ATTEMPTS_DEFAULT`] attempts.
    #[doc(alias = "AbortableRetryStrategy")]
    pub fn abortable(condition: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let recoverable = Recoverable::None;
        Self { recoverable, ..Self::limited(RETRY_ATTEMPTS_DEFAULT) }.abort_when(condition)
    }

    /// Waits between attempts, longer and longer; every failure is retried. At most
    /// [`RETRY_ATTEMPTS_DEFAULT`] attempts.
    #[doc(alias = "BackOffRetryStrategy")]
    pub fn with_backoff(backoff: Backoff) -> Self {
        Self::limited(RETRY_ATTEMPTS_DEFAULT).backoff(backoff)
    }

    /// Another limit of attempts; at least one.
    pub fn attempts(mut self, attempts: u64) -> Self {
        self.attempts_max = attempts.max(1);
        self
    }

    /// Aborts when the condition holds after an attempt that did not succeed. Further calls add
    /// conditions; they are checked until one holds.
    pub fn abort_when(mut self, condition: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.aborts = Some(match self.aborts {
            Some(before) => Arc::new(move || before() || condition()),
            None => Arc::new(condition),
        });
        self
    }

    /// Waits between attempts.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Starts the operation on the task of `cx`; its first attempt is the next job of the task.
    ///
    /// The completion fails with a failure that is not retried, and with [`Failure::Panicked`] if
    /// an attempt panics. Dropping or cancelling it aborts the retry; detach it to let the retry go
    /// on unwatched.
    ///
    /// Cost: two heap allocations; with a back-off five more for each wait.
    pub fn run<S, T, F>(&self, cx: &mut Context<'_, S>, operation: F) -> Completion<Retried<T>>
    where
        S: Send + 'static,
        T: Send + 'static,
        F: FnMut(&mut S, &mut Context<'_, S>) -> Result<Attempt<T>, Failure> + Send + 'static,
    {
        run::start(self.clone(), cx, operation)
    }

    fn is_recoverable(&self, failure: &Failure) -> bool {
        match &self.recoverable {
            Recoverable::All => true,
            Recoverable::None => false,
            Recoverable::If(predicate) => predicate(failure),
        }
    }
}
