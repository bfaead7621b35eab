//! The failure type: why something ended without a value.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// What helps when a future needs tokio's sockets or timers, and finds none.
const TOKIO_HINT: &str = "give the group one by `Group::builder(..).tokio(handle)`, which \
                          turnwheel-runtime has with its feature `tokio`";

/// Why a job, a task or a completion ended without a value. Cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// An error returned by user code.
    #[error(transparent)]
    Error(Arc<dyn Error + Send + Sync + 'static>),
    /// User code panicked; the text of the panic.
    #[error("panicked: {0}")]
    Panicked(Arc<str>),
    /// The task is closed.
    #[error("the task is closed")]
    Closed,
    /// Cancelled before it completed.
    #[error("cancelled")]
    Cancelled,
    /// The task was killed.
    #[error("the task was killed")]
    Killed,
    /// Not done within this time.
    #[error("not done within {0:?}")]
    TimedOut(Duration),
    /// Every completer was dropped without an answer.
    #[error("no answer will come: the side that was to give it has ended")]
    Abandoned,
    /// A blocking wait was requested on a worker thread, where waiting is refused.
    #[error("a blocking wait is refused on a worker thread: use `on_completion` or an async wait")]
    WouldBlock,
    /// Refused; the text names the operation and the reason.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// Several failures, in the order of their sources.
    #[error("{} failures:{}", .0.len(), listed(.0))]
    Many(Arc<[Failure]>),
}

impl Failure {
    /// Of an error.
    pub fn error(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Error(Arc::new(error))
    }

    /// Of a text.
    pub fn message(text: impl Into<String>) -> Self {
        let error: Box<dyn Error + Send + Sync> = text.into().into();
        Self::Error(error.into())
    }

    /// Ends the running job with this failure: its policy hook and its caller get exactly this
    /// value. Unlike a panic it prints nothing. Like a panic it unwinds, so outside of jobs and
    /// hooks it unwinds to the nearest `catch_unwind`.
    ///
    /// Cost: one unwinding, some microseconds. A hook can return its failure instead.
    ///
    /// # Panics
    ///
    /// Always: it ends the job by unwinding.
    ///
    /// ```
    /// use turnwheel_runtime::{Failure, Group};
    /// # #[derive(Debug)]
    /// # struct Overdrawn(i64);
    /// # impl std::fmt::Display for Overdrawn {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    /// #         write!(f, "{}", self.0)
    /// #     }
    /// # }
    /// # impl std::error::Error for Overdrawn {}
    /// # let group = Group::builder("doc").workers(1).build()?;
    /// let account = group.spawn(20_i64)?;
    /// let withdrawn = account.call(|balance, _| match *balance - 50 {
    ///     left if left < 0 => Failure::error(Overdrawn(left)).raise(),
    ///     left => *balance = left,
    /// });
    /// let failure = withdrawn.wait().expect_err("there is too little");
    /// assert_eq!(failure.downcast_ref::<Overdrawn>().map(|by| by.0), Some(-30));
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn raise(self) -> ! {
        // Not `panic!`: the panic hook has nothing to report, the policy hook has.
        std::panic::resume_unwind(Box::new(self))
    }

    /// Of a caught panic: the failure itself if it was raised with [`Failure::raise`]. The payload
    /// is dropped, contained.
    pub fn from_panic(panic: Box<dyn Any + Send>) -> Self {
        if cfg!(turnwheel_loom) {
            // The model checker's, which is no failure of a job.
            std::panic::resume_unwind(panic);
        }
        let failure = Self::from_panic_ref(panic.as_ref());
        discard(panic);
        failure
    }

    /// Of a panic that goes on.
    pub fn from_panic_ref(panic: &(dyn Any + Send)) -> Self {
        if let Some(raised) = panic.downcast_ref::<Self>() {
            return raised.clone();
        }
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("a payload that is no text");
        if text.starts_with("there is no reactor running") {
            return Self::Panicked(format!("{text}; {TOKIO_HINT}").into());
        }
        Self::Panicked(text.into())
    }

    /// Whether it says that a task takes no more work.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Whether it is a time-out.
    pub fn is_timed_out(&self) -> bool {
        matches!(self, Self::TimedOut(_))
    }

    /// Whether both are the same occurrence: the very same error object, or equal otherwise.
    pub fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Error(one), Self::Error(two)) => Arc::ptr_eq(one, two),
            (Self::Panicked(one), Self::Panicked(two)) => Arc::ptr_eq(one, two),
            (Self::Many(one), Self::Many(two)) => Arc::ptr_eq(one, two),
            (Self::TimedOut(one), Self::TimedOut(two)) => one == two,
            (Self::Refused(one), Self::Refused(two)) => one == two,
            (one, two) => std::mem::discriminant(one) == std::mem::discriminant(two),
        }
    }

    /// The user's error, if it is one of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Error(error) => error.downcast_ref(),
            _ => None,
        }
    }
}

fn listed(failures: &[Failure]) -> String {
    failures.iter().map(|failure| format!(" [{failure}]")).collect()
}

/// Runs user code whose outcome is not needed: a panic is logged and ends nothing else.
pub fn contain(what: &'static str, run: impl FnOnce()) {
    let run = std::panic::AssertUnwindSafe(run);
    if let Err(panic) = std::panic::catch_unwind(run) {
        let failure = Failure::from_panic(panic);
        log(move || tracing::error!(%failure, what, "user code panicked"));
    }
}

/// Writes to the log and contains panics: log subscriber, error texts and their destructors are
/// user code.
pub(crate) fn log(write: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)) {
        discard(panic);
    }
}

/// Drops the payload of a caught panic, contained: its destructor may panic too.
fn discard(panic: Box<dyn Any + Send>) {
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(panic)));
    // The second payload is a text in nearly all cases. Any other payload could panic again in its
    // destructor, so it is leaked.
    if let Err(second) = dropped {
        if !second.is::<&'static str>() && !second.is::<String>() {
            std::mem::forget(second);
        }
    }
}
