//! Several completions as one.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::chain::spawn_inline;
use super::Completion;
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
