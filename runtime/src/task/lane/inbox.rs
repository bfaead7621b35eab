//! The submitted lane, whose tail is the state word of the task; see `task/README.md`.
//!
//! Many producers push with a single exchange, which also admits: the closed bit and the count are
//! in the word. The running worker is the only consumer. After a successful exchange to idle the
//! former runner does not touch the task any more.

use std::ptr;

use super::node::{Link, Node};
use super::word::{Word, CLOSED, IDLE, STUB, TAG};
use crate::limits::{LINK_SPINS_MAX, MAILBOX_JOBS_MAX as PLACES_MAX};
use crate::sync::{keeps, order, spin_hint, AtomicPtr, AtomicU32, AtomicU64, Ordering, Step};

/// Bits of the signal word.
pub(crate) mod bits {
    /// Some subscription is ready.
    pub(crate) const READY: u32 = 1;
    /// Close was requested, or an event happened that a closing task waits for.
    pub(crate) const CLOSE: u32 = 1 << 1;
    /// Stop was requested: skip the queued jobs, close in order.
    pub(crate) const STOP: u32 = 1 << 2;
    /// Fail was requested; the failure is in `Extra`.
    pub(crate) const FAIL: u32 = 1 << 3;
    /// Kill was requested: no hooks but the clean-up.
    pub(crate) const KILL: u32 = 1 << 4;
    /// The last handle is leaving.
    pub(crate) const ORPHAN: u32 = 1 << 5;
    /// The policy mailbox has jobs.
    pub(crate) const MAIL: u32 = 1 << 6;
    /// A producer waits for room in the mailbox.
    pub(crate) const ROOM: u32 = 1 << 7;
    /// The urgent lane has jobs.
    pub(crate) const URGENT: u32 = 1 << 8;
    /// The interrupted hook is to run.
    pub(crate) const INTERRUPT: u32 = 1 << 9;
    /// Everything that must wake a task.
    pub(crate) const WAKE: u32 =
        READY | CLOSE | STOP | FAIL | KILL | ORPHAN | MAIL | ROOM | URGENT | INTERRUPT;
    /// Signals that go before the next submitted job.
    pub(crate) const SYSTEM: u32 = STOP | FAIL | KILL | URGENT | INTERRUPT;
    /// Largest address that is not a node.
    pub(crate) const LANE_EMPTY_MAX: usize = super::STUB;
    /// The task waits inside a phase or an exclusive future, the lane untouched.
    pub(crate) const HELD: u32 = 1 << 16;
    /// The task is gone; only handles remain.
    pub(crate) const DEAD: u32 = 1 << 17;
}

/// Why a submission was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// As many jobs as the mailbox holds are queued.
    Full,
    /// The task takes no more work.
    Closed,
}

/// Result of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signalled {
    /// The caller must put the task into a run queue.
    pub(crate) schedule: bool,
    /// The task was gone already; the bit is never read.
    pub(crate) dead: bool,
}

/// Result of an attempt to go idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// The task is idle: the caller must not touch it again.
    Gone,
    /// A node was pushed.
    More,
    /// A signal came.
    Signalled,
}

/// Submitted lane, admission and signals of one task.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Inbox {
    /// State word: flags, count and place. Any thread, by read-modify-write only.
    tail: AtomicU64,
    /// Places given back: submissions that were run or discarded. Written by the consumer.
    done: AtomicU64,
    /// See [`bits`]. Any thread.
    signals: AtomicU32,
    /// Number of overflows of an unbounded lane's count. Any thread.
    laps: AtomicU32,
    /// The stub's link. Written by the producer that found the stub, reset by the consumer.
    first: Link,
}

