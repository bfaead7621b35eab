//! The open connections: those that do nothing make room when there are as many as may be.
//!
//! A connection whose requests all wait for the rest of their bodies does nothing either, and makes
//! room if none is idle: an idle one loses nothing.
//!
//! A connection enters when it is accepted, and is admitted when its client has spoken. Only so many
//! are admitted, and [`RESERVED`] more may be open: there a new client is heard, and a health check
//! answered, also while all admitted connections have requests under way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::idle::{Rest, UnderWay};

/// Idle time before an admitted connection may be closed for another: a new one may be about to
/// send its request.
const IDLE_AT_LEAST: Duration = Duration::from_millis(50);

/// Time for a new connection to be admitted before it may be closed for another. A client sends its
/// request with the handshake or right after it.
const SPEAK_WITHIN: Duration = Duration::from_millis(10);

/// Time for a body to come before its connection may be closed for another one. Most bodies come
/// with the head of their request; a slow one is cut only while all places are taken.
const STALLED_AT_LEAST: Duration = Duration::from_millis(500);

/// Connections beside those that may be admitted.
const RESERVED: usize = 16;

/// The open connections of a server. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Crowd(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Connections that may be admitted.
    max: usize,
    open: Mutex<Open>,
    /// A connection has ended or has become idle.
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    admitted: usize,
    connections: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    is_admitted: bool,
    /// Another connection needs its place; it may stay if it has a request by now.
    is_told: bool,
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
    /// For at most so many admitted connections.
    pub(super) fn new(max: usize) -> Self {
        let changed = Arc::new(Notify::new());
        Self(Arc::new(Shared { max, open: Mutex::default(), changed }))
    }

    /// Takes a place. If all are taken, the connection that has been silent or idle longest is
    /// closed; if each may still be about to send its request, this waits.
    ///
    /// Cost: with all places taken one look at each connection.
    pub(super) async fn enter(&self) -> Place {
        loop {
            let changed = self.0.changed.notified();
            match self.enter_at(Instant::now()) {
                Ok(place) => return place,
                Err(again) => until(changed, again).await,
            }
        }
    }

    /// Ends when no connection is open any more. Call it only without concurrent
    /// [enters](Self::enter).
    pub(super) async fn is_empty(&self) {
        loop {
            let changed = self.0.changed.notified();
            if self.0.open.lock().connections.is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// A place, or when to look again if nothing changes before.
    fn enter_at(&self, now: Instant) -> Result<Place, Option<Instant>> {
        let mut open = self.0.open.lock();
        if open.connections.len() >= self.0.max + RESERVED {
            return Err(open.make_room(now, false));
        }
        let id = open.next;
        open.next += 1;
        let under_way = UnderWay::new(Arc::clone(&self.0.changed));
        let leave = Arc::new(Notify::new());
        let one = Connection {
            is_admitted: false,
            is_told: false,
            under_way: under_way.clone(),
            leave: Arc::clone(&leave),
        };
        open.connections.insert(id, one);
        Ok(Place { crowd: self.clone(), id, under_way, leave })
    }

    fn admit_at(&self, id: u64, now: Instant) -> Result<(), Option<Instant>> {
        let mut open = self.0.open.lock();
        if open.admitted >= self.0.max {
            return Err(open.make_room(now, true));
        }
        open.admitted += 1;
        if let Some(one) = open.connections.get_mut(&id) {
            one.is_admitted = true;
            one.is_told = false;
            one.under_way.touch();
        }
        Ok(())
    }
}

/// Waits for a change, or for this time.
async fn until(changed: Notified<'_>, again: Option<Instant>) {
    let again = async {
        match again {
            Some(again) => tokio::time::sleep_until(again).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = changed => {}
        () = again => {}
    }
}

impl Open {
    /// Tells a connection that serves no request to leave, an admitted one if that is wanted.
    /// Answers when to look again if nothing changes before.
    fn make_room(&mut self, now: Instant, of_admitted: bool) -> Option<Instant> {
        let all = self.connections.values_mut();
        let all = all.filter(|one| one.is_admitted || !of_admitted);
        let resting = all.filter_map(|one| match one.under_way.rest()? {
            Rest::Stalled(since) => Some((since + STALLED_AT_LEAST, true, one)),
            Rest::Idle(since) => {
                let least = if one.is_admitted { IDLE_AT_LEAST } else { SPEAK_WITHIN };
                Some((since + least, false, one))
            }
        });
        let (at, _, first) = resting.min_by_key(|(at, is_stalled, one)| {
            let is_late = *at > now;
            (is_late, one.is_admitted, !is_late && *is_stalled, *at)
        })?;
        if at > now {
            return Some(at);
        }
        first.is_told = true;
        first.leave.notify_one();
        // It may have a request by then and stay: another one is looked for.
        Some(now + SPEAK_WITHIN)
    }
}

impl Place {
    /// The requests of the connection that are under way.
    pub(super) fn under_way(&self) -> UnderWay {
        self.under_way.clone()
    }

    /// Ends when the connection may be served. If as many as may be are admitted, the one that has
    /// been idle longest is closed; if none is idle, this waits.
    pub(super) async fn admitted(&self) {
        loop {
            let changed = self.crowd.0.changed.notified();
            match self.crowd.admit_at(self.id, Instant::now()) {
                Ok(()) => return,
                Err(again) => until(changed, again).await,
            }
        }
    }

    /// Ends when the connection serves no request and another one needs its place.
    pub(super) async fn is_needed(&self) {
        loop {
            self.leave.notified().await;
            if self.must_leave() {
                return;
            }
        }
    }

    fn must_leave(&self) -> bool {
        let mut open = self.crowd.0.open.lock();
        let Some(one) = open.connections.get_mut(&self.id) else { return true };
        one.is_told &= one.under_way.rest().is_some();
        one.is_told
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.crowd.0.open.lock();
        if open.connections.remove(&self.id).is_some_and(|one| one.is_admitted) {
            open.admitted -= 1;
        }
        drop(open);
        self.crowd.0.changed.notify_waiters();
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

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    fn idle_since(place: &Place) -> Instant {
        match place.under_way().rest() {
            Some(Rest::Idle(since)) => since,
            other => panic!("it is idle, and not {other:?}"),
        }
    }

    /// A connection that is admitted.
    fn admitted(crowd: &Crowd) -> Place {
        let place = crowd.enter_at(later()).expect("a place");
        crowd.admit_at(place.id, later()).expect("it is admitted");
        place
    }

    #[test]
    fn the_connection_that_is_idle_longest_makes_place() {
        let crowd = Crowd::new(2);
        let (busy, idle) = (admitted(&crowd), admitted(&crowd));
        let request = busy.under_way().begin();
        let new = crowd.enter_at(later()).expect("it is heard");
        let admit = || crowd.admit_at(new.id, later());
        assert!(admit().is_err());
        assert!(is_told(&idle) && !is_told(&busy));
        drop(idle);
        admit().expect("there is room");
        // All are busy: the first idle connection is notified.
        let other = new.under_way().begin();
        let next = crowd.enter_at(later()).expect("it is heard");
        let admit = || crowd.admit_at(next.id, later());
        assert_eq!(admit().expect_err("all are busy"), None);
        assert!(!is_told(&new) && !is_told(&busy));
        let mut changed = pin!(crowd.0.changed.notified());
        assert!(poll(changed.as_mut()).is_pending());
        drop(request);
        assert!(poll(changed).is_ready(), "a change is told");
        assert!(admit().is_err());
        assert!(is_told(&busy) && !is_told(&new));
        drop((busy, other));
        assert!(admit().is_ok());
    }

    #[test]
    fn a_connection_whose_request_waits_for_its_body_makes_place_if_none_is_idle() {
        let crowd = Crowd::new(2);
        let (idle, stalled) = (admitted(&crowd), admitted(&crowd));
        let _request = stalled.under_way().begin();
        let stall = stalled.under_way().stall();
        let new = crowd.enter_at(later()).expect("it is heard");
        // A told connection stays once its body has come.
        assert!(crowd.admit_at(new.id, later()).is_err());
        drop(stall);
        assert!(!is_told(&stalled));

        let _stall = stalled.under_way().stall();
        let Some(Rest::Stalled(since)) = stalled.under_way().rest() else { panic!("stalled") };
        let again = crowd.admit_at(new.id, since + IDLE_AT_LEAST).expect_err("all are taken");
        assert!(again.is_some() && is_told(&idle), "a body is left more time");
        assert!(crowd.admit_at(new.id, since + STALLED_AT_LEAST).is_err());
        assert!(is_told(&idle) && !is_told(&stalled), "an idle one loses nothing");
        let _busy = idle.under_way().begin();
        assert!(crowd.admit_at(new.id, since + STALLED_AT_LEAST).is_err());
        assert!(is_told(&stalled));
    }

    #[test]
    fn silent_connections_make_place_and_busy_ones_never_fill_the_reserved_places() {
        let crowd = Crowd::new(2);
        let busy = [admitted(&crowd), admitted(&crowd)];
        let requests = [busy[0].under_way().begin(), busy[1].under_way().begin()];
        let silent: Vec<Place> =
            (0..RESERVED).map(|_| crowd.enter_at(later()).expect("a place")).collect();
        let since = idle_since(&silent[0]);
        let again = crowd.enter_at(since).expect_err("all places are taken");
        assert_eq!(again, Some(since + SPEAK_WITHIN), "it is left the time to speak");
        assert!(!silent.iter().any(is_told));
        assert!(crowd.enter_at(later()).is_err());
        assert_eq!(silent.iter().filter(|place| is_told(place)).count(), 1);
        drop(silent);
        drop(requests);
        assert!(crowd.enter_at(later()).is_ok());
    }

    #[test]
    fn a_connection_that_has_just_been_admitted_is_left_the_time_to_ask() {
        let crowd = Crowd::new(1);
        let only = crowd.enter_at(Instant::now()).expect("a place");
        only.leave.notify_one();
        crowd.admit_at(only.id, Instant::now()).expect("it is admitted");
        assert!(!is_told(&only), "what it was told before it spoke does not count");
        let since = idle_since(&only);
        let new = crowd.enter_at(since).expect("it is heard");
        let again = crowd.admit_at(new.id, since).expect_err("it is taken");
        assert_eq!(again, Some(since + IDLE_AT_LEAST));
        assert!(!is_told(&only));
        assert!(crowd.admit_at(new.id, since + IDLE_AT_LEAST).is_err());
        assert!(is_told(&only));
    }

    #[test]
    fn a_connection_with_a_request_stays_though_it_was_told_before() {
        let crowd = Crowd::new(1);
        let only = admitted(&crowd);
        let new = crowd.enter_at(later()).expect("it is heard");
        assert!(crowd.admit_at(new.id, later()).is_err());
        let request = only.under_way().begin();
        assert!(!is_told(&only));
        drop(request);
        assert!(crowd.admit_at(new.id, later()).is_err());
        assert!(is_told(&only));
    }
}
