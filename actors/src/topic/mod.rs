//! Topics: one message for many actors.

mod receipt;
mod subscriber;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_runtime::Completion;

use self::receipt::Receipt;
use self::subscriber::{Given, Subscriber};
use crate::recipient::Recipient;

/// Messages kept for one subscription while the mailbox of its actor is full, at most.
pub const TOPIC_KEPT_MAX: usize = 1_024;

/// A list of actors that each get a copy of published messages. Clones share the list.
///
/// Messages of one thread or actor reach each subscriber in the order published. No publisher and
/// no other subscriber waits for a slow one: each subscription has a policy for messages without
/// room ([`TopicOverflow`]), and counts missed ones. The list keeps subscribers alive; the next use
/// of the topic removes ended ones.
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

/// Treatment of a message whose subscriber has no room for it.
///
/// *Kept* messages are held by the topic, beside the mailbox, and moved into it in order as there
/// is room. That needs a mailbox with the overflow policy «reject»; with another policy the message
/// is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopicOverflow {
    /// The newest is dropped: the subscriber misses this message.
    Reject,
    /// The subscriber misses the message and is removed from the topic.
    Unsubscribe,
    /// The newest messages are kept, and the oldest of them dropped.
    DropOldest {
        /// Maximum number of kept messages; [`TOPIC_KEPT_MAX`] at most.
        keep: usize,
    },
    /// The latest message is kept; it replaces the previous one.
    Coalesce,
    /// All are kept, up to [`TOPIC_KEPT_MAX`], then the newest is dropped. For publishers that wait
    /// until each message is taken: [`Topic::publish_accepted`].
    Wait,
}

/// Result of publishing a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// Subscribers whose mailbox took the message.
    pub delivered: usize,
    /// Subscribers for which the message is kept until there is room.
    pub deferred: usize,
    /// Subscribers that stay and missed it.
    pub rejected: usize,
    /// Subscribers removed: they have ended, or their policy says so.
    pub removed: usize,
}

/// Names one subscription of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionId(u64);

/// A subscription as a listing shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubscriptionInfo {
    /// Its id.
    pub id: SubscriptionId,
    /// The name of its actor.
    pub name: String,
    /// Treatment of messages without room.
    pub overflow: TopicOverflow,
    /// Number of missed messages, including those displaced by later ones.
    pub missed: u64,
    /// Number of messages kept for it now.
    pub kept: usize,
}

struct Shared<M> {
    /// Replaced by a new list on each change, so that no message is sent under the lock.
    list: Mutex<List<M>>,
    next: AtomicU64,
    missed: Arc<AtomicU64>,
}

type List<M> = Arc<Vec<Arc<Subscriber<M>>>>;

impl<M: 'static> Topic<M> {
    /// A topic without subscribers.
    pub fn new() -> Self {
        let shared = Shared {
            list: Mutex::new(Arc::new(Vec::new())),
            next: AtomicU64::new(0),
            missed: Arc::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds an actor; it gets messages published from now on, twice if it is added twice. Copies
    /// the list.
    pub fn subscribe(&self, recipient: Recipient<M>, overflow: TopicOverflow) -> SubscriptionId {
        let id = SubscriptionId(self.shared.next.fetch_add(1, Ordering::Relaxed));
        let missed = Arc::clone(&self.shared.missed);
        let subscriber = Arc::new(Subscriber::new(id, recipient, overflow, missed));
        self.change(|list| {
            let mut longer: Vec<_> = list.iter().filter(|one| !one.is_over()).cloned().collect();
            longer.push(subscriber);
            longer
        });
        id
    }

    /// Removes a subscription, and drops its kept messages; `false` if it is not there. A
    /// publication under way may still reach it. Copies the list.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        self.remove(&[id]) == 1
    }

    /// Number of subscriptions.
    pub fn subscribers(&self) -> usize {
        self.list().iter().filter(|one| !one.is_over()).count()
    }

    /// The subscriptions, in the order of their making.
    pub fn subscriptions(&self) -> Vec<SubscriptionInfo> {
        self.list().iter().filter(|one| !one.is_over()).map(|one| one.info()).collect()
    }

    /// Number of copies not delivered, over all subscriptions: rejected, displaced by later ones,
    /// or kept at the end of the subscription. Each is a dead letter, too.
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    fn list(&self) -> List<M> {
        Arc::clone(&*self.shared.list.lock())
    }

    /// Replaces the list. Returns the old one, which may hold the last addresses of actors: the
    /// caller drops it, without the lock.
    fn change(&self, make: impl FnOnce(&List<M>) -> Vec<Arc<Subscriber<M>>>) -> List<M> {
        let mut list = self.shared.list.lock();
        let changed = Arc::new(make(&list));
        std::mem::replace(&mut *list, changed)
    }

    /// Answers how many were there to be removed.
    fn remove(&self, ids: &[SubscriptionId]) -> usize {
        let old =
            self.change(|list| list.iter().filter(|one| !ids.contains(&one.id)).cloned().collect());
        let removed = old.iter().filter(|one| ids.contains(&one.id));
        removed.inspect(|one| one.end()).count()
    }
}

impl<M: Clone + Send + 'static> Topic<M> {
    /// Sends a copy to each subscriber. Never blocks; costs one `tell` and one clone for each.
    pub fn publish(&self, message: &M) -> Published {
        self.give(message, None)
    }

    /// As [`Topic::publish`], and completes when the subscribers with [`TopicOverflow::Wait`] have
    /// taken the message, or have ended: so a publisher that waits is never faster than they are.
    /// In a handler: `cx.pipe(topic.publish_accepted(&message), ..)`.
    ///
    /// The others count as in `publish`, when the message is sent. Dropping the completion changes
    /// nothing for the message.
    pub fn publish_accepted(&self, message: &M) -> Completion<Published> {
        let (receipt, completion) = Receipt::new();
        let at_once = self.give(message, Some(&receipt));
        receipt.published(at_once);
        completion
    }

    fn give(&self, message: &M, receipt: Option<&Arc<Receipt>>) -> Published {
        let mut published = Published::default();
        let mut leaving = Vec::new();
        for one in self.list().iter() {
            match one.give(message.clone(), receipt) {
                Given::Delivered => published.delivered += 1,
                Given::Deferred => published.deferred += 1,
                Given::Awaited => {}
                Given::Missed => published.rejected += 1,
                Given::Leaves => leaving.push(one.id),
            }
        }
        if !leaving.is_empty() {
            self.remove(&leaving);
            published.removed = leaving.len();
        }
        published
    }
}

impl<M: 'static> Default for Topic<M> {
    fn default() -> Self {
        Self::new()
    }
}

clone_fields!(impl<M> Topic<M>, shared);

debug_fields!(impl<M: 'static> Topic<M>, self => subscribers: self.subscribers());
