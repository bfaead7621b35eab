//! Lock-free channel for one value from one sender to one receiver: the answer of a call.
//!
//! One word holds the state of the value and the reference counts. `README.md` of this folder lists
//! its states and the excluded interleavings. Model: `loom-tests/tests/models/oneshot.rs`.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::task::{Poll, Waker};

use super::assisted::assist;
use super::oneshot_state::{let_go, release, value_of, STRONG, WAKER};
pub use super::oneshot_state::{Oneshot, SharedOneshot, WeakOneshot};
use super::polling::polling_waker;
use crate::failure::contain;
use crate::sync::Ordering;

/// The sender has stored the value.
const SENT: u64 = 1 << 1;
/// The deadline has passed: no value is accepted.
const EXPIRED: u64 = 1 << 2;
/// The receiver was dropped without a value.
const CLOSED: u64 = 1 << 3;
/// The sender was dropped without a value.
const DROPPED: u64 = 1 << 4;
/// [`Metadata::abandoned`] is to be called when the receiver is dropped or the deadline passes.
const WATCHED: u64 = 1 << 5;
/// The receiver has replaced its waker once, and may do so again.
const CHANGED: u64 = 1 << 6;
/// Exactly one of these bits is ever set. The thread that sets it owns the stored waker.
const SETTLED: u64 = SENT | EXPIRED | CLOSED | DROPPED;

const _: () = assert!(CHANGED < STRONG && SETTLED < STRONG);

/// Data that sender, receiver and handles can read.
pub trait Metadata {
    /// Called once after [`Oneshot::watch`], on the thread that drops the receiver or expires the
    /// channel. Must not block.
    fn abandoned(&self) {}
}

impl Metadata for () {}

/// Sending half; sends once.
///
/// Invariant in `T`: the receiver reads the value as the type that the pair was made with.
pub struct Sender<T, N>(NonNull<Oneshot<N>>, PhantomData<fn(T) -> T>);

/// Receiving half. Dropping it closes the channel and drops a value that was sent.
pub struct Receiver<T, N: Metadata> {
    state_ptr: NonNull<Oneshot<N>>,
    /// 1 once the value was received. A full word: a byte store followed by a word load would
    /// stall.
    received: u64,
    value: PhantomData<T>,
}

// SAFETY: the value moves to the other thread; the metadata is shared, and dropped by the last.
unsafe impl<T: Send, N: Send + Sync> Send for Sender<T, N> {}
// SAFETY: as above; a borrow reaches the head only.
unsafe impl<T: Send, N: Send + Sync> Sync for Sender<T, N> {}
// SAFETY: as for the sender.
unsafe impl<T: Send, N: Metadata + Send + Sync> Send for Receiver<T, N> {}
// SAFETY: as for the sender.
unsafe impl<T: Send, N: Metadata + Send + Sync> Sync for Receiver<T, N> {}

/// Result of [`Receiver::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// The value.
    Value(T),
    /// [`Oneshot::expire`] came first.
    Expired,
    /// The sender was dropped without a value.
    SenderDropped,
    /// The value was received by an earlier call.
    AlreadyReceived,
}

/// Returns a sender and a receiver. Their memory is reused, like that of tasks.
///
/// Unlike a [`completion`](crate::completion::completion()) it has one sender, takes no lock, and
/// carries metadata.
///
/// ```
/// use std::task::{Poll, Waker};
/// use turnwheel_runtime::oneshot::{channel, Metadata, Received};
/// struct Label(&'static str);
/// impl Metadata for Label {}
/// let (sender, mut receiver) = channel(Label("for both"));
/// assert_eq!(receiver.poll(Waker::noop()), Poll::Pending);
/// assert_eq!(sender.send(42), Ok(()));
/// assert_eq!(receiver.poll(Waker::noop()), Poll::Ready(Received::Value(42)));
/// assert_eq!(receiver.state().metadata().0, "for both");
/// ```
pub fn channel<T, N: Metadata>(metadata: N) -> (Sender<T, N>, Receiver<T, N>) {
    pair(Oneshot::make::<T>(metadata, 2, None))
}

/// As [`channel`], for an answer that is most likely awaited where the channel is made.
#[inline(always)]
pub(crate) fn channel_awaited<T, N: Metadata>(metadata: N) -> (Sender<T, N>, Receiver<T, N>) {
    pair(Oneshot::make::<T>(metadata, 2, polling_waker()))
}

/// As [`channel`], with a third handle on the shared state. Inside the poll of a future by a turn
/// the receiver has the waker of that poll from the beginning.
#[inline(always)]
pub fn channel_shared<T, N: Metadata>(
    metadata: N,
) -> (Sender<T, N>, Receiver<T, N>, SharedOneshot<N>) {
    let state = Oneshot::make::<T>(metadata, 3, polling_waker());
    let (sender, receiver) = pair(state);
    (sender, receiver, SharedOneshot(state))
}

