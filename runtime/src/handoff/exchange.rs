//! A value from one giver to one taker: the answer of a call, without a lock.
//!
//! One word decides who owns what, and counts who is there; its states and the excluded
//! interleavings are in `README.md` of this folder, the model is `loom-tests/tests/exchange.rs`.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::task::{Poll, Waker};

use super::exchange_ref::{release, value_of, Exchange, SharedExchange, WeakExchange, STRONG};
use crate::failure::contain;
use crate::sync::Ordering;

/// The taker's waker is there, unless one of `SETTLED` came before.
const WAKER: u64 = 1;
/// The giver has put the value there.
const GIVEN: u64 = 1 << 1;
/// There is to be no value any more.
const EXPIRED: u64 = 1 << 2;
/// The taker has gone without a value.
const OVER: u64 = 1 << 3;
/// The giver has gone without a value.
const LOST: u64 = 1 << 4;
/// The notes are to hear that the value was given up.
const WATCHED: u64 = 1 << 5;
/// The taker has changed its waker, and may do so again.
const CHANGED: u64 = 1 << 6;
/// One of these comes first, and no other after it. Who sets it owns the waker that is there.
const SETTLED: u64 = GIVEN | EXPIRED | OVER | LOST;

const _: () = assert!(CHANGED < STRONG && SETTLED < STRONG);

/// What goes with an exchange.
pub trait Notes {
    /// The value was given up, or expired, while somebody watched ([`Exchange::watch`]). Called once,
    /// by whoever gave it up; it must not block.
    fn given_up(&self) {}
}

impl Notes for () {}

/// The side that gives, once.
///
/// Invariant in `T`: it writes what the taker reads as the type that the pair was made with.
pub struct Giver<T, N>(Option<NonNull<Exchange<N>>>, PhantomData<fn(T) -> T>);

/// The side that takes. Dropping it gives the value up.
pub struct Taker<T, N: Notes> {
    exchange: NonNull<Exchange<N>>,
    /// 1 once the value was taken. A word: of one byte in it, passed on as a word, the processor would
    /// have to wait for the store.
    taken: u64,
    value: PhantomData<T>,
}

// SAFETY: a value goes from one thread to another; the notes are shared, and dropped by the last.
unsafe impl<T: Send, N: Send + Sync> Send for Giver<T, N> {}
// SAFETY: as above; through a borrow only the head is reached.
unsafe impl<T: Send, N: Send + Sync> Sync for Giver<T, N> {}
// SAFETY: as for the giver.
unsafe impl<T: Send, N: Notes + Send + Sync> Send for Taker<T, N> {}
// SAFETY: as for the giver.
unsafe impl<T: Send, N: Notes + Send + Sync> Sync for Taker<T, N> {}

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

/// A pair of giver and taker. The memory is reused, like that of tasks.
///
/// Unlike a [`completion`](crate::completion::completion()) it has one giver, needs no lock, and carries notes.
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
    pair(Exchange::make::<T>(notes, 2))
}

/// As [`exchange`] with a handle for somebody else, who is counted from the beginning.
#[inline]
pub fn exchange_shared<T, N: Notes>(notes: N) -> (Giver<T, N>, Taker<T, N>, SharedExchange<N>) {
    let exchange = Exchange::make::<T>(notes, 3);
    let (giver, taker) = pair(exchange);
    (giver, taker, SharedExchange(exchange))
}

fn pair<T, N: Notes>(exchange: NonNull<Exchange<N>>) -> (Giver<T, N>, Taker<T, N>) {
    let taker = Taker { exchange, taken: 0, value: PhantomData };
    (Giver(Some(exchange), PhantomData), taker)
}

