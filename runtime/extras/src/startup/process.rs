//! The process: the current step, and the waiters for start and end.

use std::fmt;
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll};

use parking_lot::Mutex;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Context, Failure};

use super::{StartupError, StartupState, StartupStep, StepFailure, StepFuture};

/// Steps that are started in order and shut down in reverse. Clones are the same process.
///
/// `C` is the context: each step gets the result of the previous one.
///
/// The process runs on the task whose context is given, in phase Starting, Started or Closing. In
/// Starting and Closing it holds the phase. If the task closes while a step is under way that was
/// begun in Started, the step's future is dropped and the process has failed; the closing hook can
/// shut it down. A startup or shutdown called after the close request, but before Closing, answers
/// [`Failure::Closed`].
///
/// Example: [`step`](super::step).
pub struct StartupProcess<C> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    inner: Mutex<Inner<C>>,
}

struct Inner<C> {
    /// A step is out while one of its functions is called.
    steps: Vec<Option<Box<dyn StartupStep<C>>>>,
    names: Vec<Arc<str>>,
    state: StartupState,
    /// Number of steps whose start was called and that have not been shut down.
    begun: usize,
    rolls_back: bool,
    /// The waiter for the start.
    starting: Option<Completer<C>>,
    /// The waiters for the end.
    ending: Vec<Completer<C>>,
    /// A shutdown that waits for the step under way.
    wanted: Option<C>,
    /// The step that failed to start, and the last context before it: for the rollback.
    failed: Option<StepFailure>,
    /// Steps that failed to shut down.
    failed_down: Vec<StepFailure>,
}

/// Direction of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl<C> Clone for StartupProcess<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C> fmt::Debug for StartupProcess<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.shared.inner.lock();
        f.debug_struct("StartupProcess")
            .field("state", &inner.state)
            .field("steps", &inner.names)
            .finish_non_exhaustive()
    }
}

impl<C: Clone + Send + 'static> Default for StartupProcess<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clone + Send + 'static> StartupProcess<C> {
    /// A process without steps.
    #[must_use]
    pub fn new() -> Self {
        let inner = Inner {
            steps: Vec::new(),
            names: Vec::new(),
            state: StartupState::New,
            begun: 0,
            rolls_back: false,
            starting: None,
            ending: Vec::new(),
            wanted: None,
            failed: None,
            failed_down: Vec::new(),
        };
        Self { shared: Arc::new(Shared { inner: Mutex::new(inner) }) }
    }

    /// Adds a step behind the others.
    ///
    /// # Panics
    ///
    /// If the process was begun.
    #[must_use]
    pub fn then(self, step: impl StartupStep<C>) -> Self {
        let mut inner = self.shared.inner.lock();
        assert!(inner.state == StartupState::New, "steps are added before the start");
        inner.names.push(step.name().into());
        inner.steps.push(Some(Box::new(step)));
        drop(inner);
        self
    }

    /// When a step fails to start, shuts down the begun steps before the start's future fails. They
    /// get the same context as the failed step.
    #[must_use]
    pub fn rolling_back(self) -> Self {
        self.shared.inner.lock().rolls_back = true;
        self
    }

    /// Returns the state of the process, from any thread.
    #[must_use]
    pub fn state(&self) -> StartupState {
        self.shared.inner.lock().state
    }

