//! Submission to a task: the lanes, the permit, and their results.

use std::fmt;
use std::marker::PhantomData;

use super::inbox::{bits, Refusal};
use super::mail::Queued;
use super::node::{self, charge, Flow, Job, Node, NodeFn, Payload, Use};
use crate::failure::Failure;
use crate::task::cell::layout::Header;
use crate::task::handle::task::Task;
use crate::task::turn::current;
use crate::task::turn::run::Turn;
use crate::task::Context;

/// Why a submission was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SubmitErrorKind {
    /// The mailbox holds as many jobs as it may.
    Full,
    /// All mailboxes of the group together hold as many bytes as they may.
    GroupMemory,
    /// The task takes no more work: closing, closed or failed.
    Closed,
    /// A blocking wait was requested on a worker thread, where waiting is refused.
    OnWorker,
    /// There was no room within the time given.
    TimedOut,
    /// A layer above the task refused to send it. The runtime itself never says so.
    Refused,
}

/// A submission that was not taken; gives the job back.
#[derive(thiserror::Error)]
#[error("{}", kind.text())]
#[must_use]
pub struct SubmitError<J> {
    /// Why.
    pub kind: SubmitErrorKind,
    /// The job, unrun.
    pub job: J,
}

debug_fields!(impl<J> SubmitError<J>, self => kind: self.kind);

impl SubmitErrorKind {
    fn text(self) -> &'static str {
        match self {
            Self::Full => "the mailbox of the task is full",
            Self::GroupMemory => "the mailboxes of the group hold as many bytes as they may",
            Self::Closed => "the task is closed",
            Self::OnWorker => "waiting for room is refused on a worker thread",
            Self::TimedOut => "there was no room in the mailbox within the time given",
            Self::Refused => "it was refused before it was sent",
        }
    }
}

impl From<Refusal> for SubmitErrorKind {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::Full,
            Refusal::Closed => Self::Closed,
        }
    }
}

impl fmt::Display for SubmitErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl<J> From<SubmitError<J>> for Failure {
    fn from(error: SubmitError<J>) -> Self {
        match error.kind {
            SubmitErrorKind::Closed => Self::Closed,
            SubmitErrorKind::OnWorker => Self::WouldBlock,
            kind => Self::Refused(kind.text()),
        }
    }
}

/// A job that a task runs once: any `FnOnce(&mut S, &mut Context<S>)`, or a type of its own that a
/// refused submission returns with its content.
///
/// For layers on top of tasks, whose jobs carry a message that must be returned on a refusal.
pub trait TaskJob<S>: Send + 'static {
    /// Does it, in the task's turn.
    fn run(self, state: &mut S, cx: &mut Context<'_, S>);
}

impl<S, F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static> TaskJob<S> for F {
    #[inline(always)]
    fn run(self, state: &mut S, cx: &mut Context<'_, S>) {
        self(state, cx);
    }
}

/// Jobs of more bytes are put into a box where they enter: a debug build copies a job in each
/// function that it passes through, and a few hundred KiB would use up a stack.
const JOB_BYTES_MAX: usize = 4 * 1024;

/// Whether such a job is put into a box.
pub(crate) const fn is_large<J>() -> bool {
    std::mem::size_of::<J>() > JOB_BYTES_MAX
}

/// A large job in its box.
pub(crate) struct Boxed<J>(Box<J>);

impl<S, J: TaskJob<S>> TaskJob<S> for Boxed<J> {
    fn run(self, state: &mut S, cx: &mut Context<'_, S>) {
        (*self.0).run(state, cx);
    }
}

/// Submits a large job in its box; a refused job is taken out of the box.
#[inline(never)]
pub(crate) fn boxed<J>(
    job: J,
    submit: impl FnOnce(Boxed<J>) -> Result<(), SubmitError<Boxed<J>>>,
) -> Result<(), SubmitError<J>> {
    #[cold]
    #[inline(never)]
    fn open<J>(error: SubmitError<Boxed<J>>) -> SubmitError<J> {
        SubmitError { kind: error.kind, job: *error.job.0 }
    }
    submit(Boxed(Box::new(job))).map_err(open)
}

/// A job that runs once.
pub(crate) struct Once<S, F>(pub(crate) F, PhantomData<fn(S)>);

impl<S, F: TaskJob<S>> Once<S, F> {
    pub(crate) fn new(job: F) -> Self {
        Self(job, PhantomData)
    }