#[inline(always)]
fn pair<T, N: Metadata>(state: NonNull<Oneshot<N>>) -> (Sender<T, N>, Receiver<T, N>) {
    let receiver = Receiver { state_ptr: state, received: 0, value: PhantomData };
    (Sender(state, PhantomData), receiver)
}

impl<N> Oneshot<N> {
    /// Returns whether the channel is settled: sent, expired, closed or dropped.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.word.load(Ordering::Acquire) & SETTLED != 0
    }

    /// Returns whether the receiver is gone or the deadline has passed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & (EXPIRED | CLOSED) != 0
    }

    /// Requests a call of [`Metadata::abandoned`]. Returns false if the channel is settled already:
    /// then no call follows.
    pub fn watch(&self) -> bool {
        // AcqRel: the thread that sees the bit when it closes also sees the caller's writes.
        self.word.fetch_or(WATCHED, Ordering::AcqRel) & SETTLED == 0
    }

    /// Ends the channel without a value, unless one was sent. Any thread.
    pub fn expire(&self)
    where
        N: Metadata,
    {
        if let Ok(before) = self.settle(EXPIRED) {
            wake(self.settled_waker(before));
            self.notify_watchers(before);
        }
    }

    /// Sets a bit of `SETTLED` and returns the word before; an error with the word if another bit
    /// was set first.
    fn settle(&self, bit: u64) -> Result<u64, u64> {
        let mut seen = self.word.load(Ordering::Acquire);
        while seen & SETTLED == 0 {
            let next = seen | bit;
            // AcqRel: shows the waker stored before `WAKER` was set. One compare-exchange decides
            // between sender, receiver and expiry. Acquire on failure: shows the value.
            match self.word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(seen),
                Err(newer) => seen = newer,
            }
        }
        Err(seen)
    }

    /// Calls [`Metadata::abandoned`] if it was requested. `before` is the word before it was
    /// settled.
    #[inline]
    fn notify_watchers(&self, before: u64)
    where
        N: Metadata,
    {
        if before & WATCHED != 0 {
            contain("the metadata of a oneshot", || self.metadata().abandoned());
        }
    }

    /// Takes the stored waker. Only the thread that settled the word calls it, with the word
    /// before.
    #[inline]
    fn settled_waker(&self, before: u64) -> Option<Waker> {
        debug_assert!(
            before & SETTLED == 0,
            "only the thread that settled the word takes the waker"
        );
        // SAFETY: stored, and ours because our compare-exchange settled the word.
        (before & WAKER != 0).then(|| unsafe { self.waker_parts().into_waker() })
    }
}

/// Wakes the receiver.
#[inline]
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contain("the waker of a oneshot", || waker.wake());
    }
}

/// Settles the word and releases the sender's count in one step. Returns the stored waker; returns
/// `None` without releasing if the word was settled before.
///
/// # Safety
///
/// The caller owns the sender's count, and gives it up if this returns `Some`.
#[inline]
unsafe fn settle_and_release<N>(state: NonNull<Oneshot<N>>, bit: u64) -> Option<Option<Waker>> {
    // SAFETY: the sender's count keeps it; not used after the release.
    let shared = unsafe { state.as_ref() };
    // Acquire: shows the waker stored before `WAKER` was set.
    let mut seen = shared.word.load(Ordering::Acquire);
    while seen & SETTLED == 0 {
        // A replaced waker may be replaced again between reading it and the compare-exchange. In
        // that case the sender settles first and releases in a second step.
        let stays = seen & CHANGED != 0;
        let parts = shared.waker_parts();
        let next = (seen | bit) - if stays { 0 } else { STRONG };
        // AcqRel: publishes the value to the receiver; shows the waker.
        match shared.word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) if stays => {
                let waker = shared.settled_waker(seen);
                // SAFETY: releases the sender's count.
                unsafe { release(state) };
                return Some(waker);
            }
            Ok(_) => {
                // SAFETY: ours since the word is settled. Both halves belong to the only waker ever
                // stored: replacing it sets `CHANGED` first, which fails the compare-exchange.
                return Some((seen & WAKER != 0).then(|| unsafe { parts.into_waker() }));
            }
            Err(newer) => seen = newer,
        }
    }
    None
}