impl Inbox {
    /// A lane that is idle, or scheduled (its first runner is the caller's business).
    pub(crate) fn new(scheduled: bool) -> Self {
        Self {
            tail: AtomicU64::new(Word::new(if scheduled { STUB } else { IDLE }).0),
            done: AtomicU64::new(0),
            signals: AtomicU32::new(0),
            laps: AtomicU32::new(0),
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The consumer's position before the first node.
    pub(crate) fn stub(&self) -> *const Link {
        &self.first
    }

    // --- producers ---

    /// Checks for room. The answer is the word that one `push` starts from.
    #[inline(always)]
    pub(crate) fn look(&self, capacity: u64) -> Result<Word, Refusal> {
        // Acquire: `done` must not be read before it, see `check`.
        let word = Word(self.tail.load(Ordering::Acquire));
        if !word.is_closed() && capacity == u64::MAX {
            return Ok(word);
        }
        self.check(word, capacity)
    }

    /// The word if it has room, or a newer word with room.
    #[inline]
    fn check(&self, mut word: Word, capacity: u64) -> Result<Word, Refusal> {
        loop {
            if word.is_closed() {
                return Err(Refusal::Closed);
            }
            if capacity == u64::MAX {
                return Ok(word);
            }
            // Acquire: read between two looks at the word, so that if the word is the same in the
            // second one, which is the exchange of a push, count and `done` are of one instant.
            let done = self.done.load(Ordering::Acquire);
            if word.taken(done) < capacity {
                return Ok(word);
            }
            let newer = Word(self.tail.load(Ordering::Acquire));
            if newer == word {
                return Err(Refusal::Full);
            }
            word = newer;
        }
    }

    /// Appends a node if the lane is open and has room; one exchange. Answers whether the caller
    /// must schedule the task.
    ///
    /// # Safety
    ///
    /// The node is exclusive and its link is null.
    #[inline(always)]
    pub(crate) unsafe fn push(
        &self,
        node: *mut Node,
        seen: Word,
        capacity: u64,
    ) -> Result<bool, Refusal> {
        let before = self.change(seen, capacity, |word| {
            word.with_address(node.expose_provenance()).count_up()
        })?;
        if before.is_count_full() {
            self.laps.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: this node has just become the lane's end, in place of the word before.
        Ok(unsafe { self.link(before, node) })
    }

    /// Exchanges the word while it is open and has room. Answers the word before.
    #[inline(always)]
    fn change(
        &self,
        mut word: Word,
        capacity: u64,
        next: impl Fn(Word) -> Word,
    ) -> Result<Word, Refusal> {
        loop {
            // AcqRel: releases the node's contents and, through the chain of exchanges, the former
            // runner's writes before its exchange to idle; pairs with `try_idle_owner` and
            // `next_owner`. Acquire on failure as in `look`.
            match self.tail.compare_exchange_weak(
                word.0,
                next(word).0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(word),
                Err(newer) => word = self.check(Word(newer), capacity)?,
            }
        }
    }

    /// Links the node that has replaced a word. Whether the task must be scheduled.
    ///
    /// # Safety
    ///
    /// The caller's exchange has put the node in place of `before`.
    #[inline(always)]
    unsafe fn link(&self, before: Word, node: *mut Node) -> bool {
        let last = before.address();
        let link = if last <= STUB {
            ptr::from_ref(&self.first)
        } else {
            ptr::with_exposed_provenance::<Node>(last).cast::<Link>()
        };
        // SAFETY: the consumer frees a node only after it has seen this link, or after an exchange
        // from that node to idle, which our exchange has made impossible. The stub lives with us.
        let link = unsafe { &*link };
        // Release: pairs with the load in `next_owner`.
        link.store(node, Ordering::Release);
        before.is_idle()
    }

    /// Ends the hold of a task that is held, with these bits. If this call did it, the caller is
    /// the task's only user, as its runner is, until it schedules the task, which it must.
    #[inline]
    pub(crate) fn take_hold(&self, set: u32) -> bool {
        let seen = self.signals.load(Ordering::Relaxed);
        let next = (seen | set) & !bits::HELD;
        // AcqRel: shows the runner's writes before its hold; as in `signal`.
        seen & bits::HELD != 0
            && self
                .signals
                .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes a task that is idle or held. If this call did it, the caller is the task's only user,
    /// as its runner is, until it schedules the task, which it must.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.take_hold(0) || self.take_idle()
    }

    /// Makes an idle task a scheduled one with nothing queued.
    #[inline]
    fn take_idle(&self) -> bool {
        let word = Word(self.tail.load(Ordering::Relaxed));
        let next = word.with_address(STUB);
        // AcqRel: shows the runner's writes before it went idle, as in `change`.
        let order = order(Step::IdleTaken, Ordering::AcqRel);
        word.is_idle()
            && self.tail.compare_exchange(word.0, next.0, order, Ordering::Relaxed).is_ok()
    }

    /// Sets signal bits and says whether the caller must schedule the task.
    pub(crate) fn signal(&self, set: u32) -> Signalled {
        // A task that was held looks at its ready stack in any case, without the flag.
        let told = if set == bits::READY { 0 } else { set };
        if self.take_hold(told) {
            return Signalled { schedule: true, dead: false };
        }
        // AcqRel: pairs with the loads of `signals` by the consumer and with `try_hold`.
        let before = self.signals.fetch_or(set, Ordering::AcqRel);
        if before & bits::DEAD != 0 {
            return Signalled { schedule: false, dead: true };
        }
        if before & bits::HELD != 0 {
            let cleared = self.signals.fetch_and(!bits::HELD, Ordering::AcqRel);
            return Signalled { schedule: cleared & bits::HELD != 0, dead: false };
        }
        if !keeps(Step::SignalTag) {
            let schedule = Word(self.tail.load(Ordering::Acquire)).is_idle();
            return Signalled { schedule, dead: false };
        }
        // AcqRel: a consumer that meets the tag fails to go idle and looks again; producers keep
        // it.
        let before = Word(self.tail.fetch_or(TAG, Ordering::AcqRel));
        Signalled { schedule: before.is_idle(), dead: false }
    }

    /// Closes admission. Returns whether this call did it. To be followed by a signal.
    pub(crate) fn close_admission(&self) -> bool {
        !Word(self.tail.fetch_or(CLOSED, Ordering::AcqRel)).is_closed()
    }

    /// Whether submissions are refused.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        Word(self.tail.load(Ordering::Acquire)).is_closed()
    }

    /// Jobs queued and places promised, about: three words that others change meanwhile.
    pub(crate) fn queued(&self) -> u64 {
        let done = self.done.load(Ordering::Relaxed);
        let laps = u64::from(self.laps.load(Ordering::Relaxed));
        let count = Word(self.tail.load(Ordering::Relaxed)).count();
        let queued = (laps * (PLACES_MAX + 1) + count).wrapping_sub(done);
        // Negative while the count of laps lags behind.
        if queued > u64::MAX / 2 {
            0
        } else {
            queued
        }
    }

    /// Promises one place to a permit if there is room.
    pub(crate) fn reserve(&self, capacity: u64) -> Result<(), Refusal> {
        let seen = self.look(capacity)?;
        let before = self.change(seen, capacity, Word::count_up)?;
        if before.is_count_full() {
            self.laps.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes a promise back.
    pub(crate) fn unreserve(&self) {
        let mut word = self.tail.load(Ordering::Relaxed);
        // AcqRel: every exchange of the word passes on the former runner's writes.
        while let Err(newer) = self.tail.compare_exchange_weak(
            word,
            Word(word).count_down().0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            word = newer;
        }
        if Word(word).count() == 0 {
            self.laps.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Appends a node in a promised place: only closing can refuse it, and takes the promise back.
    ///
    /// # Safety
    ///
    /// As for `push`; the caller has a promise, which is used up.
    pub(crate) unsafe fn push_reserved(&self, node: *mut Node) -> Result<bool, Refusal> {
        let changed = self.look(u64::MAX).and_then(|seen| {
            self.change(seen, u64::MAX, |word| word.with_address(node.expose_provenance()))
        });
        match changed {
            // SAFETY: this node has just become the lane's end, in place of the word before.
            Ok(before) => Ok(unsafe { self.link(before, node) }),
            Err(refusal) => {
                self.unreserve();
                Err(refusal)
            }
        }
    }

    /// The signal word, for producers and owner alike.
    #[inline(always)]
    pub(crate) fn signals(&self) -> u32 {
        self.signals.load(Ordering::Acquire)
    }

    // --- the consumer ---

    /// The address of the last node now queued, as a mark for the end of a round.
    #[inline(always)]
    pub(crate) fn mark_owner(&self) -> usize {
        Word(self.tail.load(Ordering::Relaxed)).address()
    }

    /// The node behind `position`, or null if there is none or its producer has not linked it.
    ///
    /// # Safety
    ///
    /// The caller is the runner and `position` is the stub or the node last taken.
    #[inline(always)]
    pub(crate) unsafe fn next_owner(&self, position: *const Link) -> *mut Node {
        // SAFETY: the position is not freed before the consumer moves on.
        let link = unsafe { &*position };
        // Acquire: pairs with the store in `push`.
        link.load(Ordering::Acquire)
    }

    /// Resets the stub's link when the consumer moves on from the stub to a node.
    #[inline(always)]
    pub(crate) fn leave_stub_owner(&self) {
        self.first.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// As `next_owner`, for when a push is known to have happened: waits a little for the link.
    ///
    /// # Safety
    ///
    /// As for `next_owner`.
    pub(crate) unsafe fn next_linked_owner(&self, position: *const Link) -> *mut Node {
        for _ in 0..LINK_SPINS_MAX {
            // SAFETY: forwarded to the caller.
            let node = unsafe { self.next_owner(position) };
            if !node.is_null() {
                return node;
            }
            spin_hint();
        }
        ptr::null_mut()
    }

    /// Tries to leave the task idle. On `Gone` the caller must not touch the task again.
    ///
    /// The caller has looked at `signals` after it took the node at `position`, and has stored
    /// every field that the next runner reads.
    #[inline(always)]
    pub(crate) fn try_idle_owner(&self, position: *const Link) -> Idle {
        let stub = ptr::eq(position, &self.first);
        let mut word = Word(self.tail.load(Ordering::Relaxed));
        loop {
            let last = word.address();
            if last != position.addr() && !(stub && last <= STUB) {
                return Idle::More;
            }
            let (next, result) = if !word.is_tagged() {
                (word.with_address(IDLE), Idle::Gone)
            } else {
                // The signal scheduled the task, so an idle word becomes a busy one.
                (word.without_tag().with_address(last.max(STUB)), Idle::Signalled)
            };
            // AcqRel: releases this runner's writes to the next runner; pairs with `change` and the
            // tag in `signal`. Fails after a push, and after a change of the count or the flags.
            match self.tail.compare_exchange_weak(
                word.0,
                next.0,
                order(Step::IdleRelease, Ordering::AcqRel),
                Ordering::Relaxed,
            ) {
                Ok(_) => return result,
                Err(newer) => word = Word(newer),
            }
        }
    }

    /// Tries to leave the task held: only a signal schedules it. On success the caller must not
    /// touch the task again.
    pub(crate) fn try_hold_owner(&self) -> bool {
        let seen = self.signals.load(Ordering::Acquire);
        if seen & bits::WAKE != 0 {
            return false;
        }
        // AcqRel: releases this runner's writes to the next runner; pairs with `signal`.
        let order = order(Step::HoldRelease, Ordering::AcqRel);
        self.signals.compare_exchange(seen, seen | bits::HELD, order, Ordering::Acquire).is_ok()
    }

    /// Takes the wake-up bits.
    pub(crate) fn take_signals_owner(&self) -> u32 {
        self.signals.fetch_and(!bits::WAKE, Ordering::AcqRel) & bits::WAKE
    }

    /// Publishes how many submissions are consumed.
    #[inline(always)]
    pub(crate) fn publish_done_owner(&self, count: u64) {
        let done = self.done.load(Ordering::Relaxed) + count;
        self.done.store(done, Ordering::Release);
    }

    /// Whether every admitted submission was consumed. Final once admission is closed.
    pub(crate) fn is_drained_owner(&self, position: *const Link) -> bool {
        let last = Word(self.tail.load(Ordering::Acquire)).address();
        last == position.addr() || (ptr::eq(position, &self.first) && last <= STUB)
    }

    /// Marks the task gone. The tail stays away from `IDLE`, so no thread schedules the task again.
    pub(crate) fn die_owner(&self) {
        self.signals.fetch_or(bits::DEAD, Ordering::AcqRel);
    }
}
