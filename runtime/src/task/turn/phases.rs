//! The life of a task: signals, phases, failures and the end; the rare part of a turn.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

use super::leave::Left;
use super::lifecycle::{Hook, OnFailure, Phase, Stage};
use super::run::Turn;
use crate::failure::{contain, log, Failure};
use crate::sync::{keeps, Ordering, Step};
use crate::task::cell::layout::Header;
use crate::task::cell::reference;
use crate::task::lane::inbox::bits;
use crate::task::lane::mail::{mail_len, pop_mail};
use crate::task::lane::node;
use crate::task::lane::urgent;

/// Carries out the requests of other threads.
pub(crate) fn take_signals(turn: &mut Turn) -> Left {
    let set = turn.header().inbox.take_signals_owner();
    if set & bits::ORPHAN != 0 {
        turn.owner().orphaned.set(true);
    }
    if set & bits::ROOM != 0 {
        turn.owner().room_wanted.set(true);
    }
    if set & bits::URGENT != 0 {
        turn.owner().has_urgent.set(true);
    }
    if turn.header().stage_owner() == Stage::Ending {
        return Left::Stays;
    }
    if set & bits::KILL != 0 {
        end_failed(turn, Failure::Killed);
    } else if set & bits::FAIL != 0 {
        let failure = turn.header().extra().and_then(|extra| {
            let mut life = extra.life.lock();
            std::mem::take(&mut life.is_fail_requested).then(|| life.failure.clone()).flatten()
        });
        end_failed(turn, failure.unwrap_or(Failure::Cancelled));
    } else {
        if set & bits::STOP != 0 {
            stop(turn);
        }
        if set & bits::INTERRUPT != 0 && turn.header().stage_owner() == Stage::Living {
            call_hook(turn, Hook::Interrupted);
        }
    }
    Left::Stays
}

/// Enters the next phase if no subscription holds this one, or leaves the task.
pub(crate) fn advance(turn: &mut Turn) -> Left {
    if turn.header().stage_owner() == Stage::Ending {
        return end(turn);
    }
    let phase = turn.phase();
    if phase == Phase::Starting && turn.header().stage_owner() == Stage::Unbegun {
        turn.header().set_stage_owner(Stage::Living);
        call_hook(turn, Hook::Starting);
        return Left::Stays;
    }
    if has_ready(turn) {
        return Left::Stays;
    }
    if is_held(turn, phase) {
        return turn.hold();
    }
    match phase {
        Phase::New | Phase::Starting => become_started(turn),
        Phase::Started => return advance_started(turn),
        Phase::CloseRequested => {
            enter(turn, Phase::Closing);
            call_hook(turn, Hook::Closing);
        }
        Phase::Closing => {
            enter(turn, Phase::Closed);
            turn.header().set_stage_owner(Stage::Ending);
            call_hook(turn, Hook::Closed);
        }
        Phase::Closed | Phase::Failed => return end(turn),
    }
    Left::Stays
}

fn advance_started(turn: &mut Turn) -> Left {
    let header = turn.header();
    if !header.inbox.is_closed() {
        let is_unreachable = turn.owner().orphaned.get() && header.is_unreferenced();
        turn.owner().orphaned.set(is_unreachable);
        let has_subscriptions = turn.subscriptions(|own| !own.is_empty()).unwrap_or(false);
        if !is_unreachable || has_subscriptions {
            return turn.go_idle();
        }
    }
    // Also after another thread's close, which may not have come to the urgent lane yet.
    close_admission(header);
    if turn.owner().open.get() && urgent::is_waiting_owner(turn) {
        return Left::Stays;
    }
    if !is_drained(turn) || mail_len(header) > 0 {
        return turn.go_idle();
    }
    request_close(turn);
    Left::Stays
}

/// An exclusive future has ended: the subscriptions that it kept waiting are visited before any
/// other job, and the lanes are open again unless another exclusive future follows.
pub(crate) fn exclusive_ended(turn: &mut Turn) {
    turn.subscriptions(|own| own.owed += own.release_waiting());
    open_lanes(turn);
}

/// Opens the lanes if nothing keeps them shut. The signal of a policy mailbox may have been taken
/// while they were shut, so it is set again.
fn open_lanes(turn: &Turn) {
    let header = turn.header();
    let is_exclusive = turn.subscriptions(|own| !own.exclusive.is_empty()).unwrap_or(false);
    let is_open = turn.phase() == Phase::Started && !is_exclusive;
    turn.owner().open.set(is_open);
    if is_open && mail_len(header) > 0 {
        header.inbox.signal(bits::MAIL);
    }
}

/// Closes the submitted lane and the policy mailbox. Returns whether this call did it.
pub(crate) fn close_admission(header: &Header) -> bool {
    if let Some(mail) = header.extra().and_then(|extra| extra.mail.as_ref()) {
        mail.lock().close();
    }
    let is_first = header.inbox.close_admission();
    urgent::close(header);
    is_first
}

