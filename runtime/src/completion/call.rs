//! The answer to a call of a task: one producer, one consumer, no lock.

use std::task::{Poll, Waker};

use super::Completion;
use crate::failure::Failure;
use crate::handoff::oneshot::{channel_awaited, Received, Receiver, Sender};

type Outcome<T> = Result<T, Failure>;

/// The side of the job. Dropped without an answer, the call fails: the task has closed.
pub(crate) struct Reply<T>(Option<Sender<Outcome<T>, ()>>);

/// The side of the caller.
pub(crate) struct Answer<T>(Receiver<Outcome<T>, ()>);

/// Both sides of a call; their memory is reused.
pub(crate) fn call<T>() -> (Reply<T>, Completion<T>) {
    let (sender, receiver) = channel_awaited(());
    (Reply(Some(sender)), Completion::answered(Answer(receiver)))
}

impl<T> Reply<T> {
    #[inline]
    pub(crate) fn send(mut self, outcome: Outcome<T>) {
        if let Some(sender) = self.0.take() {
            // The caller may have given up.
            let _ = sender.send(outcome);
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(Err(super::unrun()));
        }
    }
}

impl<T> Answer<T> {
    pub(super) fn is_done(&self) -> bool {
        self.0.state().is_settled()
    }

    /// The caller gives up. Returns whether it came first.
    pub(super) fn cancel(&self) -> bool {
        self.0.expire()
    }

    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Outcome<T>> {
        self.0.poll(waker).map(|received| match received {
            Received::Value(outcome) => outcome,
            Received::Expired => Err(Failure::Cancelled),
            Received::SenderDropped => Err(Failure::Abandoned),
            Received::AlreadyReceived => Err(Failure::Refused("the value was taken already")),
        })
    }

    /// The outcome of a call that is done.
    pub(super) fn take(&mut self) -> Option<Outcome<T>> {
        match self.poll(Waker::noop()) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    pub(super) fn peek<R>(&mut self, look: impl FnOnce(&Outcome<T>) -> R) -> Option<R> {
        self.0.peek().map(look)
    }
}