impl<N> Exchange<N> {
    /// Whether it has come to an end, whatever that is.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.word.load(Ordering::Acquire) & SETTLED != 0
    }

    /// Whether a value given now would reach nobody.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.word.load(Ordering::Acquire) & (EXPIRED | OVER) != 0
    }

    /// Whether it was given up, or has expired, before there was a value.
    #[inline]
    pub fn is_given_up(&self) -> bool {
        self.is_over()
    }

    /// Has [`Notes::given_up`] called when it is given up from now on. False if it has come to an end
    /// already: then it is not called for this.
    pub fn watch(&self) -> bool {
        // AcqRel: what the caller has written is seen by who gives up and sees the bit.
        self.word.fetch_or(WATCHED, Ordering::AcqRel) & SETTLED == 0
    }

    /// Ends it without a value, unless there is one. Any thread.
    pub fn expire(&self)
    where
        N: Notes,
    {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & SETTLED == 0 {
            let next = seen | EXPIRED;
            // AcqRel: the waker of who set `WAKER` is seen; decided by one exchange, as against the
            // giver and the taker.
            match self.word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    wake(self.settled_waker(seen));
                    return self.tell_watchers(seen);
                }
                Err(newer) => seen = newer,
            }
        }
    }

    /// Tells the notes if somebody watches; called by who gave up, with the word before.
    #[inline]
    fn tell_watchers(&self, before: u64)
    where
        N: Notes,
    {
        if before & WATCHED != 0 {
            contain("the notes of an exchange", || self.notes().given_up());
        }
    }

    /// The waker that was there; called by who has settled the word, with the word before.
    #[inline]
    fn settled_waker(&self, before: u64) -> Option<Waker> {
        debug_assert!(before & SETTLED == 0, "who came first has the waker");
        // SAFETY: it is there, and ours by the exchange that has settled the word.
        (before & WAKER != 0).then(|| unsafe { self.waker_parts().into_waker() })
    }
}

/// Wakes the taker.
#[inline]
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contain("the waker of an exchange", || waker.wake());
    }
}

/// The giver settles the word and goes. What it answers is the waker that was there; or nothing at
/// all if another has settled it: then the giver stays.
///
/// # Safety
///
/// The giver's count goes with this call, if it succeeds.
#[inline]
unsafe fn settle_and_go<N>(exchange: NonNull<Exchange<N>>, bit: u64) -> Option<Option<Waker>> {
    // SAFETY: the giver counts on it; not used after it has gone.
    let shared = unsafe { exchange.as_ref() };
    // Acquire: the waker of who set `WAKER` is seen.
    let mut seen = shared.word.load(Ordering::Acquire);
    while seen & SETTLED == 0 {
        // A waker that was changed may be changed again between the look at it and the exchange: then
        // the giver settles first, and goes in a second step.
        let stays = seen & CHANGED != 0;
        let parts = shared.waker_parts();
        let next = (seen | bit) - if stays { 0 } else { STRONG };
        // AcqRel: publishes the value to the taker; shows the waker.
        match shared.word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) if stays => {
                let waker = shared.settled_waker(seen);
                // SAFETY: the giver's count goes.
                unsafe { release(exchange) };
                return Some(waker);
            }
            Ok(_) => {
                // SAFETY: ours since the word is settled. Both halves are of the one waker that
                // was ever there: a change would have made the exchange fail, also if they were
                // read before it, since it comes before the first half of another one.
                return Some((seen & WAKER != 0).then(|| unsafe { parts.into_waker() }));
            }
            Err(newer) => seen = newer,
        }
    }
    None
}

impl<T, N> Giver<T, N> {
    /// Gives the value. One atomic operation, and the waking.
    ///
    /// # Errors
    ///
    /// Nobody waits for it any more; the value comes back.
    #[inline(always)]
    pub fn give(mut self, value: T) -> Result<(), T> {
        let Some(exchange) = self.0 else { unreachable!("a giver gives once") };
        if self.exchange().is_over() {
            return Err(value);
        }
        // SAFETY: made for a `T`, and we count on it.
        let place = unsafe { value_of::<T, N>(exchange) };
        // SAFETY: there is one giver, it gives once, and nobody looks before `GIVEN`.
        place.with_mut(|place| unsafe { place.cast::<T>().write(value) });
        // SAFETY: our count goes, if this succeeds: then we are forgotten below.
        match unsafe { settle_and_go(exchange, GIVEN) } {
            Some(waker) => {
                self.0 = None;
                wake(waker);
                Ok(())
            }
            // SAFETY: put there above, and never anybody else's.
            None => Err(place.with_mut(|place| unsafe { place.cast::<T>().read() })),
        }
    }

    /// What it shares with the taker.
    #[inline]
    pub fn exchange(&self) -> &Exchange<N> {
        match &self.0 {
            // SAFETY: we count on it.
            Some(exchange) => unsafe { exchange.as_ref() },
            None => unreachable!("a giver gives once"),
        }
    }

    /// A handle that keeps the memory of the exchange alone.
    pub fn downgrade(&self) -> WeakExchange<N> {
        match self.0 {
            Some(exchange) => WeakExchange::of(self.exchange(), exchange),
            None => unreachable!("a giver gives once"),
        }
    }
}

impl<T, N> Drop for Giver<T, N> {
    #[inline]
    fn drop(&mut self) {
        let Some(exchange) = self.0.take() else { return };
        // SAFETY: our count goes; if this does not succeed, below.
        match unsafe { settle_and_go(exchange, LOST) } {
            Some(waker) => wake(waker),
            // SAFETY: our count goes.
            None => unsafe { release(exchange) },
        }
    }
}

