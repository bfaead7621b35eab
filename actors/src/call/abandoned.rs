//! A caller that has given up, as the handler of its call sees it.
//!
//! A caller gives up by dropping its [`Ask`](crate::Ask), or when its deadline passes. Calls that a
//! handler makes are given up with its own call: their handlers work for the same caller, even
//! while the handler in between continues. The chain of the call shows this.

use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use turnwheel_runtime::internal::contain;
use turnwheel_runtime::oneshot::{Metadata, Oneshot, SharedOneshot, WeakOneshot};
use turnwheel_runtime::Group;

use crate::call::Call;

/// Wakers of the futures that wait for one call to be given up; allocated for the first.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<Option<Box<WakerSlots>>>);

/// Wakers by the number of their future, which takes its own out again.
#[derive(Debug, Default)]
struct WakerSlots {
    wakers: BTreeMap<u64, Waker>,
    next: u64,
}

impl Watchers {
    /// Leaves a waker, in the slot that this one has already.
    fn leave(&self, slot: &mut Option<u64>, waker: &Waker) {
        // Cloned before the lock, and dropped after it: code of the user.
        let own = waker.clone();
        let mut guard = self.0.lock();
        let slots = guard.get_or_insert_default();
        let slot = *slot.get_or_insert_with(|| {
            slots.next += 1;
            slots.next
        });
        let former = slots.wakers.insert(slot, own);
        drop(guard);
        drop(former);
    }

    fn give_back(&self, slot: u64) {
        let waker = self.0.lock().as_mut().and_then(|slots| slots.wakers.remove(&slot));
        drop(waker);
    }

    fn wake_all(&self) {
        let wakers = self.0.lock().as_mut().map(|slots| mem::take(&mut slots.wakers));
        // Without the lock: a woken future may look at once.
        for (_, waker) in wakers.into_iter().flatten() {
            contain("a waker of an abandoned call", || waker.wake());
        }
    }
}

impl Metadata for Call {
    fn abandoned(&self) {
        self.watchers.wake_all();
    }
}

/// Whether the caller of this call has given up, or a caller further up in the chain.
pub(crate) fn is_abandoned(call: &Oneshot<Call>, group: &Group) -> bool {
    has_given_up(call, group) || made_for(call).any(|call| call.is_closed())
}

/// Whether the caller of this call has given up.
fn has_given_up(call: &Oneshot<Call>, group: &Group) -> bool {
    // Read here: a handler that does not return may keep the deadlines' timer from its worker.
    // Calls made for this one have no later deadline.
    let deadline_ns = call.metadata().deadline_ns;
    if deadline_ns != u64::MAX && group.now_ns() >= deadline_ns {
        // Expired for the caller too: an answer of a handler that gave up does not count.
        call.expire();
        return true;
    }
    call.is_closed()
}

/// The calls that this one was made for, the nearest first.
fn made_for(call: &Oneshot<Call>) -> impl Iterator<Item = SharedOneshot<Call>> {
    let above = |call: &Oneshot<Call>| call.metadata().chain.above();
    std::iter::successors(above(call), move |call| above(call))
}

/// Leaves a waker for when the call is given up.
fn watch(call: &Oneshot<Call>, slot: &mut Option<u64>, waker: &Waker) {
    // Left before the look: a caller that gives up in between finds it. A call that has ended is
    // seen by the caller, or never matters.
    call.metadata().watchers.leave(slot, waker);
    let _ = call.watch();
}

/// Completes when the caller of a handler has given up: it has dropped its [`Ask`](crate::Ask), its
/// deadline has passed, or its own caller has given up. Never completes without a caller, or once
/// the answer is given.
///
/// From [`Context::abandoned`](crate::Context::abandoned),
/// [`AsyncContext::abandoned`](crate::AsyncContext::abandoned) and
/// [`ReplyTo::abandoned`](crate::ReplyTo::abandoned); may be awaited anywhere, and several times.
///
/// Cost: nothing before its first poll; then one allocation and, for each call in the chain, a
/// short lock.
#[must_use = "futures do nothing unless awaited"]
pub struct Abandoned {
    call: Option<WeakOneshot<Call>>,
    group: Group,
    /// Whether the calls count that this one was made for.
    is_by_all: bool,
    watched: Vec<Watched>,
}

/// A slot among the watchers of a call.
struct Watched {
    call: SharedOneshot<Call>,
    slot: Option<u64>,
}

impl Abandoned {
    pub(crate) fn new(call: Option<WeakOneshot<Call>>, group: Group) -> Self {
        Self { call, group, is_by_all: true, watched: Vec::new() }
    }

    /// Completes when the caller itself has given up; calls further up in the chain do not count.
    pub(crate) fn by_caller(call: WeakOneshot<Call>, group: Group) -> Self {
        Self { call: Some(call), group, is_by_all: false, watched: Vec::new() }
    }

    fn is_given_up(&self, call: &Oneshot<Call>) -> bool {
        match self.is_by_all {
            true => is_abandoned(call, &self.group),
            false => has_given_up(call, &self.group),
        }
    }

    /// Whether the caller has given up.
    pub fn is_abandoned(&self) -> bool {
        match (&self.call, self.watched.first()) {
            (_, Some(Watched { call, .. })) => self.is_given_up(call),
            (Some(call), None) => call.upgrade().is_some_and(|call| self.is_given_up(&call)),
            (None, None) => false,
        }
    }
}

impl Clone for Abandoned {
    fn clone(&self) -> Self {
        let (call, group) = (self.call.clone(), self.group.clone());
        Self { call, group, is_by_all: self.is_by_all, watched: Vec::new() }
    }
}

debug_fields!(impl Abandoned, self => is_abandoned: self.is_abandoned());

impl Future for Abandoned {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.watched.is_empty() {
            let Some(call) = this.call.as_ref().and_then(WeakOneshot::upgrade) else {
                return Poll::Pending;
            };
            let above: Vec<_> = made_for(&call).filter(|_| this.is_by_all).collect();
            let calls = std::iter::once(call).chain(above);
            this.watched = calls.map(|call| Watched { call, slot: None }).collect();
        }
        for Watched { call, slot } in &mut this.watched {
            watch(call, slot, cx.waker());
        }
        match this.is_abandoned() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        for Watched { call, slot } in self.watched.drain(..) {
            if let Some(slot) = slot {
                call.metadata().watchers.give_back(slot);
            }
        }
    }
}