    /// Starts the steps in order. The first failure ends it.
    ///
    /// The completion fails with a [`StartupError`]: a step failed, a shutdown came first, or the
    /// startup was already called. If the task closes, with [`Failure::Closed`].
    ///
    /// Cost: four heap allocations a step and those of the step.
    pub fn startup<S: Send + 'static>(&self, cx: &mut Context<'_, S>, context: C) -> Completion<C> {
        let (completer, answer) = completion();
        {
            let mut inner = self.shared.inner.lock();
            if inner.state != StartupState::New {
                return Completion::failed(Failure::error(StartupError::AlreadyCalled));
            }
            inner.state = StartupState::Starting;
            inner.starting = Some(completer);
        }
        self.shared.go_up(cx, context);
        answer
    }

    /// Shuts down every begun step, in reverse, also steps that failed to start; continues after a
    /// failure. Later calls wait for the same end. During the startup, this waits for the current
    /// step and skips the rest.
    ///
    /// The completion fails with a [`StartupError`] that lists the steps that failed. If the task
    /// closes, with [`Failure::Closed`]; the remaining steps can then be shut down by another call.
    pub fn shutdown<S: Send + 'static>(
        &self,
        cx: &mut Context<'_, S>,
        context: C,
    ) -> Completion<C> {
        let (completer, answer) = completion();
        {
            let mut inner = self.shared.inner.lock();
            match inner.state {
                StartupState::Down => {
                    let failed = inner.shutdown_error();
                    return failed.map_or_else(|| Completion::done(context), Completion::failed);
                }
                StartupState::Starting => {
                    inner.ending.push(completer);
                    inner.wanted.get_or_insert(context);
                    return answer;
                }
                StartupState::ShuttingDown => {
                    inner.ending.push(completer);
                    return answer;
                }
                StartupState::New | StartupState::Started | StartupState::Failed => {
                    inner.ending.push(completer);
                    inner.state = StartupState::ShuttingDown;
                }
            }
        }
        self.shared.go_down(cx, context);
        answer
    }
}

impl<C: Clone + Send + 'static> Shared<C> {
    /// Starts the next step, or ends the start.
    fn go_up<S: Send + 'static>(self: &Arc<Self>, cx: &mut Context<'_, S>, context: C) {
        let mut inner = self.inner.lock();
        let index = inner.begun;
        if index == inner.steps.len() && inner.wanted.is_none() {
            inner.state = StartupState::Started;
            let waiting = inner.starting.take();
            drop(inner);
            return answer(waiting, Ok(context));
        }
        if let Some(context) = inner.wanted.take() {
            inner.state = StartupState::ShuttingDown;
            let waiting = inner.starting.take();
            drop(inner);
            answer(waiting, Err(Failure::error(StartupError::ShutDown { begun: index })));
            return self.go_down(cx, context);
        }
        inner.begun += 1;
        drop(inner);
        self.step(cx, index, Way::Up, context);
    }

    /// Shuts down the last step that was begun, or ends the shutdown.
    fn go_down<S: Send + 'static>(self: &Arc<Self>, cx: &mut Context<'_, S>, context: C) {
        let mut inner = self.inner.lock();
        if inner.begun > 0 {
            let index = inner.begun - 1;
            drop(inner);
            return self.step(cx, index, Way::Down, context);
        }
        inner.state = StartupState::Down;
        let failed = inner.shutdown_error();
        let ending = std::mem::take(&mut inner.ending);
        let starting = inner.starting.take();
        let startup = inner.startup_error();
        drop(inner);
        // Still there after a rollback.
        answer(starting, Err(startup));
        for waiting in ending {
            let ended = failed.clone().map_or_else(|| Ok(context.clone()), Err);
            answer(Some(waiting), ended);
        }
    }

    /// Calls one function of a step and continues when its future ends.
    fn step<S: Send + 'static>(
        self: &Arc<Self>,
        cx: &mut Context<'_, S>,
        index: usize,
        way: Way,
        context: C,
    ) {
        let Some(mut step) = self.inner.lock().steps[index].take() else {
            unreachable!("one step is under way at a time");
        };
        tracing::debug!(step = step.name(), ?way, "a step begins");
        let given = context.clone();
        let call = AssertUnwindSafe(|| match way {
            Way::Up => step.startup(given),
            Way::Down => step.shutdown(given),
        });
        let future = catch_unwind(call).unwrap_or_else(|panic| {
            let failure = Failure::from_panic(panic);
            Box::pin(std::future::ready(Err(failure)))
        });
        self.inner.lock().steps[index] = Some(step);
        let under_way = UnderWay { shared: Some(Arc::clone(self)) };
        cx.await_interleaved(Contained(future), move |_, cx, result| {
            let Some(shared) = under_way.ended() else { return };
            match way {
                Way::Up => shared.has_gone_up(cx, index, context, result),
                Way::Down => shared.has_gone_down(cx, index, context, result),
            }
        });
    }

    fn has_gone_up<S: Send + 'static>(
        self: &Arc<Self>,
        cx: &mut Context<'_, S>,
        index: usize,
        context: C,
        result: Result<C, Failure>,
    ) {
        let failure = match result {
            Ok(context) => return self.go_up(cx, context),
            Err(failure) => failure,
        };
        let mut inner = self.inner.lock();
        let failed = StepFailure { step: Arc::clone(&inner.names[index]), failure };
        tracing::warn!(%failed, "the startup failed");
        inner.failed = Some(failed);
        let wanted = inner.wanted.take();
        let is_rollback = wanted.is_none() && inner.rolls_back;
        if is_rollback {
            inner.state = StartupState::ShuttingDown;
            drop(inner);
            return self.go_down(cx, context);
        }
        inner.state = StartupState::Failed;
        let waiting = inner.starting.take();
        let error = inner.startup_error();
        if wanted.is_some() {
            inner.state = StartupState::ShuttingDown;
        }
        drop(inner);
        answer(waiting, Err(error));
        if let Some(context) = wanted {
            self.go_down(cx, context);
        }
    }

    fn has_gone_down<S: Send + 'static>(
        self: &Arc<Self>,
        cx: &mut Context<'_, S>,
        index: usize,
        context: C,
        result: Result<C, Failure>,
    ) {
        let mut inner = self.inner.lock();
        inner.begun = index;
        let context = result.unwrap_or_else(|failure| {
            let failed = StepFailure { step: Arc::clone(&inner.names[index]), failure };
            tracing::warn!(%failed, "a step failed to shut down");
            inner.failed_down.push(failed);
            // The next step gets the context of this one.
            context
        });
        drop(inner);
        self.go_down(cx, context);
    }
}

