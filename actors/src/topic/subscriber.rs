//! One subscriber of a topic, and its kept messages while its mailbox is full.
//!
//! While messages are kept, later ones go behind them, so that each publisher's order stays. A task
//! of its own, the pump, waits for room and moves the kept messages into the mailbox; it ends with
//! the last one.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use turnwheel_runtime::{Context, Failure, SubmitErrorKind};

use super::receipt::{Receipt, Settled, Ticket};
use super::{SubscriptionId, SubscriptionInfo, TopicOverflow, TOPIC_KEPT_MAX};
use crate::recipient::{Recipient, RecipientPlace, SendMode};
use crate::request::scope::contain;
use crate::system::upkeep::submit_own;
use crate::system::DeadLetterReason;

pub(super) struct Subscriber<M> {
    pub(super) id: SubscriptionId,
    recipient: Recipient<M>,
    overflow: TopicOverflow,
    missed: AtomicU64,
    /// Count of the entire topic.
    missed_by_all: Arc<AtomicU64>,
    /// The pump runs. Set and cleared under the lock; cleared after its last message was sent.
    is_pumping: AtomicBool,
    kept: Mutex<Kept<M>>,
}

struct Kept<M> {
    messages: VecDeque<(M, Option<Ticket>)>,
    /// The subscription is over.
    is_over: bool,
    /// Of the pump, for the end of the subscription.
    waker: Option<Waker>,
}

/// Result of a message at one subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Delivered,
    /// Kept until there is room.
    Deferred,
    /// Kept; the receipt reports the outcome.
    Awaited,
    Missed,
    /// The subscription is to be removed.
    Leaves,
}

impl<M: 'static> Subscriber<M> {
    pub(super) fn new(
        id: SubscriptionId,
        recipient: Recipient<M>,
        overflow: TopicOverflow,
        missed_by_all: Arc<AtomicU64>,
    ) -> Self {
        Self {
            id,
            recipient,
            overflow,
            missed: AtomicU64::new(0),
            missed_by_all,
            is_pumping: AtomicBool::new(false),
            kept: Mutex::new(Kept { messages: VecDeque::new(), is_over: false, waker: None }),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.recipient.is_over()
    }

    pub(super) fn info(&self) -> SubscriptionInfo {
        SubscriptionInfo {
            id: self.id,
            name: self.recipient.name(),
            overflow: self.overflow,
            missed: self.missed.load(Ordering::Relaxed),
            kept: self.kept.lock().messages.len(),
        }
    }

    /// Maximum number of kept messages.
    fn kept_max(&self) -> usize {
        match self.overflow {
            TopicOverflow::Reject | TopicOverflow::Unsubscribe => 0,
            TopicOverflow::Coalesce => 1,
            TopicOverflow::DropOldest { keep } => keep.min(TOPIC_KEPT_MAX),
            TopicOverflow::Wait => TOPIC_KEPT_MAX,
        }
    }

    /// Ends the subscription: kept messages are dropped.
    pub(super) fn end(&self) {
        let (messages, waker) = {
            let mut kept = self.kept.lock();
            kept.is_over = true;
            (std::mem::take(&mut kept.messages), kept.waker.take())
        };
        for (_, ticket) in messages {
            self.miss(DeadLetterReason::Dropped);
            settle(ticket, Settled::Removed);
        }
        if let Some(waker) = waker {
            contain("the waker of a subscription", || waker.wake());
        }
    }

    /// Counts a message that it does not get.
    fn miss(&self, reason: DeadLetterReason) {
        self.missed.fetch_add(1, Ordering::Relaxed);
        self.missed_by_all.fetch_add(1, Ordering::Relaxed);
        self.recipient.target().lost(reason);
    }
}

