//! A value from one giver to one taker: the answer of a call, without a lock.
//!
//! One word decides who owns what; its states and the excluded interleavings are in `README.md` of
//! this folder, the model is `loom-tests/tests/exchange.rs`.

use std::fmt;
use std::mem::MaybeUninit;
use std::task::{Poll, Waker};

use crate::failure::contain;
use crate::sync::{Arc, AtomicU32, Ordering, UnsafeCell};

/// The taker's waker is there, unless one of `SETTLED` came before.
const WAKER: u32 = 1;
/// The giver has put the value there.
const GIVEN: u32 = 1 << 1;
/// There is to be no value any more; never set after `GIVEN`.
const EXPIRED: u32 = 1 << 2;
/// The taker has taken the value, or gone.
const OVER: u32 = 1 << 3;
/// The giver has gone without a value.
const LOST: u32 = 1 << 4;
/// The notes are to hear that the value was given up.
const WATCHED: u32 = 1 << 5;
/// Who sets the first of these owns the waker that is there.
const SETTLED: u32 = GIVEN | EXPIRED | OVER | LOST;

/// What giver and taker share; one heap allocation with the notes `N` that both can read.
pub struct Exchange<T, N> {
    state: AtomicU32,
    /// There while `GIVEN` is set, and neither `EXPIRED` nor `OVER`.
    value: UnsafeCell<MaybeUninit<T>>,
    /// There while `WAKER` is set, and none of `SETTLED`.
    waker: UnsafeCell<MaybeUninit<Waker>>,
    notes: N,
}

// SAFETY: value and waker are reached by whoever owns them by the word's states only; a value goes
// from one thread to another, the notes are shared.
unsafe impl<T: Send, N: Send> Send for Exchange<T, N> {}
// SAFETY: as above.
unsafe impl<T: Send, N: Sync> Sync for Exchange<T, N> {}

/// What goes with an exchange.
pub trait Notes {
    /// The value was given up, or expired, while somebody watched ([`Exchange::watch`]). Called once,
    /// by whoever gave it up; it must not block.
    fn given_up(&self) {}
}

impl Notes for () {}

/// The side that gives, once.
pub struct Giver<T, N>(Option<Arc<Exchange<T, N>>>);

/// The side that takes. Dropping it gives the value up.
pub struct Taker<T, N: Notes>(Arc<Exchange<T, N>>);

/// What a taker gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<T> {
    /// The value.
    Value(T),
    /// [`Exchange::expire`] came first.
    Expired,
    /// The giver has gone without a value.
    Lost,
    /// The value was taken before.
    Over,
}

/// A pair of giver and taker. One heap allocation.
///
/// Unlike a [`completion`](super::completion()) it has one giver, needs no lock, and carries notes.
///
/// ```
/// use std::task::{Poll, Waker};
/// use turnwheel_runtime::completion::{exchange, Notes, Taken};
/// struct Note(&'static str);
/// impl Notes for Note {}
/// let (giver, mut taker) = exchange(Note("for both"));
/// assert_eq!(taker.poll(Waker::noop()), Poll::Pending);
/// assert_eq!(giver.give(42), Ok(()));
/// assert_eq!(taker.poll(Waker::noop()), Poll::Ready(Taken::Value(42)));
/// assert_eq!(taker.exchange().notes().0, "for both");
/// ```
pub fn exchange<T, N: Notes>(notes: N) -> (Giver<T, N>, Taker<T, N>) {
    let shared = Arc::new(Exchange {
        state: AtomicU32::new(0),
        value: UnsafeCell::new(MaybeUninit::uninit()),
        waker: UnsafeCell::new(MaybeUninit::uninit()),
        notes,
    });
    (Giver(Some(Arc::clone(&shared))), Taker(shared))
}

impl<T, N> Exchange<T, N> {
    /// What both sides can read.
    #[inline]
    pub fn notes(&self) -> &N {
        &self.notes
    }

