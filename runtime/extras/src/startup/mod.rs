//! Ordered start and end of the parts of a service: step by step up, and back down in reverse.
//!
//! A layer on the public API of the task. Invariant: a step is shut down exactly if its start was
//! called, after all steps that began later; and every future ends.

mod process;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use turnwheel_runtime::Failure;

pub use process::StartupProcess;

/// Result of a step: a future of the context for the next step. A [`Completion`] is one.
///
/// [`Completion`]: turnwheel_runtime::Completion
pub type StepFuture<C> = Pin<Box<dyn Future<Output = Result<C, Failure>> + Send>>;

/// One step of a [`StartupProcess`].
///
/// Both functions are called in a turn of the task on which the process runs, and their futures are
/// polled there, interleaved with its other jobs. Blocking work belongs in
/// [`Group::run_blocking`](turnwheel_runtime::Group::run_blocking), which returns such a future.
pub trait StartupStep<C>: Send + 'static {
    /// Names the step in errors and logs.
    fn name(&self) -> &str;

    /// Starts the part of this step.
    ///
    /// # Panics
    ///
    /// A panic, here or in the future, is a failure of the step.
    fn startup(&mut self, context: C) -> StepFuture<C>;

    /// Ends the part. Also called if its start has failed, to clean up.
    ///
    /// # Panics
    ///
    /// As for [`StartupStep::startup`].
    fn shutdown(&mut self, context: C) -> StepFuture<C>;
}

/// A step made of two closures; see [`step`].
struct Closures<C> {
    name: String,
    startup: Act<C>,
    shutdown: Act<C>,
}

type Act<C> = Box<dyn FnMut(C) -> StepFuture<C> + Send>;

impl<C: 'static> StartupStep<C> for Closures<C> {
    fn name(&self) -> &str {
        &self.name
    }

    fn startup(&mut self, context: C) -> StepFuture<C> {
        (self.startup)(context)
    }

    fn shutdown(&mut self, context: C) -> StepFuture<C> {
        (self.shutdown)(context)
    }
}

/// A step made of two closures that return futures.
///
/// # Example
///
/// ```
/// use turnwheel_extras::startup::{step, StartupProcess};
/// use turnwheel_runtime::Group;
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let service = group.spawn(())?;
/// let process = StartupProcess::new()
///     .then(step("disk", |log: String| async move { Ok(log + "disk ") }, |log| async { Ok(log) }))
///     .then(step("net", |log: String| async move { Ok(log + "net") }, |log| async { Ok(log) }));
/// let up = process.clone();
/// let started = service.call(move |(), cx| up.startup(cx, String::new()));
/// assert_eq!(started.wait()?.wait()?, "disk net");
/// let ended = service.call(move |(), cx| process.shutdown(cx, String::from("bye")));
/// assert_eq!(ended.wait()?.wait()?, "bye");
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn step<C, Up, UpFuture, Down, DownFuture>(
    name: &str,
    mut startup: Up,
    mut shutdown: Down,
) -> impl StartupStep<C>
where
    C: 'static,
    Up: FnMut(C) -> UpFuture + Send + 'static,
    UpFuture: Future<Output = Result<C, Failure>> + Send + 'static,
    Down: FnMut(C) -> DownFuture + Send + 'static,
    DownFuture: Future<Output = Result<C, Failure>> + Send + 'static,
{
    Closures {
        name: name.to_owned(),
        startup: Box::new(move |context| Box::pin(startup(context))),
        shutdown: Box::new(move |context| Box::pin(shutdown(context))),
    }
}

/// State of a [`StartupProcess`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartupState {
    /// Nothing was done yet.
    New,
    /// Steps are being started.
    Starting,
    /// All steps are started.
    Started,
    /// A step failed to start, or the task closed meanwhile; begun steps wait for the shutdown.
    Failed,
    /// Steps are being shut down.
    ShuttingDown,
    /// Every step that was begun has been shut down.
    Down,
}

/// A step that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepFailure {
    /// Name of the step.
    pub step: Arc<str>,
    /// Why.
    pub failure: Failure,
}

impl fmt::Display for StepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step «{}»: {}", self.step, self.failure)
    }
}

/// Why the start or the end of a process failed; inside a [`Failure::Error`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartupError {
    /// A step failed to start; later ones were not touched.
    #[error("the startup failed: {}", listed(failed, rollback))]
    Startup {
        /// The step and why.
        failed: StepFailure,
        /// Steps that failed during the rollback.
        rollback: Vec<StepFailure>,
    },
    /// Steps failed to shut down; all others were shut down all the same.
    #[error("the shutdown failed: {}", listed_all(failed))]
    Shutdown {
        /// The steps and why, in the order in which they were shut down.
        failed: Vec<StepFailure>,
    },
    /// A shutdown was requested during the startup.
    #[error("the startup was ended by a shutdown after {begun} of its steps")]
    ShutDown {
        /// Steps that were begun; the rest was not touched.
        begun: usize,
    },
    /// A process starts only once.
    #[error("startup was already called")]
    AlreadyCalled,
}

fn listed(failed: &StepFailure, rollback: &[StepFailure]) -> String {
    if rollback.is_empty() {
        return failed.to_string();
    }
    format!("{failed}; rolling back: {}", listed_all(rollback))
}

fn listed_all(failed: &[StepFailure]) -> String {
    failed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
