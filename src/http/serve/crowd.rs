//! The open connections: an idle one makes place for a new one when there are as many as may be.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::idle::UnderWay;

/// The open connections of a server. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Crowd(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    open: Mutex<Open>,
    /// A connection has ended or has become idle.
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    under_way: UnderWay,
    leave: Arc<Notify>,
}

/// A connection's place among the open ones, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Crowd,
    id: u64,
    under_way: UnderWay,
    leave: Arc<Notify>,
}

impl Crowd {
    /// For at most so many connections.
    pub(super) fn new(max: usize) -> Self {
        let changed = Arc::new(Notify::new());
        Self(Arc::new(Shared { max, open: Mutex::default(), changed }))
    }

    /// Takes a place. If all are taken, the connection that has been idle longest is told to leave; if
    /// none is idle, this waits.
    ///
    /// Cost: with all places taken one look at each connection.
    pub(super) async fn enter(&self) -> Place {
        loop {
            if let Some(place) = self.enter_now() {
                return place;
            }
            self.0.changed.notified().await;
        }
    }

    fn enter_now(&self) -> Option<Place> {
        let mut open = self.0.open.lock();
        if open.connections.len() >= self.0.max {
            let idle = open
                .connections
                .values()
                .filter_map(|one| Some((one.under_way.idle_since()?, one)));
            if let Some((_, longest)) = idle.min_by_key(|(since, _)| *since) {
                longest.leave.notify_one();
            }
            return None;
        }
        let id = open.next;
        open.next += 1;
        let under_way = UnderWay::new(Arc::clone(&self.0.changed));
        let leave = Arc::new(Notify::new());
        let one = Connection { under_way: under_way.clone(), leave: Arc::clone(&leave) };
        open.connections.insert(id, one);
        Some(Place { crowd: self.clone(), id, under_way, leave })
    }
}

impl Place {
    /// The requests of the connection that are under way.
    pub(super) fn under_way(&self) -> UnderWay {
        self.under_way.clone()
    }

    /// Ends when the connection is idle and another one needs its place.
    pub(super) async fn is_needed(&self) {
        loop {
            self.leave.notified().await;
            if self.under_way.idle_since().is_some() {
                return;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.0.open.lock().connections.remove(&self.id);
        self.crowd.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_connection_that_is_idle_longest_makes_place() {
        let crowd = Crowd::new(2);
        let enter = || crowd.enter_now().expect("there is place");
        let (busy, idle) = (enter(), enter());
        let request = busy.under_way().begin();
        let mut next = pin!(crowd.enter());
        assert!(poll(next.as_mut()).is_pending());
        assert!(poll(pin!(idle.is_needed())).is_ready());
        assert!(poll(pin!(busy.is_needed())).is_pending());
        drop(idle);
        let Poll::Ready(third) = poll(next) else { panic!("there is place") };
        // All are busy: the first to become idle is told.
        let other = third.under_way().begin();
        let mut next = pin!(crowd.enter());
        assert!(poll(next.as_mut()).is_pending());
        assert!(poll(pin!(third.is_needed())).is_pending());
        drop(request);
        assert!(poll(next.as_mut()).is_pending());
        assert!(poll(pin!(busy.is_needed())).is_ready());
        drop((busy, other));
        assert!(poll(next).is_ready());
    }

    #[test]
    fn a_connection_with_a_request_stays_though_it_was_told_before() {
        let crowd = Crowd::new(1);
        let only = crowd.enter_now().expect("there is place");
        assert!(crowd.enter_now().is_none());
        let request = only.under_way().begin();
        assert!(poll(pin!(only.is_needed())).is_pending());
        drop(request);
        assert!(crowd.enter_now().is_none());
        assert!(poll(pin!(only.is_needed())).is_ready());
    }
}
