//! Workers that wait for an offer: each offer wakes one of them, the one that has waited longest.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The waiting workers, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    workers: BTreeMap<u64, Worker>,
}

#[derive(Debug)]
struct Worker {
    topics: Vec<String>,
    /// Takes the topic of the offer that wakes it.
    wake: oneshot::Sender<String>,
}

/// The place of a waiting worker. An offer that has woken it, and that it has not been told of when
/// it leaves, wakes the next worker instead.
#[derive(Debug)]
pub(super) struct Place<'a> {
    waiting: &'a Waiting,
    number: u64,
    woken: oneshot::Receiver<String>,
}

impl Waiting {
    /// A worker of these topics waits from now on.
    pub(super) fn join(&self, topics: &[String]) -> Place<'_> {
        let (wake, woken) = oneshot::channel();
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.workers.insert(number, Worker { topics: topics.to_vec(), wake });
        Place { waiting: self, number, woken }
    }

    /// Wakes one worker of a topic.
    ///
    /// Cost: a comparison for each topic of the workers that have waited longer.
    pub(super) fn offered(&self, topic: &str) {
        let mut state = self.state.lock();
        let is_of = |worker: &Worker| worker.topics.iter().any(|own| own == topic);
        let first = state.workers.iter().find(|(_, worker)| is_of(worker));
        let Some(number) = first.map(|(number, _)| *number) else { return };
        let worker = state.workers.remove(&number).expect("it was found under this lock");
        // A worker that is leaving reads its message after this lock, and wakes the next one.
        let _gone = worker.wake.send(topic.to_owned());
    }
}

impl Place<'_> {
    /// Returns when the worker is woken.
    pub(super) async fn woken(&mut self) {
        let _topic = (&mut self.woken).await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.waiting.state.lock().workers.remove(&self.number);
        if let Ok(topic) = self.woken.try_recv() {
            self.waiting.offered(&topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_woken(place: &mut Place<'_>) -> bool {
        pin!(place.woken()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn topics(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn an_offer_wakes_the_worker_of_its_topic_that_waits_longest() {
        let waiting = Waiting::default();
        let mut other = waiting.join(&topics(&["sms"]));
        let mut first = waiting.join(&topics(&["sms", "mail"]));
        let mut second = waiting.join(&topics(&["mail"]));
        waiting.offered("mail");
        assert!(!is_woken(&mut other) && is_woken(&mut first) && !is_woken(&mut second));
        waiting.offered("mail");
        assert!(!is_woken(&mut other) && is_woken(&mut second));
    }

    #[test]
    fn an_offer_whose_worker_leaves_unread_wakes_the_next_one() {
        let waiting = Waiting::default();
        let first = waiting.join(&topics(&["mail"]));
        let mut second = waiting.join(&topics(&["mail"]));
        waiting.offered("mail");
        drop(first);
        assert!(is_woken(&mut second));
        // That of a worker that has read it does not.
        let mut third = waiting.join(&topics(&["mail"]));
        drop(second);
        assert!(!is_woken(&mut third));
    }
}
