//! Several completions as one.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{completion, Completion, InlineExecutor};
use crate::failure::Failure;
use crate::sync::{Arc, Mutex};

/// Completes when all have: with the values in the order of the sources; with the one failure, or
/// with [`Failure::Many`] in the order of the sources if several failed. Nothing is cancelled when
/// one fails. An empty list is done.
///
/// Cost: one allocation for the list and two for each source.
pub fn all<T: Send + 'static>(sources: Vec<Completion<T>>) -> Completion<Vec<T>> {
    if sources.is_empty() {
        return Completion::done(Vec::new());
    }
    let (completer, answer) = completion();
    let outcomes: Vec<Option<Result<T, Failure>>> = sources.iter().map(|_| None).collect();
    let shared = Arc::new(Mutex::new((sources.len(), outcomes)));
    for (index, source) in sources.into_iter().enumerate() {
        let shared = Arc::clone(&shared);
        let completer = completer.clone();
        source
            .then_on(InlineExecutor, move |outcome| {
                let mut locked = shared.lock();
                let (left, outcomes) = &mut *locked;
                outcomes[index] = Some(outcome);
                *left -= 1;
                if *left == 0 {
                    let outcomes = std::mem::take(outcomes);
                    drop(locked);
                    // Nobody may wait any more.
                    let _ = completer.complete_with(gather(outcomes));
                }
                Ok(())
            })
            .detach();
    }
    answer
}

fn gather<T>(outcomes: Vec<Option<Result<T, Failure>>>) -> Result<Vec<T>, Failure> {
    let mut values = Vec::with_capacity(outcomes.len());
    let mut failures = Vec::new();
    for outcome in outcomes.into_iter().flatten() {
        match outcome {
            Ok(value) => values.push(value),
            Err(failure) => failures.push(failure),
        }
    }
    match failures.len() {
        0 => Ok(values),
        1 => Err(failures.remove(0)),
        _ => Err(Failure::Many(failures.into())),
    }
}

/// Completes with the first value; if all fail, with [`Failure::Many`] (or the only one). The
/// others are left to end in their own time. An empty list is [`Failure::Refused`].
pub fn first_success<T: Send + 'static>(sources: Vec<Completion<T>>) -> Completion<T> {
    if sources.is_empty() {
        return Completion::failed(Failure::Refused("there is nothing to wait for"));
    }
    let (completer, answer) = completion();
    let failures: Vec<Option<Failure>> = sources.iter().map(|_| None).collect();
    let shared = Arc::new(Mutex::new((sources.len(), failures)));
    for (index, source) in sources.into_iter().enumerate() {
        let shared = Arc::clone(&shared);
        let completer = completer.clone();
        source
            .then_on(InlineExecutor, move |outcome| {
                let failure = match outcome {
                    Ok(value) => {
                        // Another one may have been faster.
                        let _ = completer.complete(value);
                        return Ok(());
                    }
                    Err(failure) => failure,
                };
                let mut locked = shared.lock();
                locked.1[index] = Some(failure);
                locked.0 -= 1;
                if locked.0 == 0 {
                    let mut all: Vec<_> =
                        std::mem::take(&mut locked.1).into_iter().flatten().collect();
                    drop(locked);
                    let failure =
                        if all.len() == 1 { all.remove(0) } else { Failure::Many(all.into()) };
                    let _ = completer.fail(failure);
                }
                Ok(())
            })
            .detach();
    }
    answer
}

/// Completes as the first to complete does, well or ill. The others are left to end in their own
/// time. An empty list is [`Failure::Refused`].
pub fn race<T: Send + 'static>(sources: Vec<Completion<T>>) -> Completion<T> {
    if sources.is_empty() {
        return Completion::failed(Failure::Refused("there is nothing to wait for"));
    }
    let (completer, answer) = completion();
    for source in sources {
        let completer = completer.clone();
        source
            .then_on(InlineExecutor, move |outcome| {
                // Another one may have been faster.
                let _ = completer.complete_with(outcome);
                Ok(())
            })
            .detach();
    }
    answer
}

/// Starts one piece of work after the other, each when the one before is done; stops at the first
/// failure, and later items are never started. Any number of items, without recursion.
pub fn traverse<I, T, F>(items: I, start: F) -> Completion<Vec<T>>
where
    I: IntoIterator,
    I::IntoIter: Send + Unpin + 'static,
    T: Send + Unpin + 'static,
    F: FnMut(I::Item) -> Completion<T> + Send + Unpin + 'static,
{
    let items = items.into_iter();
    super::chain::spawn_inline(Traverse { items, start, now: None, values: Vec::new() })
}

struct Traverse<I, T, F> {
    items: I,
    start: F,
    now: Option<Completion<T>>,
    values: Vec<T>,
}

impl<I, T, F> Future for Traverse<I, T, F>
where
    I: Iterator + Unpin,
    T: Unpin,
    F: FnMut(I::Item) -> Completion<T> + Unpin,
{
    type Output = Result<Vec<T>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if let Some(now) = &mut this.now {
                match Pin::new(now).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                    Poll::Ready(Ok(value)) => this.values.push(value),
                }
                this.now = None;
            }
            let Some(item) = this.items.next() else {
                return Poll::Ready(Ok(std::mem::take(&mut this.values)));
            };
            match catch_unwind(AssertUnwindSafe(|| (this.start)(item))) {
                Ok(started) => this.now = Some(started),
                Err(panic) => return Poll::Ready(Err(Failure::from_panic(panic))),
            }
        }
    }
}

/// Completes as `source` does, or with [`Failure::TimedOut`] when `sleep` is over before; then
/// `source` is cancelled. For a group's clock see `Group::timeout`.
pub async fn timeout<T>(
    source: Completion<T>,
    sleep: impl Future,
    limit: Duration,
) -> Result<T, Failure> {
    timeout_as(source, async move {
        sleep.await;
        Failure::TimedOut(limit)
    })
    .await
}

/// As [`timeout`], with the failure that the sleep ends with.
pub(crate) async fn timeout_as<T>(
    source: Completion<T>,
    sleep: impl Future<Output = Failure>,
) -> Result<T, Failure> {
    let mut source = source;
    let mut sleep = std::pin::pin!(sleep);
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(outcome) = Pin::new(&mut source).poll(cx) {
            return Poll::Ready(outcome);
        }
        let Poll::Ready(failure) = sleep.as_mut().poll(cx) else { return Poll::Pending };
        // A value that came in this very moment is not lost: its producer was told that it won.
        let late = if source.cancel() { None } else { source.try_take() };
        Poll::Ready(late.unwrap_or(Err(failure)))
    })
    .await
}
