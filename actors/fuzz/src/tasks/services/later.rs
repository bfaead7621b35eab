//! Messages sent later, and again and again: not before their time, once for each time, and never
//! after they were cancelled.

use std::time::Duration;

use turnwheel_actors::{Context, Delayed, Handler};
use turnwheel_runtime::{Late, Timer};

use crate::kind::Kind;
use crate::program::Act;
use crate::run::Twin;
use crate::tasks::actors::{acting, told, Letter, Plain, Player};
use crate::tasks::life::delay;
use crate::tasks::main_thread::guarded;
use crate::tasks::slots::slot;
use crate::tasks::world::{group, violation, with, Role, Token, World};
use crate::tasks::Here;

/// Periods of repeated messages.
const PERIODS_MS: [u64; 3] = [1, 3, 40];

#[derive(Debug, Default)]
pub(super) struct Model {
    delayed: Vec<DelayedModel>,
    repeated: Vec<Repeated>,
    timers: Vec<(Timer, usize)>,
}

#[derive(Debug)]
struct DelayedModel {
    message: u32,
    to: u32,
    due_ns: u64,
    handle: Option<Delayed>,
    is_cancelled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Repeated {
    begin_ns: u64,
    period_ns: u64,
    ticks: u64,
    is_cancelled: bool,
}

/// A repeated message.
#[derive(Debug)]
struct Tick {
    number: usize,
    _token: Token,
}

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::TellLater => tell(act),
        Kind::CancelLater => cancel(act),
        _ => cancel_repeated(act),
    }
}

fn tell(act: &Act) {
    let Some(group) = group() else { return };
    let Some((address, to)) = with(|world| world.actors.addresses[slot(act.a)].clone()) else {
        return;
    };
    let delay = delay(act.b);
    let number = with(|world| {
        let message = world.sent(Some(to), false, true);
        let due_ns = group.now_ns() + delay.as_nanos() as u64;
        let model = DelayedModel { message, to, due_ns, handle: None, is_cancelled: false };
        world.services.later.delayed.push(model);
        message
    });
    let is_early = with(|world| world.twin) == Some(Twin::IsEarly);
    let delay = if is_early { delay / 2 } else { delay };
    match address.tell_after(delay, Plain(Letter::new(number, &act.body))) {
        Ok(handle) => with(|world| {
            let all = &mut world.services.later.delayed;
            if let Some(model) = all.iter_mut().find(|model| model.message == number) {
                model.handle = Some(handle);
            }
        }),
        Err(error) => told(number, Err(error), |message: &Plain| message.0.number),
    }
}

fn cancel(act: &Act) {
    let chosen = with(|world| {
        let delayed = &world.services.later.delayed;
        let at = delayed.len().checked_sub(1 + usize::from(act.a % 2))?;
        Some((at, delayed[at].handle.clone()?))
    });
    let Some((at, handle)) = chosen else { return };
    let was_waiting = with(|world| {
        let message = world.services.later.delayed[at].message;
        world.actors.fate_of(message).0
    });
    // Before the call: it drops the message, and what that does comes here again.
    let is_cancelled = handle.cancel();
    with(|world| {
        if is_cancelled && !was_waiting {
            world.violation(format!("delayed message {at} was gone and is cancelled"));
        }
        if let Some(model) = world.services.later.delayed.get_mut(at) {
            model.is_cancelled |= is_cancelled;
        }
    });
}

pub(super) fn repeat(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Handler(cx) = here else { return };
    let (Some(_), Some(group)) = (acting(), group()) else { return };
    let period = Duration::from_millis(PERIODS_MS[usize::from(act.b) % PERIODS_MS.len()]);
    let late = [Late::Burst, Late::Skip, Late::Delay][usize::from(act.b / 4) % 3];
    let number = with(|world| {
        let (begin_ns, period_ns) = (group.now_ns(), period.as_nanos() as u64);
        let model = Repeated { begin_ns, period_ns, ticks: 0, is_cancelled: false };
        world.services.later.repeated.push(model);
        world.services.later.repeated.len() - 1
    });
    let make = move || Tick { number, _token: Token::new(Role::Other, &[]) };
    match cx.tell_every(period, late, make) {
        Ok(timer) => with(|world| world.services.later.timers.push((timer, number))),
        Err(error) => violation(format!("repeated message {number} was refused: {error}")),
    }
}

fn cancel_repeated(act: &Act) {
    let chosen = with(|world| {
        let timers = &mut world.services.later.timers;
        let at = timers.len().checked_sub(1 + usize::from(act.a % 2))?;
        Some(timers.swap_remove(at))
    });
    let Some((timer, number)) = chosen else { return };
    if with(|world| world.twin) != Some(Twin::RepeatsOn) {
        timer.cancel();
    }
    with(|world| world.services.later.repeated[number].is_cancelled = true);
}

impl Handler<Tick> for Player {
    type Reply = ();

    fn handle(&mut self, tick: Tick, _: &mut Context<'_, Self>) {
        let now_ns = group().map_or(0, |group| group.now_ns());
        with(|world| world.ticks(tick.number, now_ns));
    }
}

/// Drops the handles: that changes nothing for the messages.
pub(super) fn give_up() {
    let (handles, timers) = with(|world| {
        let later = &mut world.services.later;
        let handles: Vec<_> = later.delayed.iter_mut().map(|model| model.handle.take()).collect();
        (handles, std::mem::take(&mut later.timers))
    });
    handles.into_iter().for_each(|value| guarded("dropping a delayed message", || drop(value)));
    timers.into_iter().for_each(|value| guarded("dropping a timer", || drop(value)));
}

impl World {
    fn ticks(&mut self, number: usize, now_ns: u64) {
        let model = &mut self.services.later.repeated[number];
        model.ticks += 1;
        let Repeated { begin_ns, period_ns, ticks, is_cancelled } = *model;
        if now_ns < begin_ns + ticks * period_ns {
            let text = format!("repeated message {number} is early: {ticks} at {now_ns} ns");
            self.violation(text);
        }
        if is_cancelled {
            self.violation(format!("repeated message {number} comes after it was cancelled"));
        }
    }

    /// A handler begins: of a delayed message not before its time.
    pub(in crate::tasks) fn later_begins(&mut self, message: u32) {
        let delayed = &self.services.later.delayed;
        let Some(model) = delayed.iter().find(|model| model.message == message) else { return };
        let (due_ns, is_cancelled) = (model.due_ns, model.is_cancelled);
        let now_ns = self.group.as_ref().map_or(0, |group| group.now_ns());
        if now_ns < due_ns {
            self.violation(format!("message {message} is early: due {due_ns}, it is {now_ns} ns"));
        }
        if is_cancelled {
            self.violation(format!("message {message} comes after it was cancelled"));
        }
    }

    /// Delayed messages that are due were sent.
    pub(super) fn check_later(&mut self, now_ns: u64) {
        let mut found = Vec::new();
        for model in &self.services.later.delayed {
            let (is_waiting, is_dropped) = self.actors.fate_of(model.message);
            let is_lost = is_dropped && !self.is_tight && !self.actors.is_bounded(model.to);
            let is_due = model.due_ns <= now_ns && !model.is_cancelled && !self.is_ending;
            if is_due && self.actors.is_free(model.to) && (is_waiting || is_lost) {
                found.push(format!("idle, and a delayed message has not come: {model:?}"));
            }
        }
        found.into_iter().for_each(|text| self.violation(text));
    }
}
