//! Acts on actors and entities.

mod model;
mod player;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use turnwheel_actors::{Address, Ask, AskError, EntityRef, Restart, System, TellError};
use turnwheel_runtime::{Failure, Group, Mailbox, SubmitErrorKind};

pub(in crate::tasks) use self::model::{Actors, Call};
pub(in crate::tasks) use self::player::Player;
pub(in crate::tasks) use self::player::{acting, Letter, OpenGuard, Plain};
use self::player::{Bulk, Busy, Large, Later, Mixed};
use super::life::delay;
use super::main_thread::guarded;
use super::services::intercepted::{Outward, Watchful};
use super::services::placed;
use super::slots::slot;
use super::world::{group, violation, with};
use super::Here;
use crate::kind::Kind;
use crate::program::{Act, Program};

/// Keys of entities.
const KEYS: u8 = 3;
/// Time that a call without a limit of its own has.
pub(in crate::tasks) const ASK_LIMIT: Duration = Duration::from_millis(50);

/// Makes the system of a program and its entities.
pub(super) fn begin(group: &Group, program: &Program) {
    let mut builder = System::builder(group).ask_limit(ASK_LIMIT);
    if program.is_intercepted() {
        builder = builder.intercept(Watchful);
    }
    if program.is_intercepted_outgoing() {
        builder = builder.intercept_outgoing(Outward);
    }
    if program.is_measured() {
        builder = super::services::intercepted::measured(builder);
    }
    let system = builder.build();
    let entities = super::services::stored::entities(&system, program);
    with(|world| {
        world.actors.system = Some(system);
        world.actors.entities = Some(entities);
    });
}

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::Actor => spawn(act),
        Kind::DropAddress => {
            let old = with(|world| world.actors.addresses[slot(act.a)].take());
            lost(old.as_ref());
            drop(old);
        }
        Kind::Tell | Kind::TellUrgent | Kind::Ask => {
            let address = with(|world| world.actors.addresses[slot(act.a)].clone());
            let Some((address, number)) = address else { return };
            send(act, &address, number);
        }
        Kind::EntityTell | Kind::EntityAsk | Kind::Passivate => entity(act),
        Kind::FailActivation => with(|world| world.actors.failing += 1),
        Kind::DropAsk => {
            let call = with(|world| world.actors.calls.pop());
            drop(call);
        }
        Kind::Answer => {
            let reply = with(|world| world.actors.replies.pop());
            if let Some((reply, number)) = reply {
                reply.send(number);
            }
        }
        Kind::DropReply => {
            let reply = with(|world| world.actors.replies.pop());
            drop(reply);
        }
        _ => end(act),
    }
}

/// An address goes; without another one the actor closes.
pub(super) fn lost(old: Option<&(Address<Player>, u32)>) {
    if let Some((_, number)) = old {
        with(|world| world.actors.closes(*number));
    }
}

fn spawn(act: &Act) {
    let Some(system) = with(|world| world.actors.system.clone()) else { return };
    let is_bounded = act.b % 4 == 3;
    let number = with(|world| {
        let number = world.actors.add(is_bounded, None);
        if world.is_ending {
            world.actors.may_end(number);
        }
        number
    });
    let mut builder = system.actor(Player::new(number, &act.body));
    if is_bounded {
        builder = builder.mailbox(Mailbox::bounded(2));
    }
    if act.b / 4 % 2 == 1 {
        let hooks = act.body.clone();
        builder = builder.restart(Restart::limited(2, Duration::from_secs(1)), move || {
            Player::new(number, &hooks)
        });
    }
    match builder.spawn() {
        Ok(address) => {
            let entry = Some((address, number));
            let old =
                with(|world| std::mem::replace(&mut world.actors.addresses[slot(act.a)], entry));
            lost(old.as_ref());
            drop(old);
        }
        Err(error) => {
            if !with(|world| world.is_ending) {
                violation(format!("actor {number} was not spawned"));
            }
            drop(error);
        }
    }
}

fn end(act: &Act) {
    let address = with(|world| world.actors.addresses[slot(act.a)].clone());
    let Some((address, number)) = address else { return };
    with(|world| match act.kind {
        Kind::CloseActor => world.actors.closes(number),
        _ => world.actors.may_end(number),
    });
    let future = match act.kind {
        Kind::CloseActor => address.close(),
        Kind::StopActor => address.stop(),
        _ => address.kill(),
    };
    super::slots::track(super::slots::Tracked::Unit(act.kind.text(), future));
}

