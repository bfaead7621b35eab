//! Transition from an activation to the next one of its key.

use std::collections::VecDeque;

use turnwheel_runtime::{Failure, SubmitErrorKind};

use crate::actor::{Pending, Unsent};
use crate::call::nanos;
use crate::entity::{
    Active, Directory, Entity, Entry, Failures, Inactive, Leaving, Locked, Queue, Refusal,
};

/// Messages that no activation took, and why.
pub(crate) type Failed<E> = Vec<(Box<dyn Pending<E>>, Refusal)>;

impl<E: Entity> Leaving<E> {
    /// Number of messages that move on from it, now or later.
    pub(crate) fn moving(&self) -> usize {
        match self.forwarded.len() {
            0 => 0,
            moved => moved + usize::try_from(self.task.queue_len()).unwrap_or(usize::MAX / 2),
        }
    }

    /// An activation that takes no more messages, and those waiting for the next one.
    fn of(active: &Active<E>, pending: Queue<E>) -> Self {
        let (forwarded, returning) = (VecDeque::new(), VecDeque::new());
        Self { task: active.task.clone(), bytes: active.bytes, forwarded, returning, pending }
    }

    /// Messages for the next activation, in order.
    pub(crate) fn take_rest(&mut self) -> Queue<E> {
        let mut rest = std::mem::take(&mut self.forwarded);
        rest.append(&mut self.returning);
        rest.append(&mut self.pending);
        rest
    }
}

impl<E: Entity> Directory<E> {
    /// An activation takes no more messages: from now on they wait for the next one.
    pub(crate) fn leaves(&self, key: &E::Key, id: u64) {
        let mut shard = self.shard(key);
        let Some(entry) = shard.get_mut(key) else { return };
        if let Entry::Active(active) = entry {
            if active.id() == id {
                *entry = Inactive::Leaving(Leaving::of(active, VecDeque::new())).into();
            }
        }
    }

    /// An activation is over, its actor dropped. Called by its last hook, with the failures of the
    /// activations before it if it has not begun.
    pub(crate) fn has_ended(
        &self,
        key: &E::Key,
        id: u64,
        failure: Option<&Failure>,
        failures: Option<Failures>,
    ) {
        let mut shard = self.shard(key);
        let Some((pending, bytes)) = shard.take_activation(key, id) else { return };
        let Some(failure) = failure else {
            return self.begin_next(shard, key, pending, failures, u64::from(bytes));
        };
        self.hold(&mut shard, key, id, failure, failures);
        drop(shard);
        self.free_place(u64::from(bytes));
        for waiting in pending {
            waiting.fail(&self.system, failure);
        }
        self.next_waiting();
    }

    /// Activates a key again for its waiting messages, replacing the former activation; without
    /// messages its place is freed.
    pub(crate) fn begin_next(
        &self,
        mut shard: Locked<'_, E>,
        key: &E::Key,
        pending: Queue<E>,
        failures: Option<Failures>,
        bytes: u64,
    ) {
        if pending.is_empty() {
            drop(shard);
            self.free_place(bytes);
            return self.next_waiting();
        }
        let failed = self.begin(&mut shard, key, pending, failures, bytes);
        drop(shard);
        self.fail_all(failed);
        // If it did not begin, its place is free.
        self.next_waiting();
    }

    /// Takes a message that an activation has admitted and does not handle to the next one.
    pub(crate) fn pass_on(&self, key: &E::Key, id: u64, message: Box<dyn Pending<E>>) {
        let mut shard = self.shard(key);
        let mut failed = Failed::new();
        match shard.get_mut(key) {
            Some(Entry::Active(_)) => {
                failed = self.deliver(&mut shard, key, VecDeque::from([message]));
            }
            Some(Entry::Inactive(inactive)) => match &mut **inactive {
                Inactive::Leaving(leaving) if leaving.task.tag() == id => {
                    leaving.forwarded.push_back(message)
                }
                Inactive::Leaving(leaving) => leaving.pending.push_back(message),
                Inactive::Waiting { pending, .. } => pending.push_back(message),
                Inactive::Held { failure, .. } => {
                    failed.push((message, Refusal::Failed(failure.clone())));
                }
            },
            None => match (self.take_place(), VecDeque::from([message])) {
                (Some(bytes), pending) => {
                    failed = self.begin(&mut shard, key, pending, None, bytes);
                }
                (None, pending) => match self.enqueue(key) {
                    Ok(()) => {
                        let waiting = Inactive::Waiting { pending, failures: None };
                        shard.insert(key.clone(), waiting.into());
                    }
                    Err(kind) => {
                        let refused = |message| (message, Refusal::Refused(kind));
                        failed.extend(pending.into_iter().map(refused));
                    }
                },
            },
        }
        drop(shard);
        self.fail_all(failed);
    }

