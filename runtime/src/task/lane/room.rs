//! Room in a mailbox: the producers that wait for a place, and the future that waits.
//!
//! Invariant: a wake-up is used by its waiter, which then tries to take a place, or passed on.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::inbox::{bits, Refusal};
use super::submit::Permit;
use crate::failure::Failure;
use crate::task::handle::task::Task;

/// The waiters, by the number they have drawn: the longest waiting first.
#[derive(Debug, Default)]
pub(crate) struct Room {
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

impl Room {
    /// Whether no producer waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes up to `count` waiters out, the longest waiting first, to be woken outside of the lock.
    pub(crate) fn take(&mut self, count: u64) -> Vec<Waker> {
        let count = self.waiting.len().min(usize::try_from(count).unwrap_or(usize::MAX));
        (0..count).filter_map(|_| Some(self.waiting.pop_first()?.1)).collect()
    }

    /// Lets a waiter wait, in the place that it has drawn before. Returns its former waker.
    fn wait(&mut self, number: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        let number = *number.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.waiting.insert(number, waker)
    }
}

/// Waits for a place in a mailbox; see [`Task::reserve`]. Dropping it gives up, and passes
/// a wake-up that it has not used to the next waiter.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Reserve<S> {
    task: Task<S>,
    /// Its number among the waiters, once it has waited.
    number: Option<u64>,
}

impl<S> Reserve<S> {
    pub(in crate::task) fn new(task: Task<S>) -> Self {
        Self { task, number: None }
    }

    fn try_now(&self) -> Poll<Result<Permit<S>, Failure>> {
        let header = self.task.header();
        match header.inbox.reserve(header.capacity) {
            Ok(()) => Poll::Ready(Ok(Permit::new(self.task.clone()))),
            Err(Refusal::Closed) => Poll::Ready(Err(Failure::Closed)),
            Err(Refusal::Full) => Poll::Pending,
        }
    }

    /// Takes its waker out of the list. Returns whether it has been woken since it waited.
    fn leave(&mut self) -> bool {
        let Some(number) = self.number.take() else { return false };
        let Some(extra) = self.task.header().extra() else { return false };
        let left = extra.room.lock().waiting.remove(&number);
        // Dropped outside of the lock: the waker is user code.
        left.is_none()
    }
}

impl<S: Send + 'static> Future for Reserve<S> {
    type Output = Result<Permit<S>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.task.header().capacity == 0 {
            return Poll::Ready(Err(Failure::Refused(
                "permits need a mailbox with the overflow policy «reject»",
            )));
        }
        let mut answer = self.try_now();
        if answer.is_pending() {
            let waker = cx.waker().clone();
            let mut number = self.number;
            let header = self.task.header();
            let before = header.extra_or_make().room.lock().wait(&mut number, waker);
            drop(before);
            let is_over = !header.signal(bits::ROOM);
            self.number = number;
            answer = if is_over { Poll::Ready(Err(Failure::Closed)) } else { self.try_now() };
        }
        if answer.is_ready() {
            // Its wake-up, if there was one, has led to this answer.
            self.leave();
        }
        answer
    }
}

impl<S> Drop for Reserve<S> {
    fn drop(&mut self) {
        if self.leave() {
            // Woken, and it does not take the place: the next that waits may.
            self.task.header().signal(bits::ROOM);
        }
    }
}