impl<T, N> Sender<T, N> {
    /// Sends the value. Cost: one atomic operation, and the wake-up.
    ///
    /// # Errors
    ///
    /// The receiver is gone or the deadline has passed; the value is returned.
    #[inline(always)]
    pub fn send(self, value: T) -> Result<(), T> {
        if self.state().is_closed() {
            return Err(value);
        }
        // SAFETY: made for a `T`, and our count keeps it.
        let place = unsafe { value_of::<T, N>(self.0) };
        // SAFETY: one sender writes once, and the receiver reads only after `SENT`.
        place.with_mut(|place| unsafe { place.cast::<T>().write(value) });
        self.publish().map_err(|sender| {
            // SAFETY: as above: the sender that came back counts still.
            let place = unsafe { value_of::<T, N>(sender.0) };
            // SAFETY: written above, and never visible to another thread.
            place.with_mut(|place| unsafe { place.cast::<T>().read() })
        })
    }

    /// As [`Sender::send`], of a value that is large: it does not pass through the stack.
    ///
    /// # Errors
    ///
    /// As of [`Sender::send`].
    pub fn send_boxed(self, value: Box<T>) -> Result<(), Box<T>> {
        if self.state().is_closed() {
            return Err(value);
        }
        let value = Box::into_raw(value).cast::<MaybeUninit<T>>();
        // SAFETY: made for a `T`, and our count keeps it.
        let place = unsafe { value_of::<T, N>(self.0) };
        // SAFETY: as in `send`; the value is moved, and its box keeps the bytes as they are.
        place.with_mut(|place| unsafe { place.copy_from_nonoverlapping(value, 1) });
        // SAFETY: it came from a box of the same layout, and frees its memory alone.
        let empty = unsafe { Box::from_raw(value) };
        // SAFETY: the bytes are a `T`, and the copy was never visible to another thread.
        self.publish().map_err(|_| unsafe { empty.assume_init() })
    }

    /// Settles the channel with the value in its place. Gives the sender back if it was settled
    /// before: its count keeps the place, from which the value is taken out again.
    #[inline(always)]
    fn publish(self) -> Result<(), Self> {
        // SAFETY: our count is released if this succeeds; the sender is forgotten then.
        let settled = unsafe { settle_and_release(self.0, SENT) };
        let Some(waker) = settled else { return Err(self) };
        std::mem::forget(self);
        wake(waker);
        Ok(())
    }

    /// State shared with the receiver.
    #[inline]
    pub fn state(&self) -> &Oneshot<N> {
        // SAFETY: our count keeps it.
        unsafe { self.0.as_ref() }.alive()
    }

    /// Returns another handle on the shared state.
    pub fn share(&self) -> SharedOneshot<N> {
        SharedOneshot::of(self.state(), self.0)
    }

    /// Returns a handle that keeps the memory, not the metadata.
    pub fn downgrade(&self) -> WeakOneshot<N> {
        WeakOneshot::of(self.state(), self.0)
    }
}

impl<T, N> Drop for Sender<T, N> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: our count is released here, or below if this fails.
        match unsafe { settle_and_release(self.0, DROPPED) } {
            Some(waker) => wake(waker),
            // SAFETY: releases our count.
            None => unsafe { release(self.0) },
        }
    }
}

impl<T, N: Metadata> Receiver<T, N> {
    /// State shared with the sender.
    #[inline]
    pub fn state(&self) -> &Oneshot<N> {
        // SAFETY: our count keeps it.
        unsafe { self.state_ptr.as_ref() }.alive()
    }

    /// Returns whether the value was received.
    #[inline(always)]
    pub fn is_received(&self) -> bool {
        self.received != 0
    }

    /// The value, if it was sent and is not received.
    pub(crate) fn peek(&mut self) -> Option<&T> {
        if self.is_received() || self.state().word.load(Ordering::Acquire) & SENT == 0 {
            return None;
        }
        // SAFETY: made for a `T`, and our count keeps it.
        let place = unsafe { value_of::<T, N>(self.state_ptr) };
        // SAFETY: sent and not received, and the receiver is borrowed.
        place.with(|place| Some(unsafe { &*place.cast::<T>() }))
    }

    /// As [`Oneshot::expire`]. Returns whether it came first.
    pub(crate) fn expire(&self) -> bool {
        let settled = self.state().settle(EXPIRED);
        if let Ok(before) = settled {
            let_go(self.state().settled_waker(before));
        }
        settled.is_ok()
    }

    /// Returns another handle on the shared state.
    pub fn share(&self) -> SharedOneshot<N> {
        SharedOneshot::of(self.state(), self.state_ptr)
    }

    /// Receives the value, or stores a waker. Only the waker stored last is woken.
    ///
    /// Cost: one atomic operation, and a clone of the waker unless the same one is stored already.
    #[inline]
    pub fn poll(&mut self, waker: &Waker) -> Poll<Received<T>> {
        self.poll_as(waker, Self::read)
    }

