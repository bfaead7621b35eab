//! Futures on tasks, and blocking closures.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as PollContext, Poll};

use turnwheel_runtime::{Completion, Phase};

use super::completions;
use super::hooks::check;
use super::life::delay;
use super::slots::slot;
use super::subscribed::{callback, Item};
use super::world::{group, section, with, Code, Entered, Role, Token};
use super::{play, Here};
use crate::kind::Kind;
use crate::program::{Act, Script};

/// A future whose steps are acts; each `pend` waits for something.
struct Acting {
    task: u32,
    steps: Script,
    at: usize,
    waits: Option<Waits>,
    _token: Token,
}

enum Waits {
    Item(Completion<Item>, u32),
    Sleep(Completion<()>),
}

impl Future for Acting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<()> {
        let frame = Entered::turn(self.task, Code::Poll);
        let polled = self.step(cx);
        drop(frame);
        polled
    }
}

impl Acting {
    fn step(&mut self, cx: &mut PollContext<'_>) -> Poll<()> {
        loop {
            match &mut self.waits {
                Some(Waits::Item(completion, number)) => {
                    let Poll::Ready(outcome) = Pin::new(completion).poll(cx) else {
                        return Poll::Pending;
                    };
                    completions::came(*number, &outcome);
                    self.waits = None;
                }
                Some(Waits::Sleep(sleep)) => {
                    if Pin::new(sleep).poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    self.waits = None;
                }
                None => {}
            }
            let Some(act) = self.steps.get(self.at).cloned() else { return Poll::Ready(()) };
            self.at += 1;
            if act.kind != Kind::Pend {
                play(std::slice::from_ref(&act), &mut Here::Loose);
                continue;
            }
            match act.b % 4 {
                0 => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                1 => {
                    let sleep = group().map(|group| group.sleep(delay(act.b / 4)));
                    self.waits = sleep.map(Waits::Sleep);
                }
                _ => {
                    let entry = completions::hand(act.a);
                    self.waits = entry.map(|(future, number)| Waits::Item(future, number));
                }
            }
        }
    }
}

pub(super) fn begin(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Job(cx) = here else { return };
    let task = cx.task().tag() as u32;
    let is_exclusive = matches!(act.kind, Kind::Exclusive | Kind::RunExclusive);
    // A future that is registered too late is dropped at once, and keeps nothing out.
    let phase = cx.phase();
    let is_exclusive = is_exclusive && !phase.is_over();
    let is_holding = is_exclusive || phase != Phase::Started;
    let role = Role::Future { task, is_exclusive, is_holding };
    let future = Acting {
        task,
        steps: act.body.clone(),
        at: 0,
        waits: None,
        _token: Token::new(role, &act.body),
    };
    let then = section(&act.body, Kind::Then).unwrap_or_else(|| Script::from([]));
    let token = Token::new(Role::Other, &then);
    let then = move |state: &mut super::State, cx: &mut turnwheel_runtime::Context<'_, _>, ()| {
        let token = token;
        check(task, state, cx);
        // The poll that has ended the future and this are one job.
        let frame = Entered::same_job(task, Code::Job);
        play(&then, &mut Here::Job(cx));
        drop(frame);
        drop(token);
    };
    let subscription = match act.kind {
        Kind::Interleaved => cx.await_interleaved(future, then),
        Kind::Holding => cx.await_holding(future, then),
        Kind::Exclusive => cx.await_exclusive(future, then),
        _ => return cx.run_exclusive(future, then),
    };
    let old = with(|world| world.slots.subscriptions[slot(act.a)].replace(subscription));
    drop(old);
}

pub(super) fn cancel(act: &Act) {
    let subscription = with(|world| world.slots.subscriptions[slot(act.a)].clone());
    if let Some(subscription) = subscription {
        subscription.cancel();
    }
}

pub(super) fn block(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Job(cx) = here else { return };
    let task = cx.task().tag() as u32;
    let is_holding = cx.phase() != Phase::Started;
    let role = Role::Future { task, is_exclusive: false, is_holding };
    let (token, body) = (Token::new(Role::Other, &act.body), act.body.clone());
    let then = section(&body, Kind::Then).unwrap_or_else(|| Script::from([]));
    let limit = (act.b % 3 == 0).then(|| delay(act.b / 3));
    let held = Token::new(role, &[]);
    let block = move || {
        let token = token;
        let _frame = Entered::loose();
        play(&body, &mut Here::Loose);
        drop(token);
    };
    let subscription = cx.run_blocking(block, limit, move |state, cx, _| {
        let held = held;
        callback(task, &then, state, cx);
        drop(held);
    });
    let old = with(|world| world.slots.subscriptions[slot(act.a)].replace(subscription));
    drop(old);
}
