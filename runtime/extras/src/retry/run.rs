//! One retry under way.

use std::future::Future;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::task::{Context as PollContext, Poll};

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Context, Delays, Failure, Flow, Phase};

use super::{Attempt, Retried, Retry};

/// An operation and the record of its attempts. Dropping it answers the caller.
struct Attempts<T, F> {
    retry: Retry,
    operation: F,
    completer: Completer<Retried<T>>,
    made: u64,
    last: Option<Failure>,
    /// Begun before the close request of the task, so that the request aborts it.
    ends_with_task: bool,
}

pub(super) fn start<S, T, F>(
    retry: Retry,
    cx: &mut Context<'_, S>,
    operation: F,
) -> Completion<Retried<T>>
where
    S: Send + 'static,
    T: Send + 'static,
    F: FnMut(&mut S, &mut Context<'_, S>) -> Result<Attempt<T>, Failure> + Send + 'static,
{
    let (completer, answer) = completion();
    let refused = completer.clone();
    let ends_with_task = cx.phase() <= Phase::Started;
    let delays = retry.backoff.map(|backoff| backoff.delays(cx.task().id() ^ cx.now_ns()));
    let mut attempts =
        Attempts { retry, operation, completer, made: 0, last: None, ends_with_task };
    // First the reason, then the job: dropping it answers «aborted».
    let full = || drop(refused.fail(Failure::Refused("the fast lane of the task is full")));
    match delays {
        None => {
            let job = move |state: &mut S, cx: &mut Context<'_, S>| attempts.next(state, cx);
            cx.run_again(job).unwrap_or_else(|_error| full());
        }
        Some(delays) => {
            let job = move |state: &mut S, cx: &mut Context<'_, S>| {
                attempts.next_and_wait(delays, state, cx);
            };
            cx.run(job).unwrap_or_else(|_error| full());
        }
    }
    answer
}

impl<T: Send + 'static, F> Attempts<T, F> {
    /// Makes one attempt and says whether another one is due.
    fn next<S>(&mut self, state: &mut S, cx: &mut Context<'_, S>) -> Flow
    where
        S: Send + 'static,
        F: FnMut(&mut S, &mut Context<'_, S>) -> Result<Attempt<T>, Failure>,
    {
        if self.completer.is_cancelled() {
            return Flow::Done;
        }
        self.made += 1;
        let attempt = AssertUnwindSafe(|| (self.operation)(state, cx));
        match catch_unwind(attempt) {
            Ok(Ok(Attempt::Done(value))) => return self.end(Ok(Retried::Succeeded(value))),
            Ok(Ok(Attempt::NotYet)) => self.last = None,
            Ok(Err(failure)) if self.retry.is_recoverable(&failure) => self.last = Some(failure),
            Ok(Err(failure)) => return self.end(Err(failure)),
            Err(panic) => {
                let _ = self.end(Err(Failure::from_panic_ref(panic.as_ref())));
                resume_unwind(panic);
            }
        }
        self.judge(cx.is_closing())
    }

    /// After an attempt that did not succeed: on, or the end.
    fn judge(&mut self, is_closing: bool) -> Flow {
        let attempts = self.made;
        let is_aborted = self.retry.aborts.as_ref().is_some_and(|condition| condition())
            || (is_closing && self.ends_with_task)
            || self.completer.is_cancelled();
        if is_aborted {
            let last = self.last.take();
            return self.end(Ok(Retried::Aborted { attempts, last }));
        }
        if attempts >= self.retry.attempts_max {
            let last = self.last.take();
            return self.end(Ok(Retried::LimitReached { attempts, last }));
        }
        Flow::Again
    }

    fn end(&mut self, answer: Result<Retried<T>, Failure>) -> Flow {
        // A caller that gave up has completed it already.
        let _ = match answer {
            Ok(retried) => self.completer.complete(retried).map_err(drop),
            Err(failure) => self.completer.fail(failure).map_err(drop),
        };
        Flow::Done
    }

    /// Makes one attempt, and the next one after a pause in which other jobs run.
    fn next_and_wait<S>(mut self, mut delays: Delays, state: &mut S, cx: &mut Context<'_, S>)
    where
        S: Send + 'static,
        F: FnMut(&mut S, &mut Context<'_, S>) -> Result<Attempt<T>, Failure> + Send + 'static,
    {
        if self.next(state, cx) == Flow::Done {
            return;
        }
        let delay = delays.next().unwrap_or_default();
        // A sleep and no timer: timers run in phase Started only, but an operation may be retried
        // while a task starts or closes.
        let sleep = cx.group().sleep(delay);
        let pause = Pause { sleep, completer: self.completer.clone() };
        cx.await_interleaved(pause, move |state, cx, slept| match slept {
            Ok(()) => self.next_and_wait(delays, state, cx),
            Err(failure) => {
                let _ = self.end(Err(failure));
            }
        });
    }
}

impl<T, F> Drop for Attempts<T, F> {
    fn drop(&mut self) {
        // Nothing if it has been answered; otherwise the task ended, or did not take the job.
        let (attempts, last) = (self.made, self.last.take());
        let _ = self.completer.complete(Retried::Aborted { attempts, last });
    }
}

/// A sleep that ends early when the caller stops waiting for the answer.
struct Pause<T> {
    sleep: Completion<()>,
    completer: Completer<Retried<T>>,
}

impl<T> Future for Pause<T> {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<Self::Output> {
        self.completer.on_cancel(cx.waker().clone());
        if self.completer.is_cancelled() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.sleep).poll(cx)
    }
}
