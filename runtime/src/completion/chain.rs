//! Chains: follow-ups of a completion, on an executor of the caller's choice.
//!
//! The standard adapters (`async` blocks) are lazy: they run when polled. These chains are eager:
//! they run when the completion is done, polled or not.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use super::{completion, Completer, Completion};
use crate::failure::Failure;
use crate::sync::{keeps, Arc, AtomicU8, Mutex, Ordering, Step};

/// An executor takes no more work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the executor takes no more work")]
pub struct Rejected;

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
        Driver::start(self, move |outcome| {
            // A rejected job is dropped, which completes its answer as closed.
            let _ = executor.execute(Box::new(move || run(next, outcome, &completer.0)));
        });
        answer
    }

    /// As [`Completion::then_on`] with a `next` that is asynchronous itself.
    pub fn and_then_on<U, F>(self, executor: impl Executor + 'static, next: F) -> Completion<U>
    where
        U: Send + 'static,
        F: FnOnce(Result<T, Failure>) -> Completion<U> + Send + 'static,
    {
        let begun = self.then_on(executor, move |outcome| Ok(next(outcome)));
        spawn_inline(async move { begun.await?.await })
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
struct OrClosed<T>(Completer<T>);

impl<T> Drop for OrClosed<T> {
    fn drop(&mut self) {
        // Completed already when the job has run.
        let _ = self.0.fail(unrun());
    }
}

/// Why a job that is dropped unrun has no outcome.
pub(super) fn unrun() -> Failure {
    if std::thread::panicking() {
        // Something else in the job has panicked when it was dropped; or a simulation lets the
        // task panic in its place.
        Failure::Panicked("the job panicked before it had begun".into())
    } else {
        Failure::Closed
    }
}

fn run<T, U>(
    next: impl FnOnce(Result<T, Failure>) -> Result<U, Failure>,
    outcome: Result<T, Failure>,
    completer: &Completer<U>,
) {
    let result = catch_unwind(AssertUnwindSafe(|| next(outcome)));
    // The consumer may have given up.
    let _ = completer.complete_with(result.unwrap_or_else(|p| Err(Failure::from_panic(p))));
}

/// A completion of any future, polled on the thread that wakes it.
pub fn spawn_inline<F, T>(future: F) -> Completion<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let (completer, answer) = completion();
    Driver::start(Box::pin(future), move |outcome| {
        // The consumer may have given up.
        let _ = completer.complete_with(outcome);
    });
    answer
}

const IDLE: u8 = 0;
const POLLING: u8 = 1;
const AGAIN: u8 = 2;

type Outcome<T> = Result<T, Failure>;
type Then<T> = Box<dyn FnOnce(Outcome<T>) + Send>;

/// Polls a future from its own wakers; one poll at a time, which has the work out of its lock.
struct Driver<F, T> {
    state: AtomicU8,
    work: Mutex<Option<(F, Then<T>)>>,
}

impl<F, T> Driver<F, T>
where
    F: Future<Output = Outcome<T>> + Send + Unpin + 'static,
    T: Send + 'static,
{
    fn start(future: F, then: impl FnOnce(Outcome<T>) + Send + 'static) {
        let work = Mutex::new(Some((future, Box::new(then) as Then<T>)));
        Arc::new(Self { state: AtomicU8::new(IDLE), work }).wake();
    }

    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let work = self.work.lock().take();
        let Some((mut future, then)) = work else { return };
        let polled = catch_unwind(AssertUnwindSafe(|| {
            Pin::new(&mut future).poll(&mut Context::from_waker(&waker))
        }));
        let outcome = match polled {
            Ok(Poll::Pending) => {
                *self.work.lock() = Some((future, then));
                return;
            }
            Ok(Poll::Ready(outcome)) => outcome,
            Err(panic) => Err(Failure::from_panic(panic)),
        };
        drop(future);
        then(outcome);
    }

    fn run(self: &Arc<Self>) {
        loop {
            self.poll();
            if !keeps(Step::DriverExchange) {
                return self.state.store(IDLE, Ordering::Release);
            }
            let swap =
                self.state.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if swap.is_ok() {
                return;
            }
            self.state.swap(POLLING, Ordering::AcqRel);
        }
    }
}

impl<F, T> Wake for Driver<F, T>
where
    F: Future<Output = Outcome<T>> + Send + Unpin + 'static,
    T: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        // AcqRel: a waker that finds IDLE polls; a waker that finds POLLING requests another round.
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            Some(if state == IDLE { POLLING } else { AGAIN })
        });
        if before == Ok(IDLE) {
            flat(Box::new(move || self.run()));
        }
    }
}

/// Links that may run nested on one stack; a longer chain continues from a queue.
const NESTED_MAX: usize = 32;

/// Runs a link of a chain. A link that completes the next one runs it inside itself; beyond
/// [`NESTED_MAX`] the next ones are queued for the innermost of these, so that a chain of any
/// length fits the stack.
fn flat(link: Box<dyn FnOnce()>) {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::mem::{take, ManuallyDrop};

    type Links = VecDeque<Box<dyn FnOnce()>>;
    thread_local! {
        static DEPTH: Cell<usize> = const { Cell::new(0) };
        /// Never destroyed, so that it is there also as the thread ends; `End` empties it.
        static LINKS: RefCell<ManuallyDrop<Links>> =
            const { RefCell::new(ManuallyDrop::new(VecDeque::new())) };
    }
    /// Restores the depth, also when a link unwinds. Links left over then are dropped, which fails
    /// their completions.
    struct End(usize);
    impl Drop for End {
        fn drop(&mut self) {
            DEPTH.set(self.0);
            if self.0 + 1 == NESTED_MAX {
                let left = LINKS.with(|links| take(&mut **links.borrow_mut()));
                drop(left);
            }
        }
    }
    let depth = DEPTH.get();
    if depth >= NESTED_MAX {
        LINKS.with(|links| links.borrow_mut().push_back(link));
        return;
    }
    DEPTH.set(depth + 1);
    let end = End(depth);
    link();
    if depth + 1 == NESTED_MAX {
        while let Some(next) = LINKS.with(|links| links.borrow_mut().pop_front()) {
            next();
        }
    }
    drop(end);
}