    /// As [`Receiver::poll`], of a value that is large: it does not pass through the stack.
    pub fn poll_boxed(&mut self, waker: &Waker) -> Poll<Received<Box<T>>> {
        self.poll_as(waker, Self::read_boxed)
    }

    #[inline(always)]
    fn poll_as<V>(&mut self, waker: &Waker, read: unsafe fn(&Self) -> V) -> Poll<Received<V>> {
        // Acquire: pairs with the compare-exchange of the sender and of `expire`.
        let mut seen = self.state().word.load(Ordering::Acquire);
        if seen & SETTLED == 0 {
            assist(|| self.state().is_settled());
            seen = self.state().word.load(Ordering::Acquire);
        }
        loop {
            if seen & SETTLED != 0 {
                return Poll::Ready(self.take(seen, read));
            }
            let shared = self.state();
            if seen & WAKER != 0 {
                // The sender may own it by now, so only the two addresses are compared.
                let known = shared.waker_parts();
                if known.is(waker) {
                    return Poll::Pending;
                }
                let next = (seen & !WAKER) | CHANGED;
                // AcqRel: makes the waker ours again, unless the word is settled.
                let cleared =
                    shared.word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire);
                if let Err(newer) = cleared {
                    seen = newer;
                    continue;
                }
                // SAFETY: stored, and ours since the compare-exchange.
                let_go(Some(unsafe { known.into_waker() }));
            }
            shared.put_waker(waker.clone());
            // AcqRel: publishes the waker; shows the value.
            seen = shared.word.fetch_or(WAKER, Ordering::AcqRel);
            if seen & SETTLED == 0 {
                return Poll::Pending;
            }
            // SAFETY: the thread that settled the word did not see `WAKER`, so it is still ours.
            let_go(Some(unsafe { shared.waker_parts().into_waker() }));
        }
    }

    /// Reads the outcome of a settled word.
    #[inline]
    fn take<V>(&mut self, seen: u64, read: unsafe fn(&Self) -> V) -> Received<V> {
        if self.is_received() {
            return Received::AlreadyReceived;
        }
        if seen & SENT == 0 {
            return if seen & EXPIRED != 0 { Received::Expired } else { Received::SenderDropped };
        }
        self.received = 1;
        // SAFETY: the value was sent, and `received` allows one read.
        Received::Value(unsafe { read(self) })
    }

    /// Moves the value out.
    ///
    /// # Safety
    ///
    /// The value was sent, the word was read with Acquire, and the value is read once.
    #[inline]
    unsafe fn read(&self) -> T {
        // SAFETY: made for a `T`, and our count keeps it.
        let place = unsafe { value_of::<T, N>(self.state_ptr) };
        // SAFETY: forwarded to the caller.
        place.with(|place| unsafe { place.cast::<T>().read() })
    }

    /// As [`Receiver::read`], onto the heap.
    ///
    /// # Safety
    ///
    /// As of [`Receiver::read`].
    unsafe fn read_boxed(&self) -> Box<T> {
        let mut boxed = Box::<T>::new_uninit();
        // SAFETY: made for a `T`, and our count keeps it.
        let place = unsafe { value_of::<T, N>(self.state_ptr) };
        // SAFETY: both are places of a `T`, and the caller says that this one is read once.
        place.with(|place| unsafe {
            place.cast::<T>().copy_to_nonoverlapping(boxed.as_mut_ptr(), 1)
        });
        // SAFETY: written above.
        unsafe { boxed.assume_init() }
    }

    /// Closes the channel; drops the value if it was sent.
    fn close(&self) {
        let shared = self.state();
        match shared.settle(CLOSED) {
            Ok(before) => {
                let_go(shared.settled_waker(before));
                shared.notify_watchers(before);
            }
            // SAFETY: sent and not received; the receiver is dropped after this.
            Err(seen) if seen & SENT != 0 => drop(unsafe { self.read() }),
            Err(_) => {}
        }
    }
}

impl<T, N: Metadata> Drop for Receiver<T, N> {
    #[inline]
    fn drop(&mut self) {
        /// Releases the count also if the value's destructor panics.
        struct Release<N>(NonNull<Oneshot<N>>);
        impl<N> Drop for Release<N> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: releases the receiver's count.
                unsafe { release(self.0) };
            }
        }
        let _release = Release(self.state_ptr);
        if !self.is_received() {
            self.close();
        }
    }
}

debug_fields!(impl<N> Oneshot<N>, self => is_settled: self.is_settled());
debug_fields!(impl<T, N> Sender<T, N>, self => state: self.state());
debug_fields!(impl<T, N: Metadata> Receiver<T, N>, self => state: self.state());
