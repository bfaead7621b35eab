//! The state word of a task: the end of its submitted lane, with the bits that admission needs.

use crate::limits::MAILBOX_JOBS_MAX as PLACES_MAX;

/// A signal came since the consumer last looked; makes its way to idle fail.
pub(super) const TAG: u64 = 1;
/// No further submission is admitted.
pub(super) const CLOSED: u64 = 1 << 1;
/// One place taken: a submission, or a promise to a permit.
const ONE: u64 = 1 << 2;
/// Taken places since the start, modulo 2^20; a bounded lane never has more than that at a time.
const COUNT: u64 = PLACES_MAX << 2;
/// Bits that an address is shifted by.
const ADDRESS_SHIFT: u32 = 16;
/// Mask of the address.
const PLACE: u64 = !(TAG | CLOSED | COUNT);

/// Address of an idle task: nothing is queued and no worker runs it. The thread that replaces it
/// schedules the task.
pub(super) const IDLE: usize = 0;
/// Address of a task that is scheduled or running, with its consumer before the first node.
pub(super) const STUB: usize = 64;

/// One reading of the state word.
///
/// ```text
///  63                           22 21                 2    1      0
/// +-------------------------------+--------------------+--------+-----+
/// | address of the last node >> 6 | places taken       | CLOSED | TAG |
/// |                               | modulo 2^20        |        |     |
/// +-------------------------------+--------------------+--------+-----+
/// ```
///
/// Nodes lie on cache lines, so the low six bits of an address are zero, and user addresses have 48
/// bits. Shifted left by 16, an address leaves 22 bits for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(super) u64);

impl Word {
    /// An open lane without taken places.
    pub(super) fn new(address: usize) -> Self {
        Self(0).with_address(address)
    }

    /// Address of the last node, [`STUB`] or [`IDLE`].
    #[inline(always)]
    pub(super) fn address(self) -> usize {
        ((self.0 & PLACE) >> ADDRESS_SHIFT) as usize
    }

    /// The same bits and count with another address.
    #[inline(always)]
    pub(super) fn with_address(self, address: usize) -> Self {
        Self((self.0 & !PLACE) | (address as u64) << ADDRESS_SHIFT)
    }

    #[inline(always)]
    pub(super) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    #[inline(always)]
    pub(super) fn is_tagged(self) -> bool {
        self.0 & TAG != 0
    }

    #[inline(always)]
    pub(super) fn without_tag(self) -> Self {
        Self(self.0 & !TAG)
    }

    /// Whether a push or signal on this word must schedule the task.
    #[inline(always)]
    pub(super) fn is_idle(self) -> bool {
        self.address() == IDLE && !self.is_tagged()
    }

    /// Places taken since the start, modulo 2^20.
    pub(super) fn count(self) -> u64 {
        (self.0 & COUNT) / ONE
    }

    /// One place more, modulo the width of the count.
    #[inline(always)]
    pub(super) fn count_up(self) -> Self {
        Self((self.0 & !COUNT) | (self.0.wrapping_add(ONE) & COUNT))
    }

    /// One place less, modulo the width of the count.
    pub(super) fn count_down(self) -> Self {
        Self((self.0 & !COUNT) | (self.0.wrapping_sub(ONE) & COUNT))
    }

    /// Whether the next place begins the count anew.
    #[inline(always)]
    pub(super) fn is_count_full(self) -> bool {
        self.0 & COUNT == COUNT
    }

    /// Places taken and not given back, of which there were `done`.
    #[inline(always)]
    pub(super) fn taken(self, done: u64) -> u64 {
        self.count().wrapping_sub(done) & PLACES_MAX
    }
}