impl<T, N: Notes> Taker<T, N> {
    /// What it shares with the giver.
    #[inline]
    pub fn exchange(&self) -> &Exchange<N> {
        // SAFETY: we count on it.
        unsafe { self.exchange.as_ref() }
    }

    /// Whether the value was taken.
    #[inline(always)]
    pub fn has_taken(&self) -> bool {
        self.taken != 0
    }

    /// A handle for somebody else.
    pub fn share(&self) -> SharedExchange<N> {
        SharedExchange::of(self.exchange(), self.exchange)
    }

    /// Takes the value, or leaves a waker for it: the last one that was left is woken.
    ///
    /// Cost: one atomic operation, and the waker's clone unless it is there from before.
    #[inline]
    pub fn poll(&mut self, waker: &Waker) -> Poll<Taken<T>> {
        // Acquire: pairs with the exchanges of the giver and of `expire`.
        let mut seen = self.exchange().word.load(Ordering::Acquire);
        loop {
            if seen & SETTLED != 0 {
                return Poll::Ready(self.take(seen));
            }
            let shared = self.exchange();
            if seen & WAKER != 0 {
                // The giver may have it now; it is compared as two addresses.
                let known = shared.waker_parts();
                if known.is(waker) {
                    return Poll::Pending;
                }
                let next = (seen & !WAKER) | CHANGED;
                // AcqRel: the waker is ours again, unless the word is settled.
                let cleared =
                    shared.word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire);
                if let Err(newer) = cleared {
                    seen = newer;
                    continue;
                }
                // SAFETY: there, and nobody else's since the exchange.
                drop(unsafe { known.into_waker() });
            }
            shared.put_waker(waker.clone());
            // AcqRel: publishes the waker; shows the value.
            seen = shared.word.fetch_or(WAKER, Ordering::AcqRel);
            if seen & SETTLED == 0 {
                return Poll::Pending;
            }
            // SAFETY: who settled the word has not seen it, so it is still ours.
            drop(unsafe { shared.waker_parts().into_waker() });
        }
    }

    /// What there is to take in a settled word.
    #[inline]
    fn take(&mut self, seen: u64) -> Taken<T> {
        if self.has_taken() {
            return Taken::Over;
        }
        if seen & GIVEN == 0 {
            return if seen & EXPIRED != 0 { Taken::Expired } else { Taken::Lost };
        }
        self.taken = 1;
        // SAFETY: it is there, the giver has done with it, and it is taken once.
        Taken::Value(unsafe { self.read() })
    }

    /// Moves the value out.
    ///
    /// # Safety
    ///
    /// It is there, and the word that said so was read with Acquire.
    #[inline]
    unsafe fn read(&self) -> T {
        // SAFETY: made for a `T`, and we count on it.
        let place = unsafe { value_of::<T, N>(self.exchange) };
        // SAFETY: forwarded to the caller.
        place.with(|place| unsafe { place.cast::<T>().read() })
    }

    /// Gives the value up; drops it if it is there.
    fn give_up(&self) {
        let shared = self.exchange();
        let mut seen = shared.word.load(Ordering::Acquire);
        while seen & SETTLED == 0 {
            // AcqRel: decided by one exchange, as against the giver and `expire`.
            let over = shared.word.compare_exchange(
                seen,
                seen | OVER,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match over {
                Ok(_) => {
                    drop(shared.settled_waker(seen));
                    return shared.tell_watchers(seen);
                }
                Err(newer) => seen = newer,
            }
        }
        if seen & GIVEN != 0 {
            // SAFETY: it is there, and the giver has done with it; not taken, nor again.
            drop(unsafe { self.read() });
        }
    }
}

impl<T, N: Notes> Drop for Taker<T, N> {
    #[inline]
    fn drop(&mut self) {
        /// Also if what is dropped panics.
        struct Go<N>(NonNull<Exchange<N>>);
        impl<N> Drop for Go<N> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the taker's count goes.
                unsafe { release(self.0) };
            }
        }
        let _go = Go(self.exchange);
        if !self.has_taken() {
            self.give_up();
        }
    }
}

impl<N> fmt::Debug for Exchange<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("is_settled", &self.is_settled()).finish_non_exhaustive()
    }
}

impl<T, N> fmt::Debug for Giver<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Giver").field("is_there", &self.0.is_some()).finish()
    }
}

impl<T, N: Notes> fmt::Debug for Taker<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Taker").field(self.exchange()).finish()
    }
}
