//! Chains: what happens after a completion, on an executor of the caller's choice.
//!
//! The standard adapters (`async` blocks) are lazy: they run when somebody polls them. The chains
//! here are eager: they run when the completion is done, whether or not anybody looks.

use std::fmt;
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use super::{completion, Completer, Completion};
use crate::failure::Failure;
use crate::sync::{Arc, AtomicU8, Mutex, Ordering};

/// An executor takes no more work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected;

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the executor takes no more work")
    }
}

impl std::error::Error for Rejected {}

/// Something that runs closures: a task, a thread, the caller itself.
pub trait Executor: Send + Sync {
    /// Runs the job once, now or later.
    ///
    /// # Errors
    ///
    /// The job is dropped unrun.
    fn execute(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Rejected>;
}

impl<E: Executor + ?Sized> Executor for std::sync::Arc<E> {
    fn execute(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Rejected> {
        (**self).execute(job)
    }
}

/// Runs each job at once on the thread that brings it: for pure functions and for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct InlineExecutor;

impl Executor for InlineExecutor {
    fn execute(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Rejected> {
        job();
        Ok(())
    }
}

impl<T: Send + 'static> Completion<T> {
    /// Runs `next` with the outcome, once, on the executor, also if it is done already. The result
    /// of `next` completes the answer: an `Err` of `next` fails it, `Ok` after a failure recovers.
    ///
    /// A rejecting executor, or one that drops the job, fails the answer with
    /// [`Failure::Closed`]; a panicking `next` with [`Failure::Panicked`].
    pub fn then_on<U, F>(self, executor: impl Executor + 'static, next: F) -> Completion<U>
    where
        U: Send + 'static,
        F: FnOnce(Result<T, Failure>) -> Result<U, Failure> + Send + 'static,
    {
        let (completer, answer) = completion();
        let completer = OrClosed(completer);
        when_done(self, executor, move |outcome| run(next, outcome, &completer.0));
        answer
    }

    /// As [`Completion::then_on`] with a `next` that is asynchronous itself.
    pub fn and_then_on<U, F>(self, executor: impl Executor + 'static, next: F) -> Completion<U>
    where
        U: Send + 'static,
        F: FnOnce(Result<T, Failure>) -> Completion<U> + Send + 'static,
    {
        let (completer, answer) = completion();
        let completer = OrClosed(completer);
        when_done(self, executor, move |outcome| {
            match catch_unwind(AssertUnwindSafe(|| next(outcome))) {
                Ok(inner) => when_done(inner, InlineExecutor, move |outcome| {
                    // Nobody may wait any more.
                    let _ = completer.0.complete_with(outcome);
                }),
                Err(panic) => {
                    let _ = completer.0.fail(Failure::from_panic(panic));
                }
            }
        });
        answer
    }

    /// Maps the value; a failure passes unchanged and `next` is not called. Runs on the completing
    /// thread, so `next` must be short.
    pub fn map<U, F>(self, next: F) -> Completion<U>
    where
        U: Send + 'static,
        F: FnOnce(T) -> U + Send + 'static,
    {
        self.then_on(InlineExecutor, |outcome| outcome.map(next))
    }

    /// Calls `look` with the value, if there is one, on the executor.
    pub fn on_success<F>(self, executor: impl Executor + 'static, look: F) -> Completion<()>
    where
        F: FnOnce(T) + Send + 'static,
    {
        self.then_on(executor, |outcome| outcome.map(look))
    }

    /// Calls `look` with the failure, if there is one, on the executor.
    pub fn on_error<F>(self, executor: impl Executor + 'static, look: F) -> Completion<()>
    where
        F: FnOnce(Failure) + Send + 'static,
    {
        self.then_on(executor, |outcome| {
            if let Err(failure) = outcome {
                look(failure);
            }
            Ok(())
        })
    }
}

/// Completes with `Closed` when it is dropped: for jobs that may be dropped unrun.
pub(crate) struct OrClosed<T>(pub(crate) Completer<T>);

impl<T> Drop for OrClosed<T> {
    fn drop(&mut self) {
        let failure = if std::thread::panicking() {
            // Only a simulation drops a job that way: in its place it lets the task panic.
            Failure::Panicked("the job panicked before it had begun".into())
        } else {
            Failure::Closed
        };
        // Completed already when the job has run.
        let _ = self.0.fail(failure);
    }
}

fn run<T, U>(
    next: impl FnOnce(Result<T, Failure>) -> Result<U, Failure>,
    outcome: Result<T, Failure>,
    completer: &Completer<U>,
) {
    let result = catch_unwind(AssertUnwindSafe(|| next(outcome)));
    // Nobody may wait any more.
    let _ = completer.complete_with(result.unwrap_or_else(|p| Err(Failure::from_panic(p))));
}

/// Runs `job` on the executor when the completion is done. If that is impossible, `job` is dropped.
fn when_done<T, E, F>(source: Completion<T>, executor: E, job: F)
where
    T: Send + 'static,
    E: Executor + 'static,
    F: FnOnce(Result<T, Failure>) + Send + 'static,
{
    let then = move |outcome: Result<T, Failure>| {
        // A rejected job is dropped, which completes its answer as closed.
        let _ = executor.execute(Box::new(move || job(outcome)));
    };
    Driver::start(source, then);
}

/// A completion of any future, driven by its own wake-ups on whatever thread they happen.
pub(super) fn drive<F, T>(future: F, executor: impl Executor + 'static) -> Completion<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + Unpin + 'static,
{
    let (completer, answer) = completion();
    Driver::start(future, move |outcome| {
        let _ = executor.execute(Box::new(move || {
            let _ = completer.complete_with(outcome);
        }));
    });
    answer
}

pub(super) fn spawn_inline<F, T>(future: F) -> Completion<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + Unpin + 'static,
{
    drive(future, InlineExecutor)
}

const IDLE: u8 = 0;
const POLLING: u8 = 1;
const AGAIN: u8 = 2;

type Then<T> = Box<dyn FnOnce(T) + Send>;

/// Polls a future from its own wakers; one poll at a time.
struct Driver<F: Future> {
    state: AtomicU8,
    work: Mutex<Option<(F, Then<F::Output>)>>,
}

impl<F> Driver<F>
where
    F: Future + Send + Unpin + 'static,
    F::Output: Send + 'static,
{
    fn start(future: F, then: impl FnOnce(F::Output) + Send + 'static) {
        let work = Mutex::new(Some((future, Box::new(then) as Then<F::Output>)));
        Arc::new(Self { state: AtomicU8::new(IDLE), work }).wake();
    }

    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut work = self.work.lock();
        let Some((future, _)) = work.as_mut() else {
            return;
        };
        let Poll::Ready(value) = Pin::new(future).poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let done = work.take();
        drop(work);
        if let Some((future, then)) = done {
            drop(future);
            then(value);
        }
    }
}

impl<F> Wake for Driver<F>
where
    F: Future + Send + Unpin + 'static,
    F::Output: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        // AcqRel: who finds IDLE polls; who finds POLLING asks the poller for another round.
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            Some(if state == IDLE { POLLING } else { AGAIN })
        });
        if before != Ok(IDLE) {
            return;
        }
        loop {
            self.poll();
            let swap =
                self.state.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if swap.is_ok() {
                return;
            }
            self.state.store(POLLING, Ordering::Release);
        }
    }
}
