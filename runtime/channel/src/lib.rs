//! A bounded channel that tasks consume: many producers on any thread, one item a round.
//!
//! A layer on the public API of the task: a consumer is a coalescing condition that takes an item
//! for each run. Invariant: an item is taken only by a consumer whose job runs with it at once, so
//! no item is lost when a consumer goes.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Waker};

use parking_lot::Mutex;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::internal::contain;
use turnwheel_runtime::{clone_fields, debug_fields};
use turnwheel_runtime::{Completer, Completion, Condition, ConditionMode, Context, Failure};

/// A bounded queue of items that any thread fills and tasks empty. Clones are the same channel.
///
/// Every item goes to one consumer. A consumer runs in phase Started only. Items sent before it
/// starts wait for it; items left when its task closes stay for other consumers.
///
/// Cost of an item: two short locks at each end and a signal to each consumer.
///
/// # Example
///
/// ```
/// use turnwheel_channel::Channel;
/// use turnwheel_runtime::Group;
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let channel = Channel::bounded(16);
/// let sum = group.spawn(0_u32)?;
/// let items = channel.clone();
/// let consuming = sum.call(move |_, cx| items.consume(cx, |sum: &mut u32, _, item| *sum += item));
/// let _consumer = consuming.wait()?;
/// for item in [1, 2, 3] {
///     channel.send(item)?;
/// }
/// channel.drained().wait()?;
/// assert_eq!(sum.call(|sum, _| *sum).wait()?, 6);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ConsumableChannel")]
#[doc(alias = "ConcurrentQueueChannel")]
pub struct Channel<T> {
    shared: Arc<Inner<T>>,
}

struct Inner<T> {
    capacity: usize,
    state: Mutex<State<T>>,
    listeners: Listeners,
}

struct State<T> {
    items: VecDeque<T>,
    is_closed: bool,
    /// Completers of [`Channel::drained`].
    drained: Vec<Completer<()>>,
    /// Wakers of the tasks that poll for an item.
    pollers: Vec<Waker>,
}

/// Why an item was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelErrorKind {
    /// As many items as the channel holds are waiting.
    #[error("the channel is full")]
    Full,
    /// The channel is closed.
    #[error("the channel is closed")]
    Closed,
}

/// An item that was not sent; gives it back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
#[must_use]
pub struct ChannelError<T> {
    /// Why.
    pub kind: ChannelErrorKind,
    /// The item.
    pub item: T,
}

debug_fields!(impl<T> ChannelError<T>, self => kind: self.kind);

clone_fields!(impl<T> Channel<T>, shared);

debug_fields!(impl<T> Channel<T>, self =>
    len: self.shared.state.lock().items.len(),
    capacity: self.shared.capacity,
    is_closed: self.shared.state.lock().is_closed);

impl<T: Send + 'static> Channel<T> {
    /// A channel that holds at most so many items, at least one.
    #[must_use]
    pub fn bounded(capacity: usize) -> Self {
        let state = State {
            items: VecDeque::new(),
            is_closed: false,
            drained: Vec::new(),
            pollers: Vec::new(),
        };
        Self {
            shared: Arc::new(Inner {
                capacity: capacity.max(1),
                state: Mutex::new(state),
                listeners: Listeners::new(),
            }),
        }
    }

    /// Sends an item, from any thread. Waits at most while another thread queues or takes an item.
    ///
    /// # Errors
    ///
    /// Full or closed; the item comes back.
    pub fn send(&self, item: T) -> Result<(), ChannelError<T>> {
        let pollers = {
            let mut state = self.shared.state.lock();
            if state.is_closed {
                return Err(ChannelError { kind: ChannelErrorKind::Closed, item });
            }
            if state.items.len() >= self.shared.capacity {
                return Err(ChannelError { kind: ChannelErrorKind::Full, item });
            }
            state.items.push_back(item);
            std::mem::take(&mut state.pollers)
        };
        wake_all(pollers);
        // Signals every consumer, even if items wait already: the consumer of an earlier signal may
        // be gone. A consumer that finds nothing goes idle again.
        self.shared.listeners.signal();
        Ok(())
    }

    /// Takes the oldest item, if there is one. For code outside of tasks.
    #[must_use]
    pub fn try_take(&self) -> Option<T> {
        self.shared.take()
    }

    /// Takes the oldest item, or has `cx` woken when there is one; `None` when the channel is
    /// closed and empty. For async code; one item wakes all pollers.
    pub fn poll_take(&self, cx: &mut PollContext<'_>) -> Poll<Option<T>> {
        if let Some(item) = self.shared.take() {
            return Poll::Ready(Some(item));
        }
        // Code of the user: cloned before the lock, and dropped after it.
        let own = cx.waker().clone();
        let mut state = self.shared.state.lock();
        if !state.items.is_empty() {
            // Sent between the two looks.
            drop(state);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if state.is_closed {
            return Poll::Ready(None);
        }
        if !state.pollers.iter().any(|poller| poller.will_wake(cx.waker())) {
            state.pollers.push(own);
        }
        Poll::Pending
    }

    /// Items that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state.lock().items.len()
    }

    /// Whether no item waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses items from now on; items in the channel can still be taken.
    pub fn close(&self) {
        let pollers = {
            let mut state = self.shared.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.pollers)
        };
        wake_all(pollers);
    }

    /// Whether it refuses items.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().is_closed
    }

    /// Completes the next time that no item waits, at once if none does. A consumer may still be at
    /// work on the last one.
    pub fn drained(&self) -> Completion<()> {
        let mut state = self.shared.state.lock();
        if state.items.is_empty() {
            return Completion::done(());
        }
        let (completer, drained) = completion();
        state.drained.push(completer);
        drained
    }

    /// Makes the task of `cx` a consumer: `job` runs with one item after the other, in phase
    /// Started. Between two items the task does its other work, so a flood of items starves
    /// nothing. Several consumers share the items.
    ///
    /// A panicking job loses its item and goes on with the next.
    pub fn consume<S, F>(&self, cx: &mut Context<'_, S>, mut job: F) -> Consumer
    where
        S: Send + 'static,
        F: FnMut(&mut S, &mut Context<'_, S>, T) + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let slot = Arc::new(Mutex::new(None::<Condition>));
        let own = Arc::clone(&slot);
        let condition = cx.condition(ConditionMode::Coalescing, move |state, cx| {
            let Some(item) = shared.take() else { return };
            // Signalled before the job: then also a panic leaves the rest to be taken.
            if !shared.state.lock().items.is_empty() {
                if let Some(condition) = &*own.lock() {
                    condition.signal();
                }
            }
            job(state, cx, item);
        });
        *slot.lock() = Some(condition.clone());
        // Items that were sent before are there already.
        condition.signal();
        let listener = self.shared.listeners.add(&condition);
        Consumer { condition, slot, _listener: listener }
    }
}

