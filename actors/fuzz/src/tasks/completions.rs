//! Completions: both sides, chains, joins.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context as PollContext, Poll};

use turnwheel_extras::{first_success, race, Share};
use turnwheel_runtime::completion::{all, completion, InlineExecutor};
use turnwheel_runtime::{Completion, Failure, Phase};

use super::life::delay;
use super::slots::{slot, task, track, Tracked};
use super::submissions::waker;
use super::subscribed::{callback, item, CompletionModel, Item};
use super::world::{current, group, violation, with, Entered, Role, Token};
use super::{play, Here};
use crate::kind::Kind;
use crate::program::Act;

type Outcome = Result<Item, Failure>;

/// The consumer of a completion has got this.
pub(super) fn came(number: u32, outcome: &Outcome) {
    let model = with(|world| world.completions[number as usize]);
    let is_right = match outcome {
        Ok(item) => model.won == Some(item.number),
        Err(Failure::Abandoned) => model.completers == 0 && model.won.is_none(),
        Err(Failure::Cancelled) => model.is_cancelled,
        Err(Failure::Error(_)) => model.has_failed,
        // A second consumer does not exist.
        Err(_) => false,
    };
    if !is_right {
        let what = outcome.as_ref().map(|item| item.number);
        violation(format!("completion {number} came as {what:?}, the model says {model:?}"));
    }
}

fn take(argument: u8) -> Option<(Completion<Item>, u32)> {
    with(|world| world.slots.completions[slot(argument)].take())
}

/// Takes a completion for a consumer that the model does not follow.
pub(super) fn hand(argument: u8) -> Option<(Completion<Item>, u32)> {
    let entry = take(argument)?;
    with(|world| world.completions[entry.1 as usize].is_handed = true);
    Some(entry)
}

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::Make => make(act),
        Kind::Complete | Kind::CompleteFail => complete(act),
        Kind::CloneCompleter => {
            let entry = with(|world| world.slots.completers[slot(act.a)].clone());
            if let Some((completer, number)) = entry {
                with(|world| world.completions[number as usize].completers += 1);
                put_completer(act.b, Some((completer, number)));
            }
        }
        Kind::DropCompleter => put_completer(act.a, None),
        Kind::CancelCompletion => cancel(act),
        Kind::DropCompletion => {
            if let Some((completion, number)) = take(act.a) {
                gives_up(number, &completion);
                drop(completion);
            }
        }
        Kind::Poll => poll(act),
        Kind::OnCancel => {
            let entry = with(|world| world.slots.completers[slot(act.a)].clone());
            let Some((completer, number)) = entry else { return };
            with(|world| world.completions[number as usize].completers += 1);
            completer.on_cancel(waker(&act.body));
            with(|world| world.completions[number as usize].completers -= 1);
            drop(completer);
        }
        Kind::ThenOn | Kind::ThenInline => then(act),
        Kind::Shared => {
            let Some((completion, number)) = hand(act.a) else { return };
            let shared = completion.map(|item| item.number).shared();
            track(Tracked::Shared("shared", Box::pin(shared.clone())));
            track(Tracked::Shared("subscribed", Box::pin(shared.subscribe())));
            let _ = number;
        }
        Kind::Sleep => sleep(act),
        _ => join(act),
    }
}

fn make(act: &Act) {
    let (completer, waiting) = completion();
    let number = with(|world| {
        world.completions.push(CompletionModel { completers: 1, ..CompletionModel::default() });
        (world.completions.len() - 1) as u32
    });
    put_completer(act.a, Some((completer, number)));
    let entry = Some((waiting, number));
    let old = with(|world| std::mem::replace(&mut world.slots.completions[slot(act.a)], entry));
    if let Some((completion, number)) = old {
        gives_up(number, &completion);
        drop(completion);
    }
}

type Completer = turnwheel_runtime::Completer<Item>;

fn put_completer(argument: u8, entry: Option<(Completer, u32)>) {
    let old = with(|world| {
        let old = std::mem::replace(&mut world.slots.completers[slot(argument)], entry);
        if let Some((_, number)) = &old {
            world.completions[*number as usize].completers -= 1;
        }
        old
    });
    drop(old);
}

/// The consumer goes; the producer is told unless it was faster.
fn gives_up(number: u32, completion: &Completion<Item>) {
    if !completion.is_done() {
        with(|world| world.completions[number as usize].is_cancelled = true);
    }
}

fn is_settled(model: &CompletionModel) -> bool {
    model.won.is_some() || model.has_failed || model.is_cancelled
}

fn complete(act: &Act) {
    let entry = with(|world| world.slots.completers[slot(act.a)].clone());
    let Some((completer, number)) = entry else { return };
    let value = with(|world| world.next() as u32);
    let before = with(|world| {
        let model = &mut world.completions[number as usize];
        let before = *model;
        model.completers += 1;
        // Before the call, which tells the consumer.
        if !is_settled(&before) {
            model.won = (act.kind == Kind::Complete).then_some(value);
            model.has_failed = act.kind == Kind::CompleteFail;
        }
        before
    });
    let has_won = if act.kind == Kind::Complete {
        match completer.complete(item(value, &act.body)) {
            Ok(()) => true,
            Err(given_back) => {
                if given_back.0.number != value {
                    violation(format!("completion {number} gave back another value"));
                }
                drop(given_back);
                false
            }
        }
    } else {
        completer.fail(Failure::message("failed by hand")).is_ok()
    };
    let is_right = has_won != is_settled(&before) || (!has_won && before.is_handed);
    if !has_won && !is_settled(&before) {
        // Its consumer, which the model does not follow, has given up.
        with(|world| {
            let model = &mut world.completions[number as usize];
            (model.won, model.has_failed, model.is_cancelled) = (None, false, true);
        });
    }
    if !is_right {
        violation(format!("completion {number}: won {has_won}, the model says {before:?}"));
    }
    with(|world| world.completions[number as usize].completers -= 1);
    drop(completer);
}

