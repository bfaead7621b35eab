//! The submitted lane, whose tail is the state word of the task; see `README.md` in this folder.
//!
//! Many producers push with one exchange; the running worker is the one consumer. After the
//! exchange to `IDLE` succeeded the former runner touches nothing of the task any more.

use std::ptr;

use super::node::{Link, Node};
use crate::limits::LINK_SPINS_MAX;
use crate::sync::{spin_hint, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Nothing queued and nobody runs the task: who replaces this value schedules it.
const IDLE: usize = 0;
/// A signal came since the consumer last looked; makes its way to `IDLE` fail.
const TAG: usize = 1;
/// Scheduled or running, and the consumer's position is the stub.
const STUB: usize = 2;

/// No further submission is admitted.
const CLOSED: u64 = 1;
/// One admitted submission.
const ONE: u64 = 2;

/// Bits of the signal word.
pub(crate) mod bits {
    /// Some subscription is ready.
    pub(crate) const READY: u32 = 1;
    /// Close was asked for, or something changed that a closing task waits for.
    pub(crate) const CLOSE: u32 = 1 << 1;
    /// Stop was asked for: skip what is queued, close in order.
    pub(crate) const STOP: u32 = 1 << 2;
    /// Fail was asked for; the failure lies in the cold part.
    pub(crate) const FAIL: u32 = 1 << 3;
    /// Kill was asked for: no hooks but the clean-up.
    pub(crate) const KILL: u32 = 1 << 4;
    /// The last handle is leaving.
    pub(crate) const ORPHAN: u32 = 1 << 5;
    /// The policy mailbox has jobs.
    pub(crate) const MAIL: u32 = 1 << 6;
    /// Somebody waits for room in the mailbox.
    pub(crate) const ROOM: u32 = 1 << 7;
    /// Everything that must wake a task.
    pub(crate) const WAKE: u32 = READY | CLOSE | STOP | FAIL | KILL | ORPHAN | MAIL | ROOM;
    /// What must be looked at before the next submitted job.
    pub(crate) const SYSTEM: u32 = STOP | FAIL | KILL;
    /// The greatest state word without a node in it.
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

/// What a signal led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signalled {
    /// The caller must put the task into a run queue.
    pub(crate) schedule: bool,
    /// The task was gone already; nobody will look at the bit.
    pub(crate) dead: bool,
}

/// How an attempt to go idle ended.
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
    /// State word: `IDLE`, `STUB` or the last node, and `TAG`. Any thread.
    tail: AtomicUsize,
    /// Bit 0: closed. Above: admitted submissions since the start. Any thread.
    admission: AtomicU64,
    /// See [`bits`]. Any thread.
    signals: AtomicU32,
    /// Places promised to permits. Any thread.
    reserved: AtomicU32,
    /// Admitted submissions that were run or discarded. Written by the consumer.
    done: AtomicU64,
    /// The stub's link. Written by the producer that found the stub, reset by the consumer.
    first: Link,
}

