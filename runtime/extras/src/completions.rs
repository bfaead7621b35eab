//! Several completions as one, besides [`all`].

use turnwheel_runtime::completion::{all, completion, InlineExecutor};
use turnwheel_runtime::internal::spawn_inline;
use turnwheel_runtime::{Completion, Failure};

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
