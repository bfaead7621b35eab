//! The open connections: an idle one makes place for a new one when there are as many as may be.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::idle::UnderWay;

/// Idle time before a connection may be closed for another: a new one may be about to send its
/// request.
const IDLE_AT_LEAST: Duration = Duration::from_millis(50);

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

    /// Takes a place. If all are taken, the connection that has been idle longest is closed; if
    /// none is idle for [`IDLE_AT_LEAST`], this waits.
    ///
    /// Cost: with all places taken one look at each connection.
    pub(super) async fn enter(&self) -> Place {
        loop {
            let until = match self.enter_at(Instant::now()) {
                Ok(place) => return place,
                Err(until) => until,
            };
            let idle_enough = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.0.changed.notified() => {}
                () = idle_enough => {}
            }
        }
    }

    /// Ends when no connection is open any more. Call it only without concurrent
    /// [enters](Self::enter).
    pub(super) async fn is_empty(&self) {
        while !self.0.open.lock().connections.is_empty() {
            self.0.changed.notified().await;
        }
    }

    /// A place, or when to look again if nothing changes before.
    fn enter_at(&self, now: Instant) -> Result<Place, Option<Instant>> {
        let mut open = self.0.open.lock();
        if open.connections.len() >= self.0.max {
            let all = open.connections.values();
            let idle = all.filter_map(|one| Some((one.under_way.idle_since()?, one)));
            let Some((since, longest)) = idle.min_by_key(|(since, _)| *since) else {
                return Err(None);
            };
            if now >= since + IDLE_AT_LEAST {
                longest.leave.notify_one();
            }
            // It may have a request by then and stay: another one is looked for.
            return Err(Some(now.max(since) + IDLE_AT_LEAST));
        }
        let id = open.next;
        open.next += 1;
        let under_way = UnderWay::new(Arc::clone(&self.0.changed));
        let leave = Arc::new(Notify::new());
        let one = Connection { under_way: under_way.clone(), leave: Arc::clone(&leave) };
        open.connections.insert(id, one);
        Ok(Place { crowd: self.clone(), id, under_way, leave })
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
    use std::pin::{pin, Pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn is_told(place: &Place) -> bool {
        poll(pin!(place.is_needed())).is_ready()
    }

    #[test]
    fn the_connection_that_is_idle_longest_makes_place() {
        let crowd = Crowd::new(2);
        let later = Instant::now() + Duration::from_secs(1);
        let enter = || crowd.enter_at(later);
        let (busy, idle) = (enter().expect("a place"), enter().expect("a place"));
        let request = busy.under_way().begin();
        assert!(enter().is_err());
        assert!(is_told(&idle) && !is_told(&busy));
        drop(idle);
        let third = enter().expect("a place");
        // All are busy: the first idle connection is notified.
        let other = third.under_way().begin();
        assert_eq!(enter().expect_err("all are busy"), None);
        assert!(!is_told(&third) && !is_told(&busy));
        drop(request);
        assert!(poll(pin!(crowd.0.changed.notified())).is_ready(), "a change is told");
        assert!(enter().is_err());
        assert!(is_told(&busy) && !is_told(&third));
        drop((busy, other));
        assert!(enter().is_ok());
    }

    #[test]
    fn a_connection_that_has_just_come_is_left_the_time_to_ask() {
        let crowd = Crowd::new(1);
        let only = crowd.enter_at(Instant::now()).expect("a place");
        let since = only.under_way().idle_since().expect("it is idle");
        let until = crowd.enter_at(since).expect_err("it is taken");
        assert_eq!(until, Some(since + IDLE_AT_LEAST));
        assert!(!is_told(&only));
        assert!(crowd.enter_at(since + IDLE_AT_LEAST).is_err());
        assert!(is_told(&only));
    }

    #[test]
    fn a_connection_with_a_request_stays_though_it_was_told_before() {
        let crowd = Crowd::new(1);
        let later = Instant::now() + Duration::from_secs(1);
        let only = crowd.enter_at(later).expect("a place");
        assert!(crowd.enter_at(later).is_err());
        let request = only.under_way().begin();
        assert!(!is_told(&only));
        drop(request);
        assert!(crowd.enter_at(later).is_err());
        assert!(is_told(&only));
    }
}