fn cancel(act: &Act) {
    let place = slot(act.a);
    let Some((completion, number)) = take(act.a) else { return };
    let was_done = completion.is_done();
    let was_settled = with(|world| {
        let model = &mut world.completions[number as usize];
        let was_settled = is_settled(model);
        model.is_cancelled |= !was_done;
        was_settled
    });
    let has_come_first = completion.cancel();
    if has_come_first == was_done || (was_settled && has_come_first) {
        violation(format!("the cancel of completion {number} says {has_come_first}"));
    }
    let entry = Some((completion, number));
    let old = with(|world| std::mem::replace(&mut world.slots.completions[place], entry));
    if let Some((completion, number)) = old {
        gives_up(number, &completion);
    }
}

fn poll(act: &Act) {
    let Some((mut completion, number)) = take(act.a) else { return };
    let waker = waker(&act.body);
    match Pin::new(&mut completion).poll(&mut PollContext::from_waker(&waker)) {
        Poll::Ready(outcome) => {
            came(number, &outcome);
            drop(outcome);
        }
        Poll::Pending => {
            let entry = Some((completion, number));
            let place = slot(act.a);
            let old = with(|world| std::mem::replace(&mut world.slots.completions[place], entry));
            if let Some((completion, number)) = old {
                gives_up(number, &completion);
            }
        }
    }
    drop(waker);
}

fn then(act: &Act) {
    let Some((completion, number)) = hand(act.a) else { return };
    let (token, body) = (Token::new(Role::Other, &act.body), act.body.clone());
    let is_run = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&is_run);
    let next = move |outcome: Outcome| {
        let token = token;
        if own.swap(true, Ordering::Relaxed) {
            violation(format!("the continuation of completion {number} runs twice"));
        }
        came(number, &outcome);
        let _frame = Entered::loose();
        play(&body, &mut Here::Loose);
        drop(token);
        outcome
    };
    let answer = match task(act.b).filter(|_| act.kind == Kind::ThenOn) {
        Some((task, number)) => {
            with(|world| world.task(number).has_foreign = true);
            completion.then_on(task, next)
        }
        None => completion.then_on(InlineExecutor, next),
    };
    track(Tracked::Item(act.kind.text(), answer));
}

fn join(act: &Act) {
    let sources = [hand(act.a), hand(act.b), hand(act.a.wrapping_add(1))];
    let sources: Vec<_> = sources.into_iter().flatten().map(|(source, _)| source).collect();
    match act.kind {
        Kind::All => track(Tracked::Items("all", all(sources))),
        Kind::First => track(Tracked::Item("first-success", first_success(sources))),
        _ => track(Tracked::Item("race", race(sources))),
    }
}

fn sleep(act: &Act) {
    let Some(group) = group() else { return };
    let due_ns = group.now_ns() + delay(act.b).as_nanos() as u64;
    let sleep = group.sleep(delay(act.b));
    let own = group.clone();
    let checked = sleep.then_on(InlineExecutor, move |outcome| {
        let now_ns = own.now_ns();
        if outcome.is_ok() && now_ns < due_ns {
            violation(format!("a sleep until {due_ns} ns ends at {now_ns} ns"));
        }
        outcome
    });
    track(Tracked::Unit("sleep", checked));
}

pub(super) fn continued(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Job(cx) = here else { return };
    let number = cx.task().tag() as u32;
    debug_assert_eq!(current(), Some(number));
    let is_holding = cx.phase() != Phase::Started;
    let role = Role::Future { task: number, is_exclusive: false, is_holding };
    let Some((completion, source)) = hand(act.a) else { return };
    let (held, token) = (Token::new(role, &[]), Token::new(Role::Other, &act.body));
    let body = act.body.clone();
    if act.kind == Kind::OnAll {
        let second = hand(act.b).map(|(completion, _)| completion);
        let sources = [completion].into_iter().chain(second).collect();
        let subscription = cx.on_all(sources, move |state, cx, outcome| {
            let (held, token) = (held, token);
            drop(outcome);
            callback(number, &body, state, cx);
            drop((held, token));
        });
        return keep(act.b, subscription);
    }
    let job = move |state: &mut super::State,
                    cx: &mut turnwheel_runtime::Context<'_, _>,
                    outcome: Outcome| {
        let (held, token) = (held, token);
        came(source, &outcome);
        callback(number, &body, state, cx);
        drop((held, token, outcome));
    };
    let subscription = match act.kind {
        Kind::OnCompletion => cx.on_completion(completion, job),
        _ => cx.on_completion_holding(completion, job),
    };
    keep(act.b, subscription);
}

fn keep(argument: u8, subscription: turnwheel_runtime::Subscription) {
    let old = with(|world| world.slots.subscriptions[slot(argument)].replace(subscription));
    drop(old);
}
