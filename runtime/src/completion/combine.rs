//! Several completions as one.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::chain::spawn_inline;
use super::{completion, Completion, InlineExecutor};
use crate::failure::Failure;

/// Completes when all sources have completed: with the values in the order of the sources, with the
/// single failure, or with [`Failure::Many`] in the order of the sources if several failed. A
/// failure cancels nothing. An empty list is done.
///
/// Cost: a fixed number of allocations.
pub fn all<T: Send + 'static>(sources: Vec<Completion<T>>) -> Completion<Vec<T>> {
    spawn_inline(async move {
        let mut values = Vec::with_capacity(sources.len());
        let mut failures = Vec::new();
        for source in sources {
            match source.await {
                Ok(value) => values.push(value),
                Err(failure) => failures.push(failure),
            }
        }
        match failures.len() {
            0 => Ok(values),
            1 => Err(failures.remove(0)),
            _ => Err(Failure::Many(failures.into())),
        }
    })
}

/// Completes with the first value; if all fail, with [`Failure::Many`] (or the only one). The
/// others are left to end in their own time. An empty list is [`Failure::Refused`].
pub fn first_success<T: Send + 'static>(sources: Vec<Completion<T>>) -> Completion<T> {
    if sources.is_empty() {
        return Completion::failed(Failure::Refused("there is nothing to wait for"));
    }
    let (completer, answer) = completion();
    let attempt = |source: Completion<T>| {
        let completer = completer.clone();
        // Another one may have been faster.
        source.map(move |value| drop(completer.complete(value)))
    };
    let attempts = sources.into_iter().map(attempt).collect();
    all(attempts).on_error(InlineExecutor, move |failure| drop(completer.fail(failure))).detach();
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
        let offer = move |outcome| {
            // Another one may have been faster.
            let _ = completer.complete_with(outcome);
            Ok(())
        };
        source.then_on(InlineExecutor, offer).detach();
    }
    answer
}

/// Starts the work of one item after the other, each after the previous one is done. Stops at the
/// first failure; later items are never started. Any number of items, without recursion.
///
/// `start` runs on the thread that completes the previous work. After a call of a task this is
/// inside its turn, where another call of the same task is refused.
pub fn traverse<I, T, F>(items: I, start: F) -> Completion<Vec<T>>
where
    I: IntoIterator,
    I::IntoIter: Send + 'static,
    T: Send + 'static,
    F: FnMut(I::Item) -> Completion<T> + Send + 'static,
{
    let started = items.into_iter().map(start);
    spawn_inline(async move {
        let mut values = Vec::new();
        for one in started {
            values.push(one.await?);
        }
        Ok(values)
    })
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
    mut source: Completion<T>,
    sleep: impl Future<Output = Failure>,
) -> Result<T, Failure> {
    let mut sleep = std::pin::pin!(sleep);
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(outcome) = Pin::new(&mut source).poll(cx) {
            return Poll::Ready(outcome);
        }
        let Poll::Ready(failure) = sleep.as_mut().poll(cx) else { return Poll::Pending };
        Poll::Ready(source.give_up(failure))
    })
    .await
}
