//! A node: one queued job, its closure in line when it is a few words, and its link.

use std::mem::{align_of, size_of, ManuallyDrop, MaybeUninit};
use std::ptr;

use super::pool;
use crate::checked::Queued;
use crate::sync::AtomicPtr;
use crate::task::cell::layout::Header;
use crate::task::turn::run::Turn;

/// Words of payload that a node holds without a heap allocation.
pub(crate) const PAYLOAD_WORDS: usize = 6;

/// The link of the submitted lane; the first field of a node, so that a node is also a link.
pub(crate) type Link = AtomicPtr<Node>;

/// Whether a node's payload is run or discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Run the job.
    Run,
    /// Drop it unrun: its task is closed.
    Discard,
}

/// Whether a job is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// The job stays the current one; the task goes to the back of the queue.
    Again,
    /// The job is finished.
    Done,
}

/// Runs or discards the payload. On `Again` the payload stays valid, otherwise it is consumed,
/// also when the function unwinds.
pub(crate) type NodeFn = unsafe fn(payload: *mut Payload, turn: *mut Turn, how: Use) -> Flow;

/// The in-line storage of a closure.
pub(crate) type Payload = [MaybeUninit<u64>; PAYLOAD_WORDS];

/// One queued job. One cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    /// Next node of the lane; null while the producer has not linked it.
    pub(crate) next: Link,
    /// Runs or discards the payload.
    pub(crate) call: NodeFn,
    /// The task that it is for; nothing unless checked.
    pub(crate) queued: Queued,
    /// The closure, or a box of it.
    pub(crate) payload: Payload,
}

const _: () = assert!(size_of::<Node>() == 64 || cfg!(any(turnwheel_loom, turnwheel_checked)));

/// A closure type whose jobs a node can hold.
///
/// # Safety
///
/// `call` must treat the payload as a `Self` (or a box of it if [`fits`] says no) exactly as
/// [`NodeFn`] describes.
pub(crate) unsafe trait Job: Sized {
    /// The function that runs or discards a payload of this type.
    const CALL: NodeFn;
}

/// Whether a closure of this type is stored in line.
pub(crate) const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Payload>() && align_of::<F>() <= align_of::<u64>()
}

/// Bytes that a queued job of this type is charged to the group's memory budget.
pub(crate) const fn charge<F>() -> i64 {
    let boxed = if fits::<F>() { 0 } else { size_of::<F>() };
    (size_of::<Node>() + boxed) as i64
}

/// Makes a node of a job for this task. One pool access; one heap allocation only if the closure
/// does not fit.
#[inline(always)]
pub(crate) fn make<J: Job>(header: &Header, job: J) -> *mut Node {
    // Should there be no memory, the job is not dropped: for that it would have to lie in memory
    // itself, always, and the processor would wait for its words on their way through.
    let job = ManuallyDrop::new(job);
    let node = pool::alloc();
    // SAFETY: the pool gives exclusive, writable memory for one node.
    let place = unsafe { &mut *node };
    place.next = Link::new(ptr::null_mut());
    place.call = J::CALL;
    place.queued = Queued::on(&header.life);
    store(&mut place.payload, ManuallyDrop::into_inner(job));
    node
}

/// Writes a value into a payload, boxed if it does not fit.
#[inline(always)]
fn store<F>(payload: &mut Payload, value: F) {
    let place: *mut Payload = payload;
    if fits::<F>() {
        // SAFETY: `fits` checked size and alignment, and the place is exclusive.
        unsafe { place.cast::<F>().write(value) };
    } else {
        let boxed = Box::into_raw(Box::new(value));
        // SAFETY: a pointer is one word, and the place is exclusive.
        unsafe { place.cast::<*mut F>().write(boxed) };
    }
}

/// Takes the value out of a payload.
///
/// # Safety
///
/// The payload was written by `store::<F>` and is not read again.
#[inline(always)]
pub(crate) unsafe fn take<F>(payload: *mut Payload) -> F {
    if fits::<F>() {
        // SAFETY: the caller says that an `F` is here and that it is taken once.
        unsafe { payload.cast::<F>().read() }
    } else {
        // SAFETY: as above; `store` put a box's pointer here.
        let raw = unsafe { payload.cast::<*mut F>().read() };
        // SAFETY: the pointer came from `Box::into_raw` in `store`.
        *unsafe { Box::from_raw(raw) }
    }
}

