//! Messages that no actor handled: counted, and passed to a hook of the system.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use turnwheel_runtime::SubmitErrorKind;

use crate::large::name_of;
use crate::request::scope;
use crate::system::{Shared, System};

/// A message that no actor handled.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The type of the message.
    pub message: &'static str,
    /// The name of the actor it was for; empty if it is not known any more.
    pub recipient: String,
    /// Why it was not handled.
    pub reason: DeadLetterReason,
}

/// Why a message was not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadLetterReason {
    /// The mailbox did not take it; its sender got it back.
    Refused(SubmitErrorKind),
    /// It was queued when the actor ended, or was displaced by the mailbox's policy.
    Dropped,
    /// Its deadline had passed before its turn came.
    Expired,
    /// Its caller had given the call up before its turn came: it has dropped or cancelled the
    /// [`Ask`](crate::Ask).
    Cancelled,
    /// It had to wait for another handler, and too many waited already.
    TooManyWaiting,
    /// An interceptor of the actor refused it.
    Intercepted,
}

impl DeadLetterReason {
    /// For a call whose handler was skipped: its deadline has passed, or its caller gave up.
    pub(crate) fn of_unbegun(has_expired: bool) -> Self {
        match has_expired {
            true => Self::Expired,
            false => Self::Cancelled,
        }
    }
}

/// The hook for dead letters.
pub(crate) type Hook = Box<dyn Fn(&DeadLetter) + Send + Sync>;

/// The dead letters of one system.
#[derive(Default)]
pub(crate) struct DeadLetters {
    count: AtomicU64,
    /// Messages among them whose caller had given up.
    cancelled: AtomicU64,
    pub(crate) hook: Option<Hook>,
}

impl DeadLetters {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn cancelled(&self) -> u64 {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Counts a lost message. Its recipient is named only for a hook, since a sender may meet a
    /// full mailbox again and again.
    #[cold]
    pub(crate) fn add(
        &self,
        message: &'static str,
        recipient: impl FnOnce() -> String,
        reason: DeadLetterReason,
    ) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if reason == DeadLetterReason::Cancelled {
            self.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        if self.hook.is_none() && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let letter = DeadLetter { message, recipient: recipient(), reason };
        tracing::debug!(message, recipient = letter.recipient, ?reason, "a dead letter");
        if let Some(hook) = &self.hook {
            // A message may be lost while a panic unwinds.
            scope::contain("the hook of dead letters", || hook(&letter));
        }
    }
}

impl System {
    /// Counts a message that no actor handled.
    #[cold]
    pub(crate) fn lose<M>(&self, recipient: impl FnOnce() -> String, reason: DeadLetterReason) {
        self.shared().dead_letters.add(name_of::<M>(), recipient, reason);
    }
}

/// The systems that live, for messages that are lost outside of every task.
static SYSTEMS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Lists a system.
pub(crate) fn register(system: &Arc<Shared>) {
    let mut systems = SYSTEMS.lock();
    systems.retain(|system| system.strong_count() > 0);
    systems.push(Arc::downgrade(system));
}

/// Travels with a queued message, and notices when it is dropped unhandled. No bytes.
pub(crate) struct Undelivered<M>(PhantomData<fn(M)>);

impl<M> Undelivered<M> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }

    /// The message is about to be handled, or returns to its sender.
    #[inline(always)]
    pub(crate) fn delivered(self) {
        std::mem::forget(self);
    }
}

impl<M> Drop for Undelivered<M> {
    fn drop(&mut self) {
        lost(name_of::<M>());
    }
}

/// Counts a lost message in the system of its actor: the owner of the queue or of the current turn.
/// Without either, in the only system, or in the systems of this thread's group.
#[cold]
fn lost(message: &'static str) {
    let task = turnwheel_runtime::internal::losing_task().or_else(turnwheel_runtime::current_task);
    let recipient = task.as_ref().map_or_else(String::new, |task| task.name());
    if let Some(system) = task.as_ref().and_then(|task| task.attachment::<System>()) {
        let letters = &system.shared().dead_letters;
        return letters.add(message, || recipient, DeadLetterReason::Dropped);
    }
    let systems: Vec<_> = SYSTEMS.lock().iter().filter_map(Weak::upgrade).collect();
    let only = systems.len() == 1;
    for system in systems {
        if only || system.group.is_current() {
            system.dead_letters.add(message, || recipient.clone(), DeadLetterReason::Dropped);
        }
    }
}
