//! Ending a pool within a limit, with a report of the leftovers.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::Pool;
use crate::actor::{Actor, Drained};

/// Outcome of the drain of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolDrained {
    /// Members that closed in order with everything handled.
    pub complete: usize,
    /// Members stopped at the limit, including the killed ones.
    pub stopped: usize,
    /// Members that were killed, since they did not stop in time.
    pub killed: usize,
    /// Members that have not ended: a handler does not return.
    pub unended: usize,
    /// Messages that were not handled, about; they are dead letters.
    pub left: u64,
}

impl<A: Actor> Pool<A> {
    /// Closes the pool in order, all members at once, and reports the leftovers; see
    /// [`Address::drain`](crate::Address::drain). Admission ends with the call; the limit counts
    /// from the first poll.
    pub fn drain(&self, limit: Duration) -> impl Future<Output = PoolDrained> + Send + 'static {
        let members = self.shared.end();
        let drains = members.iter().map(|member| member.address.drain(limit));
        let mut drains: Vec<_> = drains.map(|drain| Some(Box::pin(drain))).collect();
        let mut drained = PoolDrained::default();
        std::future::poll_fn(move |cx| {
            for drain in &mut drains {
                let polled = drain.as_mut().map(|drain| Pin::as_mut(drain).poll(cx));
                if let Some(Poll::Ready(one)) = polled {
                    drained.add(&one);
                    *drain = None;
                }
            }
            match drains.iter().all(Option::is_none) {
                true => Poll::Ready(drained),
                false => Poll::Pending,
            }
        })
    }
}

impl PoolDrained {
    /// Whether everything was handled.
    pub fn is_complete(&self) -> bool {
        self.stopped == 0 && self.left == 0
    }

    fn add(&mut self, one: &Drained) {
        self.complete += usize::from(one.is_complete());
        self.stopped += usize::from(one.was_stopped);
        self.killed += usize::from(one.was_killed);
        self.unended += usize::from(one.exit.is_none());
        self.left += one.left;
    }
}