/// The message came back, or it did not.
pub(super) fn told<M>(
    number: u32,
    result: Result<(), TellError<M>>,
    letter: impl FnOnce(&M) -> u32,
) {
    let Err(error) = result else { return };
    if letter(&error.message) != number {
        violation(format!("message {number} was refused and another one came back"));
    }
    with(|world| world.came_back(number, error.kind));
    drop(error);
}

fn send(act: &Act, address: &Address<Player>, to: u32) {
    if act.kind == Kind::Ask {
        let number = with(|world| world.sent(Some(to), true, true));
        let letter = Letter::new(number, &act.body);
        if is_large(act) {
            return keep(Call::Large(number, address.ask(Large::new(letter))));
        }
        let limit = delay(act.b / 4 + 2);
        return keep(match act.b % 4 {
            0 => Call::Plain(number, address.ask_within(Plain(letter), limit)),
            1 => Call::Busy(number, address.ask(Busy(letter))),
            2 => Call::Mixed(number, address.ask_within(Mixed(letter), limit)),
            _ => Call::Later(number, address.ask(Later(letter))),
        });
    }
    let is_urgent = act.kind == Kind::TellUrgent;
    let number = with(|world| world.sent(Some(to), !is_urgent, false));
    let letter = Letter::new(number, &act.body);
    if is_large(act) {
        let large = Large::new(letter);
        let sent = if is_urgent { address.tell_urgent(large) } else { address.tell(large) };
        return told(number, sent, |m| m.letter.number);
    }
    match (is_urgent, act.b % 4) {
        (false, 0) => told(number, address.tell(Plain(letter)), |m| m.0.number),
        (false, 1) => told(number, address.tell(Busy(letter)), |m| m.0.number),
        (false, 2) => told(number, address.tell(Mixed(letter)), |m| m.0.number),
        (false, _) => told(number, address.tell(Later(letter)), |m| m.0.number),
        (true, 0 | 1) => told(number, address.tell_urgent(Plain(letter)), |m| m.0.number),
        (true, 2) => told(number, address.tell_urgent(Mixed(letter)), |m| m.0.number),
        (true, _) => told(number, address.tell_urgent(Later(letter)), |m| m.0.number),
    }
}

fn entity(act: &Act) {
    let Some(entities) = with(|world| world.actors.entities.clone()) else { return };
    let entity: EntityRef<Player> = entities.get(u64::from(act.a % KEYS));
    if act.kind == Kind::Passivate {
        let passive = entity.passivate();
        return super::slots::track(super::slots::Tracked::Unit("passivate", passive));
    }
    let is_call = act.kind == Kind::EntityAsk;
    let number = with(|world| world.sent(None, false, is_call));
    let letter = Letter::new(number, &act.body);
    if is_large(act) {
        let large = Large::new(letter);
        return match is_call {
            true => keep(Call::Large(number, entity.ask(large))),
            false => told_entity(act, number, entity.tell(large), |m| m.letter.number),
        };
    }
    if is_call {
        return keep(match act.b % 4 {
            0 => Call::Plain(number, entity.ask(Plain(letter))),
            1 => Call::Busy(number, entity.ask_within(Busy(letter), delay(act.b / 4))),
            2 => Call::Mixed(number, entity.ask(Mixed(letter))),
            _ => Call::Later(number, entity.ask(Later(letter))),
        });
    }
    match act.b % 4 {
        0 => told_entity(act, number, entity.tell(Plain(letter)), |m| m.0.number),
        1 => told_entity(act, number, entity.tell(Busy(letter)), |m| m.0.number),
        2 => told_entity(act, number, entity.tell(Mixed(letter)), |m| m.0.number),
        _ => told_entity(act, number, entity.tell(Later(letter)), |m| m.0.number),
    }
}

/// As `told`, of a message to an entity, which may be of another node.
fn told_entity<M>(
    act: &Act,
    number: u32,
    result: Result<(), TellError<M>>,
    letter: impl FnOnce(&M) -> u32,
) {
    if matches!(&result, Err(error) if error.kind == SubmitErrorKind::Refused) {
        placed::check_refused(u64::from(act.a % KEYS));
    }
    told(number, result, letter);
}

/// Whether a message is larger than what lies in a node of a mailbox: one in eight.
fn is_large(act: &Act) -> bool {
    act.b >= 28
}

pub(super) fn keep(call: Call) {
    with(|world| world.actors.calls.push(call));
}