    unsafe fn call(payload: *mut Payload, turn: *mut Turn, how: Use) -> Flow {
        // SAFETY: a payload of this type; consumed here, also when the job unwinds.
        let job = unsafe { node::take::<Self>(payload) };
        // SAFETY: the turn is exclusive for the time of the call.
        let turn = unsafe { &mut *turn };
        turn.bytes += charge::<Self>();
        if how == Use::Run {
            let state = turn.state.cast::<S>();
            // SAFETY: the turn's task has a state of this type, and the runner has it for itself.
            let state = unsafe { &mut *state };
            job.0.run(state, &mut Context::new(turn));
        }
        Flow::Done
    }
}

// SAFETY: `call` takes the payload as `Self`, always.
unsafe impl<S, F: TaskJob<S>> Job for Once<S, F> {
    const CALL: NodeFn = Self::call;
}

/// A job that may stay the current one.
pub(crate) struct Repeated<S, F>(pub(crate) F, PhantomData<fn(S)>);

impl<S, F: FnMut(&mut S, &mut Context<'_, S>) -> Flow + Send + 'static> Repeated<S, F> {
    pub(crate) fn new(job: F) -> Self {
        Self(job, PhantomData)
    }

    unsafe fn call(payload: *mut Payload, turn: *mut Turn, how: Use) -> Flow {
        /// Consumes the payload, unless the job stays the current one.
        struct Consume<S, F>(*mut Payload, PhantomData<fn(S, F)>);
        impl<S, F> Drop for Consume<S, F> {
            fn drop(&mut self) {
                // SAFETY: a payload of this type, not consumed before.
                drop(unsafe { node::take::<Repeated<S, F>>(self.0) });
            }
        }
        let consume = Consume::<S, F>(payload, PhantomData);
        // SAFETY: the turn is exclusive for the time of the call.
        let turn = unsafe { &mut *turn };
        // Given back beforehand: a job that panics is consumed too.
        turn.bytes += charge::<Self>();
        if how == Use::Run {
            let state = turn.state.cast::<S>();
            // SAFETY: the turn's task has a state of this type, and the runner has it for itself.
            let state = unsafe { &mut *state };
            // SAFETY: a payload of this type, not consumed.
            let job = unsafe { node::borrow::<Self>(payload) };
            if (job.0)(state, &mut Context::new(turn)) == Flow::Again {
                turn.bytes -= charge::<Self>();
                std::mem::forget(consume);
                return Flow::Again;
            }
        }
        drop(consume);
        Flow::Done
    }
}

// SAFETY: `call` uses the payload as `Self`, and consumes it unless it answers `Again`.
unsafe impl<S, F: FnMut(&mut S, &mut Context<'_, S>) -> Flow + Send + 'static> Job
    for Repeated<S, F>
{
    const CALL: NodeFn = Self::call;
}

/// Puts a job at the tail of the task's submitted lane.
#[inline(always)]
pub(crate) fn submit<J: Job>(header: &Header, job: J) -> Result<(), (SubmitErrorKind, J)> {
    let looked = header.inbox.look(header.capacity);
    // The job is built in its node first. A job that a cold path may pass on would be built on the
    // stack and moved from there, a copy that stalls the processor.
    let node = node::make(header, job);
    let seen = match looked {
        Ok(seen) => seen,
        // SAFETY: the node was just made of this job and not linked.
        Err(refusal) => return unsafe { take_back(header, Some(refusal), node) },
    };
    if header.group.memory.is_exceeded() {
        // SAFETY: as above.
        return unsafe { take_back(header, None, node) };
    }
    // SAFETY: the node is fresh.
    let append = |node| unsafe { header.inbox.push(node, seen, header.capacity) };
    // SAFETY: the node was just made of this job.
    unsafe { push::<J>(header, node, append) }
}

/// Appends a node and counts it.
///
/// # Safety
///
/// The node was made of a job of this type and is not linked; `append` links it, or refuses.
#[inline(always)]
unsafe fn push<J: Job>(
    header: &Header,
    node: *mut Node,
    append: impl FnOnce(*mut Node) -> Result<bool, Refusal>,
) -> Result<(), (SubmitErrorKind, J)> {
    // SAFETY: used within this function alone.
    let local = unsafe { crate::group::worker_of(header) };
    crate::group::count_on(local, header, charge::<J>());
    match append(node) {
        Ok(true) => crate::group::schedule_on(local, header),
        Ok(false) => {}
        Err(refusal) => {
            crate::group::count_on(local, header, -charge::<J>());
            // SAFETY: forwarded to the caller; it was not linked.
            return unsafe { take_back(header, Some(refusal), node) };
        }
    }
    Ok(())
}

/// Takes a job out of its node again. Without a refusal the reason is the group's memory bound.
///
/// # Safety
///
/// The node was made of a job of this type and is not linked.
#[cold]
#[inline(never)]
unsafe fn take_back<J: Job>(
    header: &Header,
    refusal: Option<Refusal>,
    node: *mut Node,
) -> Result<(), (SubmitErrorKind, J)> {
    // SAFETY: forwarded to the caller.
    let job = unsafe { node::unmake(node) };
    match refusal {
        Some(refusal) => refused(header, refusal, None, job),
        None => Err((SubmitErrorKind::GroupMemory, job)),
    }
}

#[cold]
fn refused<J: Job>(
    header: &Header,
    refusal: Refusal,
    key: Option<u64>,
    job: J,
) -> Result<(), (SubmitErrorKind, J)> {
    if header.capacity == 0 {
        return post(header, key, job);
    }
    Err((refusal.into(), job))
}

/// Submits to a mailbox with another policy than «reject».
pub(crate) fn post<J: Job>(
    header: &Header,
    key: Option<u64>,
    job: J,
) -> Result<(), (SubmitErrorKind, J)> {
    let Some(mail) = header.extra().and_then(|extra| extra.mail.as_ref()) else {
        return submit(header, job);
    };
    let mut locked = mail.lock();
    if let Err(refusal) = locked.admits(key) {
        return Err((refusal.into(), job));
    }
    if header.group.memory.is_exceeded() {
        return Err((SubmitErrorKind::GroupMemory, job));
    }
    crate::group::count_queued(header, charge::<J>());
    let displaced = locked.post(Queued(node::make(header, job)), key);
    drop(locked);
    header.signal(bits::MAIL);
    if let Some(old) = displaced {
        let bytes = discard_outside(header, old);
        crate::group::count_queued(header, -bytes);
    }
    Ok(())
}

/// Drops a displaced job on the producer's thread; answers its charge.
fn discard_outside(header: &Header, old: Queued) -> i64 {
    let mut turn = Turn::for_discard(header.into());
    // SAFETY: the node was in the queue, its job unrun, and is ours now.
    unsafe { node::discard(old.0, &mut turn) };
    turn.bytes
}

/// Puts a job into the fast lane if this is the task's own turn, else submits it.
#[inline(always)]
pub(crate) fn run<J: Job>(header: &Header, job: J) -> Result<(), (SubmitErrorKind, J)> {
    if !current::is_current(header) {
        return submit(header, job);
    }
    insert(header, job)
}

/// Puts a job into the fast lane; this is the task's own turn.
#[inline(always)]
pub(crate) fn insert<J: Job>(header: &Header, job: J) -> Result<(), (SubmitErrorKind, J)> {
    let node = node::make(header, job);
    crate::group::count_queued(header, charge::<J>());
    current::insert_fast(header, node).map_err(|node| {
        crate::group::count_queued(header, -charge::<J>());
        let is_over = current::is_fast_closed(header);
        let kind = if is_over { SubmitErrorKind::Closed } else { SubmitErrorKind::Full };
        // SAFETY: the node was just made of this job and not linked.
        (kind, unsafe { node::unmake(node) })
    })
}

/// A promise of one place in a mailbox. Dropping it gives the place back.
#[derive(Debug)]
#[must_use]
pub struct Permit<S> {
    task: Task<S>,
    is_used: bool,
}

impl<S> Permit<S> {
    pub(super) fn new(task: Task<S>) -> Self {
        Self { task, is_used: false }
    }
}

impl<S: Send + 'static> Permit<S> {
    /// Submits the job into the reserved place; the result is never full.
    ///
    /// # Errors
    ///
    /// `Closed` if the task has closed since; the job comes back.
    pub fn submit<F>(self, job: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
    {
        self.submit_job(job)
    }

    /// As [`Permit::submit`] for any [`TaskJob`].
    ///
    /// # Errors
    ///
    /// As [`Permit::submit`].
    pub fn submit_job<J: TaskJob<S>>(mut self, job: J) -> Result<(), SubmitError<J>> {
        self.is_used = true;
        let header = self.task.header();
        let node = node::make(header, Once::<S, J>::new(job));
        // SAFETY: the node is fresh, and the promise is ours.
        let append = |node| unsafe { header.inbox.push_reserved(node) };
        // SAFETY: the node was just made of this job.
        let pushed = unsafe { push::<Once<S, J>>(header, node, append) };
        pushed.map_err(|(kind, job)| SubmitError { kind, job: job.0 })
    }
}

impl<S> Drop for Permit<S> {
    fn drop(&mut self) {
        if !self.is_used {
            let header = self.task.header();
            header.inbox.unreserve();
            // A producer may wait for this place.
            header.signal(bits::ROOM);
        }
    }
}