impl Inbox {
    /// A lane that is idle, or scheduled (its first runner is the caller's business).
    pub(crate) fn new(scheduled: bool) -> Self {
        Self {
            tail: AtomicUsize::new(if scheduled { STUB } else { IDLE }),
            admission: AtomicU64::new(0),
            signals: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            done: AtomicU64::new(0),
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The consumer's position before the first node.
    pub(crate) fn stub(&self) -> *const Link {
        &self.first
    }

    // --- producers ---

    /// Admits one submission, to be followed by one `push`.
    #[inline(always)]
    pub(crate) fn admit(&self, capacity: u64) -> Result<(), Refusal> {
        // Relaxed: admission orders nothing, the exchange in `push` does. The count itself is
        // exact, since every change is a read-modify-write.
        let before = self.admission.fetch_add(ONE, Ordering::Relaxed);
        if before & CLOSED == 0 && capacity == u64::MAX {
            return Ok(());
        }
        self.admit_bounded(before, capacity)
    }

    #[inline(always)]
    fn admit_bounded(&self, before: u64, capacity: u64) -> Result<(), Refusal> {
        if before & CLOSED == 0 {
            let reserved = u64::from(self.reserved.load(Ordering::Relaxed));
            let done = self.done.load(Ordering::Relaxed);
            let queued = (before / ONE).saturating_sub(done);
            if queued + reserved < capacity {
                return Ok(());
            }
            return Err(Refusal::Full);
        }
        Err(Refusal::Closed)
    }

    /// Takes a refused admission back. Returns whether the task must be signalled `CLOSE`, since
    /// it may have seen the count and waits for a push that never comes.
    #[cold]
    pub(crate) fn take_back(&self) -> bool {
        self.admission.fetch_sub(ONE, Ordering::AcqRel) & CLOSED != 0
    }

    /// Appends a node; one exchange. Returns whether the caller must schedule the task.
    ///
    /// # Safety
    ///
    /// The node is exclusive, its link is null, and it was admitted.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, node: *mut Node) -> bool {
        // AcqRel: releases the node's contents and, through the chain of exchanges, whatever the
        // former runner wrote before its exchange to IDLE; pairs with `try_idle` and `next`.
        let before = self.tail.swap(node.expose_provenance(), Ordering::AcqRel);
        let link = if before & !TAG == IDLE || before & !TAG == STUB {
            ptr::from_ref(&self.first)
        } else {
            ptr::with_exposed_provenance::<Node>(before & !TAG).cast::<Link>()
        };
        // SAFETY: the consumer frees a node only after it has seen this link, or after an exchange
        // from that node to IDLE, which our exchange has made impossible. The stub lives with us.
        let link = unsafe { &*link };
        // Release: pairs with the load in `next`.
        link.store(node, Ordering::Release);
        before == IDLE
    }

    /// Sets signal bits and says whether the caller must schedule the task.
    pub(crate) fn signal(&self, set: u32) -> Signalled {
        // AcqRel: pairs with the loads of `signals` by the consumer and with `try_hold`.
        let before = self.signals.fetch_or(set, Ordering::AcqRel);
        if before & bits::DEAD != 0 {
            return Signalled { schedule: false, dead: true };
        }
        if before & bits::HELD != 0 {
            let cleared = self.signals.fetch_and(!bits::HELD, Ordering::AcqRel);
            return Signalled { schedule: cleared & bits::HELD != 0, dead: false };
        }
        // AcqRel: a producer that replaces the tagged word passes the bit on to the consumer
        // through its link; a consumer that meets the tag fails to go idle and looks again.
        let tail = self.tail.fetch_or(TAG, Ordering::AcqRel);
        Signalled { schedule: tail == IDLE, dead: false }
    }

    /// Closes admission. Returns whether this call did it. To be followed by a signal.
    pub(crate) fn close_admission(&self) -> bool {
        self.admission.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0
    }

    /// Whether submissions are refused.
    pub(crate) fn is_closed(&self) -> bool {
        self.admission.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Admitted and not yet consumed, about.
    pub(crate) fn queued(&self) -> u64 {
        let done = self.done.load(Ordering::Relaxed);
        (self.admission.load(Ordering::Relaxed) / ONE).saturating_sub(done)
    }

    /// Whether a submission would be admitted now, about.
    pub(crate) fn has_room(&self, capacity: u64) -> bool {
        self.queued() + u64::from(self.reserved.load(Ordering::Relaxed)) < capacity
    }

    /// Promises one place to a permit if there is room.
    pub(crate) fn reserve(&self, capacity: u64) -> Result<(), Refusal> {
        if self.is_closed() {
            return Err(Refusal::Closed);
        }
        let reserved = self.reserved.fetch_add(1, Ordering::Relaxed);
        if self.queued() + u64::from(reserved) < capacity {
            return Ok(());
        }
        self.unreserve();
        Err(Refusal::Full)
    }

    /// Takes a promise back.
    pub(crate) fn unreserve(&self) {
        let before = self.reserved.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a permit was returned twice");
    }

    /// Admits a submission against a promised place: only closing can refuse it.
    pub(crate) fn admit_reserved(&self) -> Result<(), Refusal> {
        let before = self.admission.fetch_add(ONE, Ordering::Relaxed);
        self.unreserve();
        if before & CLOSED == 0 {
            return Ok(());
        }
        Err(Refusal::Closed)
    }

    /// The signal word, for producers and owner alike.
    #[inline(always)]
    pub(crate) fn signals(&self) -> u32 {
        self.signals.load(Ordering::Acquire)
    }

    // --- the consumer ---

    /// The last node now queued, as a mark for the end of a round.
    #[inline(always)]
    pub(crate) fn mark_owner(&self) -> usize {
        self.tail.load(Ordering::Relaxed) & !TAG
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
        let expected = if ptr::eq(position, &self.first) { STUB } else { position.addr() };
        // AcqRel: releases what this runner wrote to the next one; pairs with the exchange in
        // `push` and the tag in `signal`.
        let result =
            self.tail.compare_exchange(expected, IDLE, Ordering::AcqRel, Ordering::Acquire);
        match result {
            Ok(_) => Idle::Gone,
            Err(actual) if actual == expected | TAG || (expected == STUB && actual == TAG) => {
                // A lost race here means a push; both lead to another look.
                let _ = self.tail.compare_exchange(
                    actual,
                    expected,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                Idle::Signalled
            }
            Err(_) => Idle::More,
        }
    }

    /// Tries to leave the task held: only a signal schedules it. On success the caller must not
    /// touch the task again.
    pub(crate) fn try_hold_owner(&self) -> bool {
        let seen = self.signals.load(Ordering::Acquire);
        if seen & bits::WAKE != 0 {
            return false;
        }
        // AcqRel: releases what this runner wrote to the next one; pairs with `signal`.
        self.signals
            .compare_exchange(seen, seen | bits::HELD, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
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

    /// Whether every admitted submission was consumed. Exact once admission is closed.
    pub(crate) fn is_drained_owner(&self) -> bool {
        let admitted = self.admission.load(Ordering::Acquire) / ONE;
        admitted == self.done.load(Ordering::Relaxed)
    }

    /// Marks the task gone. The tail stays away from `IDLE`, so nobody schedules the task again.
    pub(crate) fn die_owner(&self) {
        self.signals.fetch_or(bits::DEAD, Ordering::AcqRel);
    }
}