    /// Whether it has come to an end, whatever that is.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.state.load(Ordering::Acquire) & SETTLED != 0
    }

    /// Whether a value given now would reach nobody.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) & (EXPIRED | OVER) != 0
    }

    /// Whether it was given up, or has expired, before there was a value.
    #[inline]
    pub fn is_given_up(&self) -> bool {
        let seen = self.state.load(Ordering::Acquire);
        seen & (EXPIRED | OVER) != 0 && seen & (GIVEN | LOST) == 0
    }

    /// Has [`Notes::given_up`] called when it is given up from now on. False if it has come to an end
    /// already: then it is not called for this.
    pub fn watch(&self) -> bool {
        // AcqRel: what the caller has written is seen by who gives up and sees the bit.
        self.state.fetch_or(WATCHED, Ordering::AcqRel) & SETTLED == 0
    }

    /// Ends it without a value, unless there is one. Any thread.
    pub fn expire(&self)
    where
        N: Notes,
    {
        let mut seen = self.state.load(Ordering::Relaxed);
        while seen & SETTLED == 0 {
            let next = seen | EXPIRED;
            // AcqRel: the waker of who set `WAKER` is seen; decided by one exchange, as against the
            // giver and the taker.
            match self.state.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.wake(seen);
                    return self.tell_watchers(seen);
                }
                Err(newer) => seen = newer,
            }
        }
    }

    /// Tells the notes if somebody watches; called by who gave up, with the word before.
    #[inline]
    fn tell_watchers(&self, before: u32)
    where
        N: Notes,
    {
        if before & WATCHED != 0 {
            contain("the notes of an exchange", || self.notes.given_up());
        }
    }

    /// Wakes the taker; called by who set the first bit of `SETTLED`, with the word before.
    #[inline]
    fn wake(&self, before: u32) {
        if before & WAKER == 0 {
            return;
        }
        // SAFETY: it is there, and ours by the exchange that has settled the word: moved out, and
        // at most compared by its taker meanwhile.
        let waker = self.waker.with(|waker| unsafe { waker.cast::<Waker>().read() });
        contain("the waker of an exchange", || waker.wake());
    }

    /// Puts the value there. Gives it back if nobody is to have it.
    #[inline]
    fn give(&self, value: T) -> Result<(), T> {
        if self.is_over() {
            return Err(value);
        }
        // SAFETY: there is one giver, it gives once, and nobody looks before `GIVEN`.
        self.value.with_mut(|place| unsafe { place.cast::<T>().write(value) });
        // AcqRel: publishes the value to the taker; shows the waker.
        let before = self.state.fetch_or(GIVEN, Ordering::AcqRel);
        if before & (EXPIRED | OVER) != 0 {
            // SAFETY: put there above, and by the word before nobody else's.
            return Err(self.value.with_mut(|place| unsafe { place.cast::<T>().read() }));
        }
        self.wake(before);
        Ok(())
    }
}

impl<T, N> Giver<T, N> {
    /// Gives the value. Two atomic operations, and the waking.
    ///
    /// # Errors
    ///
    /// Nobody waits for it any more; the value comes back.
    #[inline]
    pub fn give(mut self, value: T) -> Result<(), T> {
        match self.0.take() {
            Some(shared) => shared.give(value),
            None => unreachable!("a giver gives once"),
        }
    }

    /// What it shares with the taker.
    #[inline]
    pub fn exchange(&self) -> &Arc<Exchange<T, N>> {
        match &self.0 {
            Some(shared) => shared,
            None => unreachable!("a giver gives once"),
        }
    }
}

impl<T, N> Drop for Giver<T, N> {
    #[inline]
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            let before = shared.state.fetch_or(LOST, Ordering::AcqRel);
            if before & SETTLED == 0 {
                shared.wake(before);
            }
        }
    }
}

impl<T, N: Notes> Taker<T, N> {
    /// What it shares with the giver.
    #[inline]
    pub fn exchange(&self) -> &Arc<Exchange<T, N>> {
        &self.0
    }

