//! Entries that a listener has not taken yet, as the journal's writer gives them.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::id::PlanId;
use crate::limits::WATCH_BYTES_MAX;
use crate::store::{Append, Seq, Verdict, Written};

/// The listeners; owned by the journal's writer, and by the feed of all nodes. Without listeners it
/// costs one look at a length for each commit.
#[derive(Default)]
pub(crate) struct Listeners {
    buffers: Vec<Arc<Buffer>>,
    bells: Vec<Weak<Bell>>,
}

impl Listeners {
    pub(crate) fn add(&mut self, buffer: Arc<Buffer>) {
        self.buffers.push(buffer);
    }

    /// Rings from now on when something becomes durable.
    pub(crate) fn add_bell(&mut self, bell: &Arc<Bell>) {
        self.bells.retain(|bell| bell.strong_count() > 0);
        self.bells.push(Arc::downgrade(bell));
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_empty(&mut self) -> bool {
        // A buffer without another holder has no reader.
        self.buffers.retain(|buffer| Arc::strong_count(buffer) > 1);
        self.buffers.is_empty()
    }

    /// Gives them what has become durable, in the order of the journal.
    pub(crate) fn durable(&mut self, appends: &[Append], verdicts: &[Verdict]) {
        if !self.bells.is_empty() && verdicts.iter().any(|it| matches!(it, Verdict::Written(_))) {
            self.bells.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
        }
        if self.buffers.is_empty() || self.is_empty() {
            return;
        }
        for (append, verdict) in appends.iter().zip(verdicts) {
            let Verdict::Written(seq) = verdict else { continue };
            if !self.are_wanted(append.plan) {
                continue;
            }
            let (plan, prev, records) = (append.plan, append.prev, append.records.clone());
            self.push(Written { seq: *seq, plan, prev, records });
        }
        self.wakers().into_iter().for_each(Waker::wake);
    }

    /// Gives them entries that were read, in the order of the journal. Those who wait have to be
    /// woken after that, without a lock.
    #[must_use]
    pub(crate) fn read(&self, entries: Vec<Written>) -> Vec<Waker> {
        entries.into_iter().for_each(|entry| self.push(entry));
        self.wakers()
    }

    fn are_wanted(&self, plan: PlanId) -> bool {
        self.buffers.iter().any(|buffer| buffer.wants(plan))
    }

    fn push(&self, entry: Written) {
        let entry = Arc::new(entry);
        let wanted = self.buffers.iter().filter(|buffer| buffer.wants(entry.plan));
        wanted.for_each(|buffer| buffer.push(&entry));
    }

    /// Those who wait and have something to take.
    fn wakers(&self) -> Vec<Waker> {
        self.buffers.iter().filter_map(|buffer| buffer.waker()).collect()
    }
}

impl Drop for Listeners {
    /// Nothing will come any more.
    fn drop(&mut self) {
        for buffer in &self.buffers {
            buffer.state.lock().is_closed = true;
            buffer.waker().into_iter().for_each(Waker::wake);
        }
    }
}

/// A hint that something has become durable in this process: without its content.
#[derive(Debug, Default)]
pub(crate) struct Bell(Mutex<(bool, Option<Waker>)>);

impl Bell {
    fn ring(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether it has rung since it was ready the last time.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if std::mem::take(&mut state.0) {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Waiting entries of one listener; bounded.
pub(crate) struct Buffer {
    /// Only these plans; all if it is nothing.
    plans: Option<HashSet<PlanId>>,
    entries_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Arc<Written>>,
    bytes: usize,
    /// Number of entries dropped since the last look, and the last of them.
    missed: u64,
    missed_until: Seq,
    is_closed: bool,
    waker: Option<Waker>,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("entries_max", &self.entries_max).finish_non_exhaustive()
    }
}

/// Result of a listener's look.
pub(crate) enum Taken {
    /// The oldest entry that waits.
    Entry(Arc<Written>),
    /// So many were dropped, the last of them at this place.
    Missed(u64, Seq),
    /// Nothing yet.
    Nothing,
    /// Nothing any more.
    Closed,
}

impl Buffer {
    pub(crate) fn new(plans: Option<HashSet<PlanId>>, entries_max: usize) -> Arc<Self> {
        Arc::new(Self { plans, entries_max, state: Mutex::default() })
    }

    pub(crate) fn wants(&self, plan: PlanId) -> bool {
        self.plans.as_ref().is_none_or(|plans| plans.contains(&plan))
    }

    /// Puts one in; the oldest ones are dropped if there is no room.
    fn push(&self, entry: &Arc<Written>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.bytes += entry.records.len();
        state.entries.push_back(Arc::clone(entry));
        while state.entries.len() > self.entries_max || state.bytes > WATCH_BYTES_MAX {
            let Some(dropped) = state.entries.pop_front() else { break };
            state.bytes -= dropped.records.len();
            state.missed += 1;
            state.missed_until = dropped.seq;
        }
    }

    /// Its listener, if it waits and there is something to take.
    fn waker(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        let has_news = !state.entries.is_empty() || state.missed > 0 || state.is_closed;
        has_news.then(|| state.waker.take()).flatten()
    }

    /// Takes what is next; if there is nothing, the waker is called when there is.
    pub(crate) fn take(&self, waker: &Waker) -> Taken {
        let mut state = self.state.lock();
        if state.missed > 0 {
            return Taken::Missed(std::mem::take(&mut state.missed), state.missed_until);
        }
        if let Some(entry) = state.entries.pop_front() {
            state.bytes -= entry.records.len();
            return Taken::Entry(entry);
        }
        if state.is_closed {
            return Taken::Closed;
        }
        state.waker = Some(waker.clone());
        Taken::Nothing
    }
}