/// Wakes the pollers, with nothing locked; a waker that panics stops no other.
fn wake_all(pollers: Vec<Waker>) {
    for waker in pollers {
        contain("the waker of a channel", || waker.wake());
    }
}

impl<T> Inner<T> {
    fn take(&self) -> Option<T> {
        let (item, drained) = {
            let mut state = self.state.lock();
            let item = state.items.pop_front();
            let is_empty = state.items.is_empty();
            let drained = if is_empty { std::mem::take(&mut state.drained) } else { Vec::new() };
            (item, drained)
        };
        for waiting in drained {
            // The consumer may have given up.
            let _ = waiting.complete(());
        }
        item
    }
}

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        for waiting in std::mem::take(&mut self.state.lock().drained) {
            let _ = waiting.fail(Failure::Closed);
        }
    }
}

/// A consumer. Dropping it ends the consumption; items in the channel stay there (see [the
/// rule](crate#handles)).
#[must_use = "the task consumes until this is dropped"]
pub struct Consumer {
    condition: Condition,
    /// The job's own handle of the condition: taken out, so that it does not keep itself alive.
    slot: Arc<Mutex<Option<Condition>>>,
    _listener: Listener,
}

debug_fields!(impl Consumer, self =>);

impl Consumer {
    /// Ends the consumption, from any thread. An item whose job has begun is finished; the others
    /// stay in the channel.
    pub fn cancel(self) {
        drop(self);
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        drop(self.slot.lock().take());
        self.condition.cancel();
    }
}

/// Conditions that are signalled together. Clones are the same list.
///
/// # Example
///
/// ```
/// use turnwheel_channel::Listeners;
/// use turnwheel_runtime::{ConditionMode, Group};
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let listeners = Listeners::new();
/// let signals = group.spawn(0_u32)?;
/// let condition = signals
///     .call(|_, cx| cx.condition(ConditionMode::Counting, |signals, _| *signals += 1))
///     .wait()?;
/// let listener = listeners.add(&condition);
/// listeners.signal();
/// drop(listener);
/// listeners.signal(); // has no effect: the listener is gone
/// # while signals.call(|signals, _| *signals).wait()? == 0 {}
/// assert_eq!(signals.call(|signals, _| *signals).wait()?, 1);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[doc(alias = "ActorConditions")]
pub struct Listeners {
    list: Arc<Mutex<ListenerList>>,
}

#[derive(Debug, Default)]
struct ListenerList {
    /// Replaced by a new list on each change, so that a signal holds no lock while it iterates.
    conditions: Arc<[(u64, Condition)]>,
    next: u64,
}

impl Listeners {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition until the handle is dropped. Copies the list.
    pub fn add(&self, condition: &Condition) -> Listener {
        let mut list = self.list.lock();
        let number = list.next;
        list.next += 1;
        let added = (number, condition.clone());
        list.conditions = list.conditions.iter().cloned().chain([added]).collect();
        Listener { list: Arc::clone(&self.list), number }
    }

    /// Signals every condition in the list, in the order in which they were added.
    pub fn signal(&self) {
        let conditions = Arc::clone(&self.list.lock().conditions);
        for (_, condition) in conditions.iter() {
            condition.signal();
        }
    }

    /// Conditions in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.lock().conditions.len()
    }

    /// Whether the list holds no condition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A place in a list of [`Listeners`]; dropping it takes the condition out.
#[derive(Debug)]
#[must_use = "the condition is signalled until this is dropped"]
pub struct Listener {
    list: Arc<Mutex<ListenerList>>,
    number: u64,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let before = {
            let mut list = self.list.lock();
            let rest = list.conditions.iter().filter(|(number, _)| *number != self.number);
            let rest = rest.cloned().collect();
            std::mem::replace(&mut list.conditions, rest)
        };
        // Outside of the lock: the last handle of a condition cancels it.
        drop(before);
    }
}