    /// Takes the value, or leaves a waker for it: the last one that was left is woken.
    ///
    /// Cost: one atomic operation, and the waker's clone unless it is there from before.
    #[inline]
    pub fn poll(&mut self, waker: &Waker) -> Poll<Taken<T>> {
        let shared = &*self.0;
        // Acquire: pairs with the exchanges of the giver and of `expire`.
        let mut seen = shared.state.load(Ordering::Acquire);
        loop {
            if seen & SETTLED != 0 {
                return Poll::Ready(self.take(seen));
            }
            if seen & WAKER != 0 {
                // SAFETY: it was there; the giver may move it out now, which leaves it as it is.
                let known = shared.waker.with(|known| unsafe { &*known.cast::<Waker>() });
                if known.will_wake(waker) {
                    return Poll::Pending;
                }
                let next = seen & !WAKER;
                // AcqRel: the waker is ours again, unless the word is settled.
                let cleared =
                    shared.state.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire);
                if let Err(newer) = cleared {
                    seen = newer;
                    continue;
                }
                // SAFETY: there, and nobody else's since the exchange.
                drop(shared.waker.with_mut(|known| unsafe { known.cast::<Waker>().read() }));
            }
            let own = waker.clone();
            // SAFETY: nobody looks while `WAKER` is not set.
            shared.waker.with_mut(|place| unsafe { place.cast::<Waker>().write(own) });
            // AcqRel: publishes the waker; shows the value.
            seen = shared.state.fetch_or(WAKER, Ordering::AcqRel);
            if seen & SETTLED == 0 {
                return Poll::Pending;
            }
            // SAFETY: who settled the word has not seen it, so it is still ours.
            drop(shared.waker.with_mut(|place| unsafe { place.cast::<Waker>().read() }));
        }
    }

    /// What there is to take in a settled word.
    #[inline]
    fn take(&mut self, seen: u32) -> Taken<T> {
        if seen & (EXPIRED | OVER | GIVEN) != GIVEN {
            return match seen {
                seen if seen & EXPIRED != 0 => Taken::Expired,
                seen if seen & OVER != 0 => Taken::Over,
                _ => Taken::Lost,
            };
        }
        // SAFETY: it is there, and the giver has done with it.
        let value = self.0.value.with_mut(|place| unsafe { place.cast::<T>().read() });
        // A store: with a value there, nobody else changes the word but to watch, which comes too
        // late then. Release: the end of the
        // allocation comes after it anyway, by its count.
        self.0.state.store(seen | OVER, Ordering::Release);
        Taken::Value(value)
    }
}

impl<T, N: Notes> Drop for Taker<T, N> {
    #[inline]
    fn drop(&mut self) {
        if self.0.state.load(Ordering::Relaxed) & OVER != 0 {
            return;
        }
        // AcqRel: shows the value that is dropped here; or the giver keeps its own.
        let before = self.0.state.fetch_or(OVER, Ordering::AcqRel);
        if before & SETTLED == 0 && before & WAKER != 0 {
            // SAFETY: there, and ours by the exchange that has settled the word.
            drop(self.0.waker.with_mut(|waker| unsafe { waker.cast::<Waker>().read() }));
        }
        if before & SETTLED == 0 {
            self.0.tell_watchers(before);
        }
        if before & (GIVEN | EXPIRED) == GIVEN {
            // SAFETY: there, and the giver has done with it.
            drop(self.0.value.with_mut(|place| unsafe { place.cast::<T>().read() }));
        }
    }
}

impl<T, N> fmt::Debug for Exchange<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("is_settled", &self.is_settled()).finish_non_exhaustive()
    }
}

impl<T, N> fmt::Debug for Giver<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Giver").field(&self.0).finish()
    }
}

impl<T, N: Notes> fmt::Debug for Taker<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Taker").field(&self.0).finish()
    }
}
