//! Topics: one message for many actors.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_runtime::SubmitErrorKind;

use crate::recipient::Recipient;

/// A list of actors that each get a copy of what is published. Clones share the list.
///
/// What one thread or actor publishes reaches each subscriber in the order published. A subscriber is
/// kept alive by its place in the list; one that has ended is removed by the next publishing.
///
/// ```
/// # use turnwheel_actors::{Actor, Context, Handler, System};
/// # use turnwheel_runtime::Group;
/// # struct Counter(u64);
/// # impl Actor for Counter { type Error = std::convert::Infallible; }
/// # #[derive(Clone)] struct Add(u64);
/// # impl Handler<Add> for Counter {
/// #     type Reply = u64;
/// #     fn handle(&mut self, Add(by): Add, _: &mut Context<'_, Self>) -> u64 { self.0 += by; self.0 }
/// # }
/// use turnwheel_actors::{TopicOverflow, Topic};
/// # let group = Group::builder("doc").workers(1).build()?;
/// # let counter = System::new(&group).spawn(Counter(0))?;
/// let topic = Topic::new();
/// topic.subscribe(counter.recipient(), TopicOverflow::Reject);
/// assert_eq!(topic.publish(&Add(2)).delivered, 1);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Topic<M> {
    shared: Arc<Shared<M>>,
}

/// What becomes of a subscriber that cannot take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopicOverflow {
    /// It misses the message; [`Topic::rejected`] counts it.
    Reject,
    /// It misses the message and is removed from the topic.
    Unsubscribe,
}

/// What became of a message that was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// Subscribers whose mailbox took it.
    pub delivered: usize,
    /// Subscribers that stay and missed it.
    pub rejected: usize,
    /// Subscribers removed: they have ended, or their policy says so.
    pub removed: usize,
}

/// Names one subscription of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionId(u64);

struct Shared<M> {
    /// Replaced as a whole, so that nothing is sent under the lock.
    list: Mutex<Arc<Vec<Subscriber<M>>>>,
    next: AtomicU64,
    rejected: AtomicU64,
}

struct Subscriber<M> {
    id: SubscriptionId,
    recipient: Recipient<M>,
    overflow: TopicOverflow,
}

impl<M> Clone for Subscriber<M> {
    fn clone(&self) -> Self {
        Self { id: self.id, recipient: self.recipient.clone(), overflow: self.overflow }
    }
}

impl<M> Topic<M> {
    /// A topic without subscribers.
    pub fn new() -> Self {
        let shared = Shared {
            list: Mutex::new(Arc::new(Vec::new())),
            next: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds an actor; it gets what is published from now on, twice if it is added twice. Copies the
    /// list.
    pub fn subscribe(&self, recipient: Recipient<M>, overflow: TopicOverflow) -> SubscriptionId {
        let id = SubscriptionId(self.shared.next.fetch_add(1, Ordering::Relaxed));
        let mut list = self.shared.list.lock();
        let mut longer = list.to_vec();
        longer.push(Subscriber { id, recipient, overflow });
        *list = Arc::new(longer);
        id
    }

    /// Removes a subscription; `false` if it is not there. What is being published at this moment may
    /// still reach it. Copies the list.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        self.remove(&[id]) == 1
    }

    /// How many subscriptions there are, those of actors that have ended since the last publishing
    /// included.
    pub fn subscribers(&self) -> usize {
        self.shared.list.lock().len()
    }

    /// How often a subscriber with [`TopicOverflow::Reject`] missed a message.
    pub fn rejected(&self) -> u64 {
        self.shared.rejected.load(Ordering::Relaxed)
    }

    /// Answers how many were there to be removed.
    fn remove(&self, ids: &[SubscriptionId]) -> usize {
        let mut list = self.shared.list.lock();
        let before = list.len();
        let rest: Vec<_> = list.iter().filter(|one| !ids.contains(&one.id)).cloned().collect();
        let removed = before - rest.len();
        // The old list may hold the last addresses of actors: it is dropped after the lock.
        let old = std::mem::replace(&mut *list, Arc::new(rest));
        drop(list);
        drop(old);
        removed
    }
}

impl<M: Clone + 'static> Topic<M> {
    /// Sends a copy to each subscriber. Never blocks; costs one `tell` and one clone for each.
    ///
    /// Each copy that is not taken is a dead letter, too.
    pub fn publish(&self, message: &M) -> Published {
        let list = Arc::clone(&*self.shared.list.lock());
        let mut published = Published::default();
        let mut leaving = Vec::new();
        for one in list.iter() {
            match one.recipient.tell(message.clone()) {
                Ok(()) => published.delivered += 1,
                Err(error) if error.kind == SubmitErrorKind::Closed => leaving.push(one.id),
                Err(_) if one.overflow == TopicOverflow::Unsubscribe => leaving.push(one.id),
                Err(_) => published.rejected += 1,
            }
        }
        if published.rejected > 0 {
            let rejected = u64::try_from(published.rejected).unwrap_or(u64::MAX);
            self.shared.rejected.fetch_add(rejected, Ordering::Relaxed);
        }
        if !leaving.is_empty() {
            published.removed = self.remove(&leaving);
        }
        published
    }
}

impl<M> Default for Topic<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> Clone for Topic<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M> fmt::Debug for Topic<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("subscribers", &self.subscribers()).finish_non_exhaustive()
    }
}