impl<M: Send + 'static> Subscriber<M> {
    /// Sends a message, or keeps it.
    pub(super) fn give(self: &Arc<Self>, message: M, receipt: Option<&Arc<Receipt>>) -> Given {
        let mut message = message;
        if !self.is_pumping.load(Ordering::Acquire) {
            let error = match self.recipient.target().send(message, SendMode::Offer) {
                Ok(()) => return Given::Delivered,
                Err(error) => error,
            };
            let reason = DeadLetterReason::Refused(error.kind);
            if error.kind == SubmitErrorKind::Closed {
                self.recipient.target().lost(reason);
                return Given::Leaves;
            }
            // An interceptor that refused it would refuse it again.
            if self.kept_max() == 0 || error.kind == SubmitErrorKind::Refused {
                self.miss(reason);
                return match self.overflow {
                    TopicOverflow::Unsubscribe => Given::Leaves,
                    _ => Given::Missed,
                };
            }
            message = error.message;
        }
        self.keep(message, receipt)
    }

    fn keep(self: &Arc<Self>, message: M, receipt: Option<&Arc<Receipt>>) -> Given {
        let is_waiting = self.overflow == TopicOverflow::Wait;
        let receipt = receipt.filter(|_| is_waiting);
        let mut displaced = None;
        let is_first = {
            let mut kept = self.kept.lock();
            if kept.is_over {
                return Given::Leaves;
            }
            if kept.messages.len() >= self.kept_max() {
                if is_waiting {
                    drop(kept);
                    self.miss(DeadLetterReason::Refused(SubmitErrorKind::Full));
                    return Given::Missed;
                }
                displaced = kept.messages.pop_front();
            }
            kept.messages.push_back((message, receipt.map(Receipt::ticket)));
            !self.is_pumping.swap(true, Ordering::AcqRel)
        };
        if displaced.is_some() {
            self.miss(DeadLetterReason::Dropped);
        }
        // Without the lock: its drop is the user's.
        drop(displaced);
        let is_kept = !is_first || self.pump();
        match receipt {
            // Also if it is not kept after all: its ticket has reported.
            Some(_) => Given::Awaited,
            None if is_kept => Given::Deferred,
            None => Given::Leaves,
        }
    }

    /// Starts the pump. False if the group takes no more tasks: it shuts down, and so ends the
    /// subscription.
    fn pump(self: &Arc<Self>) -> bool {
        let pump = Pump { subscriber: Arc::clone(self), is_done: false };
        let spawned = self.recipient.target().group().task(()).name("topic").class("topic").spawn();
        spawned.is_ok_and(|task| {
            let begin = move |(): &mut (), cx: &mut Context<'_, ()>| {
                cx.await_holding(pump.move_all(), |(), _, ()| {});
            };
            submit_own(&task, begin).is_ok()
        })
    }

    /// A place in the mailbox; `None` if the subscription ends.
    async fn room(&self) -> Option<Result<RecipientPlace<M>, Failure>> {
        let mut reserving = pin!(self.recipient.reserve());
        std::future::poll_fn(|cx| {
            let own = cx.waker().clone();
            let before = {
                let mut kept = self.kept.lock();
                if kept.is_over {
                    return Poll::Ready(None);
                }
                kept.waker.replace(own)
            };
            drop(before);
            reserving.as_mut().poll(cx).map(Some)
        })
        .await
    }

    fn next(&self) -> Option<(M, Option<Ticket>)> {
        self.kept.lock().messages.pop_front()
    }

    /// Whether anything is kept; if not, the pump is over.
    fn has_kept(&self) -> bool {
        let mut kept = self.kept.lock();
        if !kept.messages.is_empty() {
            return true;
        }
        let waker = kept.waker.take();
        self.is_pumping.store(false, Ordering::Release);
        drop(kept);
        drop(waker);
        false
    }

    /// Its mailbox grants no permits: kept messages are missed.
    fn give_up(&self) {
        let messages = std::mem::take(&mut self.kept.lock().messages);
        for (_, ticket) in messages {
            self.miss(DeadLetterReason::Refused(SubmitErrorKind::Full));
            settle(ticket, Settled::Missed);
        }
    }
}

/// Moves the kept messages into the mailbox, as there is room. If it is dropped earlier, as by the
/// end of its group, it ends the subscription: otherwise kept messages would wait for ever.
struct Pump<M: Send + 'static> {
    subscriber: Arc<Subscriber<M>>,
    is_done: bool,
}

impl<M: Send + 'static> Pump<M> {
    async fn move_all(mut self) {
        let subscriber = Arc::clone(&self.subscriber);
        while subscriber.has_kept() {
            match subscriber.room().await {
                Some(Ok(place)) => {
                    let Some((message, ticket)) = subscriber.next() else { continue };
                    let sent = place.tell(message);
                    let settled = if sent.is_ok() { Settled::Delivered } else { Settled::Removed };
                    settle(ticket, settled);
                }
                Some(Err(failure)) if !failure.is_closed() => subscriber.give_up(),
                // It has closed, or the subscription is over.
                _ => return,
            }
        }
        self.is_done = true;
    }
}

impl<M: Send + 'static> Drop for Pump<M> {
    fn drop(&mut self) {
        if !self.is_done {
            self.subscriber.end();
        }
    }
}

fn settle(ticket: Option<Ticket>, settled: Settled) {
    if let Some(ticket) = ticket {
        ticket.settle(settled);
    }
}