    /// Answers the senders of messages that no activation took; those for the owner of the key in
    /// another process are carried there. Not under a lock: it wakes callers,
    /// drops messages and calls the hook of dead letters.
    pub(crate) fn fail_all(&self, failed: Failed<E>) {
        for (message, refusal) in failed {
            let unsent = match &refusal {
                Refusal::NotOwner(owner) => self.carry_waiting(owner, message),
                Refusal::Refused(_) | Refusal::Failed(_) => Err(message),
            };
            if let Err(message) = unsent {
                message.fail(&self.system, &refusal.into());
            }
        }
    }

    /// Keeps a key from being activated again for a while.
    fn hold(
        &self,
        shard: &mut Locked<'_, E>,
        key: &E::Key,
        id: u64,
        failure: &Failure,
        failures: Option<Failures>,
    ) {
        // Each activation has its own jitter, so that many that fail together do not return
        // together.
        let fresh = || self.settings(|settings| Box::new(settings.hold.delays(id)));
        let Some(mut failures) = failures.or_else(fresh) else { return };
        let pause = failures.next().unwrap_or_default();
        let pause_ns = nanos(pause);
        let until_ns = self.system.group().now_ns().saturating_add(pause_ns);
        let failure = failure.clone();
        shard.insert(key.clone(), Inactive::Held { until_ns, failure, failures }.into());
    }

    /// Activates a key for its waiting messages, in their order; its place was taken, and charged
    /// with `bytes`. Returns the messages that were not taken.
    pub(crate) fn begin(
        &self,
        shard: &mut Locked<'_, E>,
        key: &E::Key,
        pending: Queue<E>,
        failures: Option<Failures>,
        bytes: u64,
    ) -> Failed<E> {
        let now_ns = self.system.group().recent_ns();
        // The key may have moved to another process while its messages waited.
        let begun = match self.elsewhere(key) {
            None => self.activate(shard, key, now_ns, failures, bytes, true).map(drop),
            Some(refusal) => {
                self.free_place(bytes);
                Err(refusal)
            }
        };
        match begun {
            Ok(()) => self.deliver(shard, key, pending),
            Err(refusal) => pending.into_iter().map(|message| (message, refusal.clone())).collect(),
        }
    }

    /// Sends the waiting messages to the current activation: under the lock of its shard, so that
    /// no later message gets ahead. Returns the messages that were not taken.
    fn deliver(&self, shard: &mut Locked<'_, E>, key: &E::Key, mut pending: Queue<E>) -> Failed<E> {
        let mut failed = Failed::new();
        let Some(entry) = shard.get_mut(key) else { unreachable!("it was just seen or made") };
        let Entry::Active(active) = entry else {
            unreachable!("only what is active gets messages")
        };
        while let Some(message) = pending.pop_front() {
            match message.send(&active.task) {
                Ok(()) => {}
                Err(Unsent { kind: SubmitErrorKind::Closed, message }) => {
                    // The first of them has ended it: the rest is for the next one. Its end waits
                    // for the lock, and finds them here.
                    pending.push_front(message);
                    *entry = Inactive::Leaving(Leaving::of(active, pending)).into();
                    return failed;
                }
                Err(Unsent { kind, message }) => {
                    failed.push((message, Refusal::Refused(kind)));
                }
            }
        }
        failed
    }
}