pub(super) fn of_own(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Handler(cx) = here else { return };
    let Some(own) = acting() else { return };
    let number = with(|world| {
        let is_entity = world.actors.is_entity(own);
        world.sent((!is_entity).then_some(own), false, act.kind != Kind::TellSelf)
    });
    match act.kind {
        Kind::FailActor => {
            with(|world| world.actors.may_end(own));
            cx.fail(Failure::message("asked to fail"));
        }
        Kind::TellSelf => {
            let letter = Letter::new(number, &act.body);
            match act.b % 2 {
                0 if is_large(act) => {
                    told(number, cx.tell_self(Large::new(letter)), |m| m.letter.number);
                }
                0 => told(number, cx.tell_self(Plain(letter)), |m| m.0.number),
                _ => told(number, cx.tell_self(Busy(letter)), |m| m.0.number),
            }
        }
        Kind::TellAfter => {
            let letter = Letter::new(number, &act.body);
            let timer = match act.b % 2 {
                0 if is_large(act) => cx.tell_after(delay(act.b / 2), Large::new(letter)),
                0 => cx.tell_after(delay(act.b / 2), Plain(letter)),
                _ => cx.tell_after(delay(act.b / 2), Busy(letter)),
            };
            if timer.is_err() {
                violation(format!("no timer for message {number}"));
            }
        }
        Kind::Pipe => {
            let Some(group) = group() else { return };
            let letter = Letter::new(number, &act.body);
            let sleep = group.sleep(delay(act.b));
            cx.pipe(sleep, move |_| Plain(letter));
        }
        _ => forward(act, number),
    }
}

/// Forwards a call that waits for its answer.
fn forward(act: &Act, number: u32) {
    let (reply, address) = with(|world| {
        let address = world.actors.addresses[slot(act.a)].clone();
        (address.is_some().then(|| world.actors.replies.pop()).flatten(), address)
    });
    let (Some((reply, asked)), Some((address, _))) = (reply, address) else { return };
    // The caller is answered with the number of the forwarded message.
    with(|world| world.actors.alias(number, asked));
    let letter = Letter::new(number, &act.body);
    let result = address.forward(Plain(letter), reply);
    if let Err(error) = result {
        with(|world| world.refused_forward(number));
        drop(error);
    }
}

fn poll<M, R>(ask: &mut Ask<M, R>) -> Poll<Result<R, AskError<M>>> {
    Pin::new(ask).poll(&mut PollContext::from_waker(Waker::noop()))
}

/// Drops addresses and replies at the end of a program, and its system.
pub(super) fn give_up() {
    let (addresses, replies) = with(|world| {
        for actor in 0..world.actors.actors.len() {
            world.actors.may_end(actor as u32);
        }
        (std::mem::take(&mut world.actors.addresses), std::mem::take(&mut world.actors.replies))
    });
    addresses.into_iter().for_each(|value| guarded("dropping an address", || drop(value)));
    replies.into_iter().for_each(|value| guarded("dropping a reply", || drop(value)));
}

/// Every call has come to an end.
pub(super) fn check_calls() {
    let calls = with(|world| std::mem::take(&mut world.actors.calls));
    for call in calls {
        match call {
            Call::Plain(number, mut ask) => check_call(number, poll(&mut ask), u32::clone),
            Call::Busy(number, mut ask) => check_call(number, poll(&mut ask), u32::clone),
            Call::Mixed(number, mut ask) => check_call(number, poll(&mut ask), u32::clone),
            Call::Later(number, mut ask) => check_call(number, poll(&mut ask), u32::clone),
            Call::Large(number, mut ask) => check_call(number, poll(&mut ask), Bulk::number),
        }
    }
}

fn check_call<M, R>(
    number: u32,
    polled: Poll<Result<R, AskError<M>>>,
    value: impl FnOnce(&R) -> u32,
) {
    match polled {
        Poll::Pending => violation(format!("the call {number} never ends")),
        Poll::Ready(outcome) => {
            let answer = outcome.as_ref().ok().map(value);
            if let Err(AskError::Refused(refused)) = &outcome {
                with(|world| world.came_back(number, refused.kind));
            }
            if let Err(AskError::NotOwner { owner, .. }) = &outcome {
                placed::check_owner(owner);
            }
            with(|world| world.answered(number, answer));
            guarded("dropping an outcome", || drop(outcome));
        }
    }
}

/// Drops what destructors have left behind since the checks.
pub(super) fn drop_rest() {
    for _ in 0..3 {
        give_up();
        let calls = with(|world| std::mem::take(&mut world.actors.calls));
        calls.into_iter().for_each(|call| guarded("dropping a call", || drop(call)));
    }
}

/// Drops the system and its entities.
pub(super) fn end_system() {
    let (system, entities) =
        with(|world| (world.actors.system.take(), world.actors.entities.take()));
    guarded("dropping the system", || drop((entities, system)));
}