impl<C> Shared<C> {
    /// The task has dropped the current step: no continuation follows.
    fn interrupted(&self) {
        let mut inner = self.inner.lock();
        inner.state = StartupState::Failed;
        inner.wanted = None;
        let waiting = inner.starting.take().into_iter().chain(std::mem::take(&mut inner.ending));
        let waiting: Vec<_> = waiting.collect();
        drop(inner);
        for waiting in waiting {
            answer(Some(waiting), Err(Failure::Closed));
        }
    }
}

impl<C> Inner<C> {
    fn shutdown_error(&self) -> Option<Failure> {
        if self.failed_down.is_empty() {
            return None;
        }
        let failed = self.failed_down.clone();
        Some(Failure::error(StartupError::Shutdown { failed }))
    }

    fn startup_error(&self) -> Failure {
        let rollback = self.failed_down.clone();
        match self.failed.clone() {
            Some(failed) => Failure::error(StartupError::Startup { failed, rollback }),
            None => Failure::Closed,
        }
    }
}

fn answer<C>(waiting: Option<Completer<C>>, answer: Result<C, Failure>) {
    if let Some(waiting) = waiting {
        // The waiter may be gone.
        let _ = waiting.complete_with(answer);
    }
}

/// Notifies the process when the task drops the continuation of a step unrun.
struct UnderWay<C> {
    shared: Option<Arc<Shared<C>>>,
}

impl<C> UnderWay<C> {
    fn ended(mut self) -> Option<Arc<Shared<C>>> {
        self.shared.take()
    }
}

impl<C> Drop for UnderWay<C> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.interrupted();
        }
    }
}

/// A future that turns a panic into its failure.
struct Contained<C>(StepFuture<C>);

impl<C> Future for Contained<C> {
    type Output = Result<C, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<Self::Output> {
        let poll = AssertUnwindSafe(|| self.0.as_mut().poll(cx));
        catch_unwind(poll).unwrap_or_else(|panic| Poll::Ready(Err(Failure::from_panic(panic))))
    }
}