/// Takes a job back out of its node, and frees the node.
///
/// # Safety
///
/// The node was made of a job of this type, which was not consumed, and is in no lane.
#[cold]
pub(crate) unsafe fn unmake<J: Job>(node: *mut Node) -> J {
    // SAFETY: the caller owns the node.
    let payload = unsafe { &raw mut (*node).payload };
    // SAFETY: a payload of this type, not consumed.
    let job = unsafe { take::<J>(payload) };
    // SAFETY: the payload is consumed.
    unsafe { free(node) };
    job
}

/// Borrows the value in a payload.
///
/// # Safety
///
/// The payload was written by `store::<F>`, is exclusive for `'a`, and was not taken.
#[inline(always)]
pub(crate) unsafe fn borrow<'a, F>(payload: *mut Payload) -> &'a mut F {
    if fits::<F>() {
        // SAFETY: the caller says that an `F` is here and that access is exclusive.
        unsafe { &mut *payload.cast::<F>() }
    } else {
        // SAFETY: as above; `store` put a box's pointer here.
        let raw = unsafe { payload.cast::<*mut F>().read() };
        // SAFETY: the box is alive until `take`.
        unsafe { &mut *raw }
    }
}

/// Moves a node's job into a fresh node; the old one keeps its link but has no payload any more.
pub(crate) fn relocate(node: *mut Node) -> *mut Node {
    let fresh = pool::alloc();
    // SAFETY: the pool gives exclusive, writable memory for one node.
    let place = unsafe { &mut *fresh };
    place.next = Link::new(ptr::null_mut());
    // SAFETY: the old node is owned by the caller.
    place.call = unsafe { (*node).call };
    // SAFETY: as above.
    place.queued = unsafe { (*node).queued };
    // SAFETY: the old node is owned by the caller.
    let payload = unsafe { &raw const (*node).payload };
    // SAFETY: the payload is plain bytes here; the old copy is never used again.
    place.payload = unsafe { payload.read() };
    fresh
}

/// Discards the job of a node unrun and frees the node. A panicking destructor is contained.
///
/// # Safety
///
/// The node is exclusive and its payload was not consumed.
pub(crate) unsafe fn discard(node: *mut Node, turn: *mut Turn) {
    // SAFETY: the caller owns the node.
    unsafe { discard_payload(node, turn) };
    // SAFETY: the payload is consumed.
    unsafe { free(node) };
}

/// Discards the job of a node unrun; the node itself stays.
///
/// # Safety
///
/// The payload was not consumed.
pub(crate) unsafe fn discard_payload(node: *mut Node, turn: *mut Turn) {
    // SAFETY: the caller's, for this call.
    let header = unsafe { (*turn).header_ptr() };
    // SAFETY: the caller owns the node.
    let queued = unsafe { (*node).queued };
    // SAFETY: the code that discards a job of the task keeps it alive until that is done.
    queued.check(unsafe { &header.as_ref().life });
    // SAFETY: the caller owns the node.
    let call = unsafe { (*node).call };
    // SAFETY: as above.
    let payload = unsafe { &raw mut (*node).payload };
    let run = std::panic::AssertUnwindSafe(|| {
        // SAFETY: the function belongs to the payload.
        unsafe { call(payload, turn, Use::Discard) }
    });
    let run = crate::task::turn::current::losing(header, || std::panic::catch_unwind(run));
    if let Err(panic) = run {
        let failure = crate::Failure::from_panic(panic);
        crate::failure::log(move || tracing::error!(%failure, "dropping an unrun job panicked"));
    }
}

/// Frees a node whose payload is consumed.
///
/// # Safety
///
/// The node came from [`make`], its payload was consumed, and no other thread can reach it.
#[inline(always)]
pub(crate) unsafe fn free(node: *mut Node) {
    // SAFETY: forwarded to the caller.
    unsafe { pool::free(node) }
}