fn become_started(turn: &mut Turn) {
    enter(turn, Phase::Started);
    turn.owner().open.set(true);
    // RMW: either we see `Extra` and its waiters, or the thread that makes it sees the phase.
    if let Some(extra) = turn.header().extra_settled() {
        turn.subscriptions(|own| own.release_waiting());
        let waiters = std::mem::take(&mut extra.life.lock().started);
        for waiter in waiters {
            // A waiter that gave up has completed it as cancelled.
            let _ = waiter.complete(());
        }
    }
    call_hook(turn, Hook::Started);
}

/// Begins to close; admission is closed.
fn request_close(turn: &mut Turn) {
    turn.owner().open.set(false);
    enter(turn, Phase::CloseRequested);
    call_hook(turn, Hook::CloseRequested);
}

/// Skips the queued jobs and closes in order.
fn stop(turn: &mut Turn) {
    close_admission(turn.header());
    discard_fast(turn);
    retire(turn, Phase::Closed);
    discard_submitted(turn);
    if turn.phase() <= Phase::Started {
        request_close(turn);
    }
}

/// After a failed job or hook: calls the policy hook and carries out its answer.
pub(crate) fn job_failed(turn: &mut Turn, failure: Failure) {
    report(turn.header(), &failure);
    let asked = contained(turn, Hook::OnFailure(&failure));
    match turn.phase() {
        Phase::Started => match asked.unwrap_or(OnFailure::Escalate) {
            OnFailure::Resume => {}
            OnFailure::Stop => {
                turn.header().inbox.signal(bits::STOP);
                turn.interrupt();
            }
            OnFailure::Escalate => {
                turn.header().group.escalate(turn.header(), &failure);
                end_failed(turn, failure);
            }
        },
        Phase::Closed => record(turn.header(), failure),
        Phase::Failed => {}
        _ => end_failed(turn, failure),
    }
}

/// Ends the task as failed; the clean-up hook runs once.
fn end_failed(turn: &mut Turn, failure: Failure) {
    let phase = turn.phase();
    if phase.is_over() {
        return record(turn.header(), failure);
    }
    close_admission(turn.header());
    turn.owner().open.set(false);
    turn.header().set_stage_owner(Stage::Ending);
    record(turn.header(), failure.clone());
    discard_fast(turn);
    enter(turn, Phase::Failed);
    // A panic in the clean-up hook was reported; the end continues.
    let _ = contained(turn, Hook::Failed(&failure));
}

/// Remembers the first failure for the futures.
fn record(header: &Header, failure: Failure) {
    let mut life = header.extra_or_make().life.lock();
    life.failure.get_or_insert(failure);
}

/// Changes the phase and drops the subscriptions that end with the former one.
fn enter(turn: &mut Turn, phase: Phase) {
    if phase > Phase::Started && turn.phase() < Phase::Started {
        // Before the phase shows it: later callers of `started` get the answer.
        turn.header().extra_or_make().life.lock().is_unstarted = true;
    }
    turn.header().set_phase_owner(phase);
    if let Some(simulation) = &turn.header().group.simulation {
        simulation.phase(turn.header(), phase);
    }
    if phase > Phase::Started && turn.header().extra().is_some() {
        retire(turn, phase);
    }
}

/// Drops all subscriptions; the task lives on.
pub(crate) fn cancel_subscriptions(turn: &mut Turn) {
    retire(turn, Phase::Closed);
    open_lanes(turn);
}

fn retire(turn: &Turn, phase: Phase) {
    let retired = turn.subscriptions(|own| {
        let retired = own.retire(phase);
        own.release_waiting();
        retired
    });
    // No iterator over nothing: most tasks end without subscriptions.
    let Some(retired) = retired else { return };
    for slot in retired {
        crate::subscription::abandon(&slot, &turn.header().group);
        contain("dropping a subscription", || drop(slot));
    }
}

/// Discards the queued jobs, and ends the task once no producer is under way.
fn end(turn: &mut Turn) -> Left {
    // Destructors run from here on: the fast lane refuses their jobs.
    super::current::close_fast(turn.owner());
    discard_fast(turn);
    discard_submitted(turn);
    turn.publish();
    if keeps(Step::DrainedEnd) && !is_drained(turn) {
        return turn.go_idle();
    }
    retire(turn, Phase::Closed);
    let last = LastSteps;
    // SAFETY: the last turn; nothing uses state or hooks after it.
    unsafe { (turn.header().vtable.drop_state)(turn.header_ptr()) };
    settle(turn);
    std::mem::forget(last);
    super::current::forget();
    reference::release_own(turn.header_ptr());
    Left::Gone
}

/// The steps from the end of the state to the end of the task. User code in them is contained; a
/// panic that left them would reach hooks that are dropped, so it ends the process.
struct LastSteps;

