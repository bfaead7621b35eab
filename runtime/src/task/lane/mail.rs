//! The mailbox of a task whose overflow policy is not «reject»: a bounded queue behind a lock.
//!
//! A producer cannot drop the oldest node of the lock-free lane, nor find one by key, so such a
//! task pays a lock for each submission instead.

use std::collections::{HashMap, VecDeque};

use super::inbox::Refusal;
use super::node::Node;
use crate::task::cell::layout::Header;

/// Policy for submissions to a full mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// The submission is answered `Full`.
    Reject,
    /// The oldest queued job is dropped and counted.
    DropOldest,
    /// A job submitted with a key replaces the queued one of the same key; otherwise as `Reject`.
    CoalesceByKey,
}

/// Bound of a task's queued jobs, and the policy beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mailbox {
    pub(crate) capacity: u64,
    pub(crate) overflow: Overflow,
}

impl Mailbox {
    /// At most `jobs` queued, further ones are answered `Full`. Zero is refused when the task is
    /// spawned, and so is more than [`MAILBOX_JOBS_MAX`](crate::limits::MAILBOX_JOBS_MAX) unless
    /// the overflow policy is another one. `u64::MAX` is no bound.
    pub const fn bounded(jobs: u64) -> Self {
        Self { capacity: jobs, overflow: Overflow::Reject }
    }

    /// No bound but the group's memory budget.
    pub const fn unbounded() -> Self {
        Self { capacity: u64::MAX, overflow: Overflow::Reject }
    }

    /// Number of jobs that it holds; `u64::MAX` without a bound.
    pub const fn capacity(self) -> u64 {
        self.capacity
    }

    /// Policy when it is full.
    pub const fn overflow_policy(self) -> Overflow {
        self.overflow
    }

    /// Whether the state word cannot count so many places.
    pub(crate) fn is_too_large(self) -> bool {
        self.overflow == Overflow::Reject
            && self.capacity != u64::MAX
            && self.capacity > crate::limits::MAILBOX_JOBS_MAX
    }

    /// The same bound with another overflow policy; costs a lock for each submission.
    pub const fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }
}

default_value!(Mailbox => Self::bounded(crate::limits::MAILBOX_JOBS_DEFAULT));

/// One queued job and its key.
#[derive(Debug)]
struct Entry {
    node: Queued,
    key: Option<u64>,
}

/// An owned node in a queue.
#[derive(Debug)]
pub(crate) struct Queued(pub(crate) *mut Node);

// SAFETY: a queued node is owned memory with a `Send` job inside.
unsafe impl Send for Queued {}

/// The locked queue.
#[derive(Debug)]
pub(crate) struct Mail {
    capacity: usize,
    overflow: Overflow,
    entries: VecDeque<Entry>,
    /// Sequence number of the entry at the front.
    front: u64,
    /// Sequence number of the queued entry of each key.
    keys: HashMap<u64, u64>,
    is_closed: bool,
    dropped: u64,
}

impl Mail {
    pub(crate) fn new(capacity: usize, overflow: Overflow) -> Self {
        Self {
            capacity,
            overflow,
            entries: VecDeque::new(),
            front: 0,
            keys: HashMap::new(),
            is_closed: false,
            dropped: 0,
        }
    }

    /// Whether a submission with this key would be taken.
    pub(crate) fn admits(&self, key: Option<u64>) -> Result<(), Refusal> {
        if self.is_closed {
            return Err(Refusal::Closed);
        }
        if self.entries.len() < self.capacity || self.overflow == Overflow::DropOldest {
            return Ok(());
        }
        match key {
            Some(key) if self.coalesces() && self.keys.contains_key(&key) => Ok(()),
            _ => Err(Refusal::Full),
        }
    }

    fn coalesces(&self) -> bool {
        self.overflow == Overflow::CoalesceByKey
    }

    /// Queues a job that `admits` has accepted under the same lock. Returns the job it displaced.
    pub(crate) fn post(&mut self, node: Queued, key: Option<u64>) -> Option<Queued> {
        let key = key.filter(|_| self.coalesces());
        if let Some(sequence) = key.and_then(|key| self.keys.get(&key)) {
            let index = (sequence - self.front) as usize;
            let old = std::mem::replace(&mut self.entries[index].node, node);
            return Some(old);
        }
        let mut displaced = None;
        if self.entries.len() >= self.capacity {
            displaced = self.pop();
            self.dropped += 1;
        }
        if let Some(key) = key {
            self.keys.insert(key, self.front + self.entries.len() as u64);
        }
        self.entries.push_back(Entry { node, key });
        displaced
    }

    /// Takes the oldest job.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let entry = self.entries.pop_front()?;
        self.front += 1;
        if let Some(key) = entry.key {
            self.keys.remove(&key);
        }
        Some(entry.node)
    }

    /// Refuses everything from now on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Jobs displaced because the mailbox was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Jobs in the mailbox of a task whose policy is not «reject».
pub(in crate::task) fn mail_len(header: &Header) -> usize {
    let mail = header.extra().and_then(|extra| extra.mail.as_ref());
    mail.map_or(0, |mail| mail.lock().len())
}

/// Takes the oldest job of that mailbox.
pub(in crate::task) fn pop_mail(header: &Header) -> Option<Queued> {
    header.extra()?.mail.as_ref()?.lock().pop()
}
