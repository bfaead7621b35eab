//! Acts that give tasks work.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Wake, Waker};

use turnwheel_runtime::{Completion, Context, Failure, Flow, SubmitError, SubmitErrorKind};

use super::hooks::{check, State};
use super::lanes::{submitted, Fate, Lane};
use super::slots::{slot, task, track, Handle, Tracked};
use super::world::{section, violation, with, Code, Entered, Role, Token};
use super::{play, Here};
use crate::kind::Kind;
use crate::program::{Act, Script};

/// A job of a lane.
fn lane_job(
    job: u32,
    body: &Script,
) -> impl FnOnce(&mut State, &mut Context<'_, State>) + Send + 'static {
    let (token, body) = (Token::new(Role::Job(job), body), body.clone());
    move |state, cx| {
        // The frame ends first, the destructor of the job's values comes after it.
        let token = token;
        run_lane_job(job, &body, state, cx, || false);
        drop(token);
    }
}

/// Bytes of a large job: more than lie in a node of a lane.
const LARGE_BYTES: usize = 5_000;

/// As `lane_job`, with a capture that is too large for a node.
fn large_job(
    job: u32,
    body: &Script,
) -> impl FnOnce(&mut State, &mut Context<'_, State>) + Send + 'static {
    let (run, bytes) = (lane_job(job, body), [job as u8; LARGE_BYTES]);
    move |state, cx| {
        if bytes.iter().any(|byte| *byte != job as u8) {
            violation(format!("the bytes of job {job} have changed"));
        }
        run(state, cx);
    }
}

fn run_lane_job(
    job: u32,
    body: &[Act],
    state: &mut State,
    cx: &mut Context<'_, State>,
    goes_on: impl FnOnce() -> bool,
) -> bool {
    let task = with(|world| {
        world.job_begins(job);
        world.job(job).task
    });
    check(task, state, cx);
    let frame = Entered::turn(task, Code::Job);
    play(body, &mut Here::Job(cx));
    let goes_on = goes_on();
    drop(frame);
    with(|world| world.job_ends(job, goes_on));
    goes_on
}

/// A job that goes on a few times.
fn repeated_job(
    job: u32,
    act: &Act,
) -> impl FnMut(&mut State, &mut Context<'_, State>) -> Flow + Send + 'static {
    let (token, body) = (Token::new(Role::Job(job), &act.body), act.body.clone());
    let mut left = act.b % 3;
    move |state, cx| {
        let _used = &token;
        let goes_on = || {
            left = left.saturating_sub(1);
            left > 0
        };
        match run_lane_job(job, &body, state, cx, goes_on) {
            true => Flow::Again,
            false => Flow::Done,
        }
    }
}

/// The error of a submission, for any job.
fn split<J>(result: Result<(), SubmitError<J>>) -> Result<(), (SubmitErrorKind, J)> {
    result.map_err(|error| (error.kind, error.job))
}

fn split_large<J>(result: Result<(), SubmitError<J>>) -> Result<(), (SubmitErrorKind, Box<J>)> {
    result.map_err(|error| (error.kind, Box::new(error.job)))
}

const LANE: Lane = Lane::Submitted { key: None };

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::PermitSubmit => return permit_submit(act),
        Kind::DropPermit => {
            let permit = with(|world| {
                let permit = world.slots.permits[slot(act.a)].take()?;
                world.task(permit.1).permits -= 1;
                Some(permit)
            });
            return drop(permit);
        }
        Kind::DropReserve => {
            let old = with(|world| world.slots.reserves[slot(act.a)].take());
            return drop(old);
        }
        _ => {}
    }
    let Some((task, number)) = task(act.a) else { return };
    let body = &act.body;
    match act.kind {
        Kind::Submit if act.b >= 28 => {
            submitted(number, LANE, |job| split_large(task.submit(large_job(job, body))));
        }
        Kind::Urgent if act.b >= 28 => {
            let lane = Lane::Urgent;
            submitted(number, lane, |job| split_large(task.submit_urgent(large_job(job, body))));
        }
        Kind::Submit => {
            submitted(number, LANE, |job| split(task.submit(lane_job(job, body))));
        }
        Kind::Run => {
            let lane = if task.is_current() { Lane::Fast } else { LANE };
            submitted(number, lane, |job| split(task.run(lane_job(job, body))));
        }
        Kind::Urgent => {
            submitted(number, Lane::Urgent, |job| split(task.submit_urgent(lane_job(job, body))));
        }
        Kind::Keyed => {
            let key = u64::from(act.b % 2);
            let lane = Lane::Submitted { key: Some(key) };
            submitted(number, lane, |job| split(task.submit_keyed(key, lane_job(job, body))));
        }
        Kind::Again => {
            submitted(number, LANE, |job| split(task.submit_again(repeated_job(job, act))));
        }
        Kind::Call => call(&(task, number), body),
        _ => reserve(&(task, number), act),
    }
}

pub(super) fn of_own(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Job(cx) = here else { return };
    let number = cx.task().tag() as u32;
    let body = &act.body;
    match act.kind {
        Kind::RunSelf => {
            submitted(number, Lane::Fast, |job| split(cx.run(lane_job(job, body))));
        }
        Kind::SubmitSelf => {
            submitted(number, LANE, |job| split(cx.submit(lane_job(job, body))));
        }
        _ => {
            submitted(number, Lane::Fast, |job| split(cx.run_again(repeated_job(job, act))));
        }
    }
}

fn call((task, number): &Handle, body: &Script) {
    if task.is_current() {
        let refused = task.call(|_, _| 0);
        if !refused.is_done() {
            violation(format!("task {number} calls itself"));
        }
        return;
    }
    let mut answer = None;
    let mut is_taken = false;
    let job = submitted(*number, LANE, |job| {
        with(|world| world.job(job).is_call = true);
        let run = lane_job(job, body);
        let completion = task.call(move |state, cx| {
            run(state, cx);
            job
        });
        // One that was taken may have been pushed out already, by what it has pushed out.
        let is_dropped = with(|world| world.job(job).fate == Fate::Dropped);
        is_taken = !completion.is_done() || is_dropped;
        answer = Some(completion);
        if is_taken {
            return Ok(());
        }
        let kind = match answer.as_mut().and_then(Completion::try_take) {
            Some(Err(Failure::Closed)) => SubmitErrorKind::Closed,
            Some(Err(Failure::Refused(text))) if text.contains("bytes") => {
                SubmitErrorKind::GroupMemory
            }
            _ => SubmitErrorKind::Full,
        };
        Err((kind, ()))
    });
    if let (true, Some(answer)) = (is_taken, answer) {
        track(Tracked::Call(Some(job), answer));
    }
}

/// A waker that performs acts when it is called and when it is dropped.
pub(super) struct ActingWaker {
    on_wake: Script,
    _token: Token,
}

impl Wake for ActingWaker {
    fn wake(self: Arc<Self>) {
        let _frame = Entered::loose();
        play(&self.on_wake, &mut Here::Loose);
    }
}

/// The waker that the body of an act describes.
pub(super) fn waker(body: &[Act]) -> Waker {
    let on_wake = section(body, Kind::OnWake).unwrap_or_else(|| Script::from([]));
    Waker::from(Arc::new(ActingWaker { on_wake, _token: Token::new(Role::Other, body) }))
}

/// Polls a future of a permit, the one that lies in the slot before a new one.
fn reserve((task, number): &Handle, act: &Act) {
    let before = with(|world| world.slots.reserves[slot(act.b)].take());
    let (mut future, number) = before.unwrap_or_else(|| (Box::pin(task.reserve()), *number));
    let waker = waker(&act.body);
    let polled = Pin::new(&mut future).poll(&mut PollContext::from_waker(&waker));
    match polled {
        Poll::Pending => {
            let entry = Some((future, number));
            let old =
                with(|world| std::mem::replace(&mut world.slots.reserves[slot(act.b)], entry));
            drop(old);
        }
        Poll::Ready(Ok(permit)) => {
            let old = with(|world| {
                world.task(number).permits += 1;
                let place = slot(act.b);
                let old = world.slots.permits[place].replace((permit, number));
                if let Some((_, number)) = &old {
                    world.task(*number).permits -= 1;
                }
                old
            });
            drop(old);
        }
        Poll::Ready(Err(failure)) => {
            let is_right = with(|world| {
                let model = world.task(number);
                model.may_close || model.policy != super::lanes::Policy::Reject
            });
            if !is_right {
                violation(format!("no permit for the open task {number}: {failure}"));
            }
        }
    }
}

fn permit_submit(act: &Act) {
    let permit = with(|world| world.slots.permits[slot(act.a)].take());
    let Some((permit, number)) = permit else { return };
    with(|world| world.task(number).permits -= 1);
    submitted(number, LANE, |job| split(permit.submit(lane_job(job, &act.body))));
}