impl Drop for LastSteps {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Settles the futures.
fn settle(turn: &Turn) {
    let header = turn.header();
    let stub = header.inbox.stub();
    let position = turn.owner().position.replace(stub);
    if !ptr::eq(position, stub) {
        // SAFETY: admission is closed and drained, so no producer needs the node.
        unsafe { node::free(position.cast_mut().cast()) };
    }
    let group = &header.group;
    group.registry.remove(header);
    // Release: pairs with the loads of waiters, which look under the lock of `Extra::life`.
    header.is_settled.store(true, Ordering::Release);
    // RMW: either we see the waiter's `Extra`, or the waiter sees that the task is settled.
    if let Some(extra) = header.extra_settled() {
        let (started, closed, failure, deadline) = {
            let mut life = extra.life.lock();
            let started = std::mem::take(&mut life.started);
            let closed = std::mem::take(&mut life.closed);
            (started, closed, life.failure.clone(), life.deadline.take())
        };
        if let Some((_, key)) = deadline {
            group.timers.cancel(key);
        }
        for waiter in started {
            let failure = failure.clone().unwrap_or(Failure::Closed);
            contain("telling of a start", move || drop(waiter.fail(failure)));
        }
        for waiter in closed {
            let outcome = failure.clone().map_or(Ok(()), Err);
            contain("telling of an end", move || drop(waiter.complete_with(outcome)));
        }
        let waiting = extra.room.lock().take(u64::MAX);
        for waker in waiting {
            contain("waking a producer", || waker.wake());
        }
    }
    if keeps(Step::DeadFirst) {
        header.inbox.die_owner();
    }
    if let Some(extra) = header.extra() {
        // Until now wakers left ready subscriptions here; from now on they take them back.
        extra.ready.clear();
        let queued = turn.subscriptions(|own| own.take_queued());
        drop(queued);
    }
    if !keeps(Step::DeadFirst) {
        header.inbox.die_owner();
    }
    group.registry.ended();
}

/// Wakes as many waiting producers as there is room. Wakes all when the queue is empty: some may
/// have given up, and there may be no later round to wake the next.
pub(crate) fn give_room(turn: &Turn) {
    let header = turn.header();
    let Some(extra) = header.extra() else { return };
    let capacity = header.capacity;
    let queued = header.inbox.queued();
    let free = if queued == 0 { u64::MAX } else { capacity.saturating_sub(queued) };
    let mut room = extra.room.lock();
    let woken = room.take(free);
    turn.owner().room_wanted.set(!room.is_empty());
    drop(room);
    for waker in woken {
        contain("waking a producer", || waker.wake());
    }
}

fn discard_fast(turn: &mut Turn) {
    while let Some(node) = super::current::take_fast(turn.owner()) {
        // SAFETY: the node was in the lane, its job unrun or about to go on.
        unsafe { node::discard(node, turn) };
    }
}

fn discard_submitted(turn: &mut Turn) {
    urgent::discard(turn);
    while let Some(queued) = pop_mail(turn.header()) {
        // SAFETY: the node was in the queue, its job unrun.
        unsafe { node::discard(queued.0, turn) };
    }
    loop {
        let position = turn.owner().position.get();
        // SAFETY: we are the runner and this is our position.
        let node = unsafe { turn.header().inbox.next_owner(position) };
        if node.is_null() {
            return;
        }
        turn.advance(node);
        turn.consumed += 1;
        // SAFETY: the node was just taken, its job unrun; it stays as our position.
        unsafe { node::discard_payload(node, turn) };
    }
}

/// Calls a hook; its error or panic goes to the failure path of the phase.
fn call_hook(turn: &mut Turn, hook: Hook<'_>) {
    let result = contained(turn, hook);
    if let Err(failure) = result {
        turn.failures += 1;
        job_failed(turn, failure);
    }
}

/// Calls a hook and turns a panic into a failure.
fn contained(turn: &mut Turn, hook: Hook<'_>) -> Result<OnFailure, Failure> {
    let header = turn.header_ptr();
    super::current::start_job();
    let call = turn.header().vtable.hook;
    let run = AssertUnwindSafe(|| {
        // SAFETY: the vtable fits the cell, and we are the runner.
        unsafe { call(header, turn, hook) }
    });
    let outcome = catch_unwind(run).unwrap_or_else(|panic| Err(Failure::from_panic(panic)));
    outcome.inspect_err(|failure| {
        let task = turn.header().name();
        log(|| tracing::error!(task, ?hook, %failure, "a hook failed"));
    })
}

fn report(header: &Header, failure: &Failure) {
    let (task, class) = (header.name(), header.class().name());
    log(|| tracing::error!(task, class, %failure, "a job failed"));
    if let Some(simulation) = &header.group.simulation {
        log(|| simulation.failed(header, failure));
    }
}

pub(crate) fn has_ready(turn: &Turn) -> bool {
    turn.subscriptions(|own| own.has_ready()).unwrap_or(false)
}

fn is_held(turn: &Turn, phase: Phase) -> bool {
    let is_held = turn.subscriptions(|own| !own.exclusive.is_empty() || own.is_held(phase));
    is_held.unwrap_or(false)
}

/// Number of completions and futures that keep the task from closing.
pub(crate) fn holding(turn: &Turn) -> u32 {
    turn.subscriptions(|own| own.holding()).unwrap_or(0)
}

fn is_drained(turn: &Turn) -> bool {
    turn.header().inbox.is_drained_owner(turn.owner().position.get())
}
