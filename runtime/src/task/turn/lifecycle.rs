//! Phases of a task and the hooks that a user may attach to them.

use crate::failure::Failure;
use crate::task::Context;

/// Phase of a task's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Phase {
    /// Being made; no thread but its maker's knows it.
    New = 0,
    /// The starting hook runs, or something it registered is awaited. Submissions are kept.
    Starting = 1,
    /// Jobs run.
    Started = 2,
    /// Everything submitted earlier has run; submissions are answered `Closed`.
    CloseRequested = 3,
    /// The closing hook runs, or something it registered is awaited.
    Closing = 4,
    /// Over, in order. The state is dropped.
    Closed = 5,
    /// Over, by a failure. The state is dropped.
    Failed = 6,
}

impl Phase {
    pub(crate) fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::New,
            1 => Self::Starting,
            2 => Self::Started,
            3 => Self::CloseRequested,
            4 => Self::Closing,
            5 => Self::Closed,
            _ => Self::Failed,
        }
    }

    /// Whether the task is over.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Closed | Self::Failed)
    }
}

/// Decision about a task after a failed job in phase Started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// Go on with the next job.
    Resume,
    /// Close the task in order; queued jobs are answered `Closed`.
    Stop,
    /// Fail the task, and tell the group's escalation hook.
    Escalate,
}

/// Hooks of a task, all optional. They run in its turns, so they may use state and context freely.
///
/// An error or panic in a hook fails the task, except in `on_failure` and `failed`, which are
/// contained: a panicking `on_failure` counts as [`OnFailure::Escalate`], a panicking `failed` is
/// reported and the clean-up goes on.
pub trait Lifecycle<S>: Send + 'static {
    /// The first thing that runs. The phase lasts until everything registered here is done.
    ///
    /// # Errors
    ///
    /// A failure ends the task: `started` and `closed` complete with it.
    fn starting(&mut self, _state: &mut S, _cx: &mut Context<'_, S>) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs before any job submitted from outside. `started` is complete already.
    ///
    /// # Errors
    ///
    /// A failure goes to `on_failure`.
    fn started(&mut self, _state: &mut S, _cx: &mut Context<'_, S>) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs when everything submitted before the close request has run.
    ///
    /// # Errors
    ///
    /// A failure ends the task as failed.
    fn close_requested(&mut self, _state: &mut S, _cx: &mut Context<'_, S>) -> Result<(), Failure> {
        Ok(())
    }

    /// The place for asynchronous tear-down: the phase lasts until the futures registered here are
    /// done.
    ///
    /// # Errors
    ///
    /// A failure ends the task as failed.
    fn closing(&mut self, _state: &mut S, _cx: &mut Context<'_, S>) -> Result<(), Failure> {
        Ok(())
    }

    /// The last hook of an orderly end.
    ///
    /// # Errors
    ///
    /// A failure makes the `closed` future fail with it; the task is over all the same.
    fn closed(&mut self, _state: &mut S, _cx: &mut Context<'_, S>) -> Result<(), Failure> {
        Ok(())
    }

    /// Clean-up of a task that failed for any reason. Runs once.
    fn failed(&mut self, _state: &mut S, _cx: &mut Context<'_, S>, _failure: &Failure) {}

    /// Called after every failed job and hook. The answer counts in phase Started; in other phases
    /// a failure ends the task.
    fn on_failure(
        &mut self,
        _state: &mut S,
        _cx: &mut Context<'_, S>,
        _failure: &Failure,
    ) -> OnFailure {
        OnFailure::Resume
    }

    /// Runs after [`Task::interrupt`](crate::task::Task::interrupt), between two jobs, in any phase
    /// but the last ones, and also while the task waits for a future that holds it. With
    /// [`Context::cancel_subscriptions`] it can end that wait.
    ///
    /// # Errors
    ///
    /// A failure goes to `on_failure`.
    fn interrupted(&mut self, _state: &mut S, _cx: &mut Context<'_, S>) -> Result<(), Failure> {
        Ok(())
    }
}

/// One call of a hook.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hook<'a> {
    Starting,
    Started,
    CloseRequested,
    Closing,
    Closed,
    Failed(&'a Failure),
    OnFailure(&'a Failure),
    Interrupted,
}

/// Storage of the hooks in a task cell.
pub(crate) trait Hooks<S>: Send + 'static {
    /// The hooks, if there are any.
    fn look(&mut self) -> Option<&mut dyn Lifecycle<S>>;
}

impl<S: 'static> Hooks<S> for Option<Box<dyn Lifecycle<S>>> {
    fn look(&mut self) -> Option<&mut dyn Lifecycle<S>> {
        match self {
            Some(hooks) => Some(&mut **hooks),
            None => None,
        }
    }
}

/// No hooks.
impl<S> Hooks<S> for () {
    fn look(&mut self) -> Option<&mut dyn Lifecycle<S>> {
        None
    }
}

/// Hooks of a known type.
#[derive(Debug, Default)]
pub(crate) struct Fixed<H>(H);

impl<S, H: Lifecycle<S>> Hooks<S> for Fixed<H> {
    fn look(&mut self) -> Option<&mut dyn Lifecycle<S>> {
        Some(&mut self.0)
    }
}

/// Progress of a task's life besides its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// The starting hook was not called yet.
    Unbegun = 0,
    /// It lives.
    Living = 1,
    /// Over, apart from producers that are still under way.
    Ending = 2,
}
