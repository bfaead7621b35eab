//! Acts on the life of tasks: spawn, handles, close, stop, fail, kill.

use std::time::Duration;

use turnwheel_runtime::{Budget, Failure, Mailbox, Overflow};

use super::hooks::{Hooks, State};
use super::lanes::{Policy, TaskModel};
use super::slots::{slot, task, track, Handle, Tracked, SLOTS};
use super::world::{group, tag_of, violation, with, Role, Token};
use super::Here;
use crate::kind::Kind;
use crate::program::Act;

/// Mailboxes of spawned tasks: bound and policy.
const MAILBOXES: [(Option<usize>, Policy); 8] = [
    (Some(1 << 14), Policy::Reject),
    (Some(1), Policy::Reject),
    (Some(2), Policy::Reject),
    (Some(3), Policy::Reject),
    (None, Policy::Reject),
    (Some(1), Policy::DropOldest),
    (Some(2), Policy::DropOldest),
    (Some(2), Policy::Coalesce),
];

/// Delays that acts name, in nanoseconds.
pub(super) const DELAYS_NS: [u64; 8] =
    [0, 1, 900, 1_000_000, 2_000_000, 5_000_000, 20_000_000, 100_000_000];

/// The delay that an argument names.
pub(super) fn delay(argument: u8) -> Duration {
    Duration::from_nanos(DELAYS_NS[usize::from(argument) % DELAYS_NS.len()])
}

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::Spawn => spawn(act),
        Kind::CloneTask => {
            if let Some(handle) = task(act.a) {
                put(act.b, Some(handle));
            }
        }
        Kind::DropTask => put(act.a, None),
        Kind::Downgrade => {
            let Some((task, number)) = task(act.a) else { return };
            let weak = Some((task.downgrade(), number));
            let old = with(|world| std::mem::replace(&mut world.slots.weak[slot(act.b)], weak));
            drop(old);
        }
        Kind::Upgrade => {
            let weak = with(|world| world.slots.weak[slot(act.a)].clone());
            let Some((weak, number)) = weak else { return };
            if let Some(task) = weak.upgrade() {
                put(act.b, Some((task, number)));
            }
        }
        _ => end(act),
    }
}

/// Puts a handle into a slot. Without the one that lay there its task may be unreachable.
fn put(argument: u8, handle: Option<Handle>) {
    let old = with(|world| {
        let old = std::mem::replace(&mut world.slots.tasks[slot(argument)], handle);
        let lost = old.as_ref().map(|(_, number)| *number);
        if let Some(lost) = lost {
            let mut left = world.slots.tasks.iter().flatten();
            if !left.any(|(_, number)| *number == lost) {
                world.task(lost).may_close = true;
            }
        }
        old
    });
    drop(old);
}

fn spawn(act: &Act) {
    let Some(group) = group() else { return };
    let (capacity, policy) = MAILBOXES[usize::from(act.b) % MAILBOXES.len()];
    let number = with(|world| {
        let mut model = TaskModel { capacity, policy, ..TaskModel::default() };
        if world.is_ending {
            model.may_end();
        }
        world.tasks.push(model);
        (world.tasks.len() - 1) as u32
    });
    let state = State { task: number, _token: Token::new(Role::State(number), &act.body) };
    let mut builder = group.task(state).tag(tag_of(number));
    if act.b % 8 > 0 {
        let mailbox = capacity.map_or(Mailbox::unbounded(), |most| Mailbox::bounded(most as u64));
        builder = builder.mailbox(match policy {
            Policy::Reject => mailbox,
            Policy::DropOldest => mailbox.overflow(Overflow::DropOldest),
            Policy::Coalesce => mailbox.overflow(Overflow::CoalesceByKey),
        });
    }
    match act.b / 8 {
        1 => builder = builder.budget(Budget::new(1, Duration::from_micros(200))),
        2 => builder = builder.budget(Budget::new(2, Duration::ZERO)),
        _ => {}
    }
    if act.a / 4 == 3 {
        builder = builder.system();
    }
    let hooks = Hooks::of(number, &act.body, || Token::new(Role::Other, &[]));
    if let Some(hooks) = hooks {
        builder = builder.lifecycle(hooks);
    }
    match builder.spawn() {
        Ok(task) => {
            track(Tracked::Unit("started", task.started()));
            track(Tracked::Unit("closed", task.closed()));
            put(act.a, Some((task, number)));
        }
        Err(error) => {
            let is_ending = with(|world| world.is_ending);
            if !is_ending {
                violation(format!("task {number} was not spawned: {error}"));
            }
            drop(error.state);
        }
    }
}

fn end(act: &Act) {
    let Some((task, number)) = task(act.a) else { return };
    let is_stop = matches!(act.kind, Kind::Stop | Kind::Fail | Kind::Kill);
    if is_stop || matches!(act.kind, Kind::Close | Kind::CloseWithin) {
        ends(number, is_stop);
    }
    let future = match act.kind {
        Kind::Close => task.close(),
        Kind::CloseWithin => {
            // Its deadline stops it, and what is queued then is dropped.
            with(|world| world.task(number).may_end());
            task.close_within(delay(act.b))
        }
        Kind::Stop => task.stop(),
        Kind::Kill => task.kill(),
        Kind::Fail => task.fail(Failure::message("asked to fail")),
        Kind::Started => task.started(),
        Kind::Closed => task.closed(),
        _ => return task.interrupt(),
    };
    track(Tracked::Unit(act.kind.text(), future));
}

/// A task was asked to end.
fn ends(task: u32, is_stop: bool) {
    with(|world| {
        let now = world.next();
        let model = world.task(task);
        model.closes();
        if is_stop {
            model.may_end();
            if !model.is_last {
                model.ended.get_or_insert(now);
            }
        }
    });
}

pub(super) fn of_own(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Job(cx) = here else { return };
    let number = cx.task().tag() as u32;
    match act.kind {
        Kind::CloseSelf => {
            ends(number, false);
            cx.close();
        }
        Kind::StopSelf => {
            ends(number, true);
            cx.stop();
        }
        Kind::FailSelf => {
            ends(number, true);
            cx.fail(Failure::message("asked to fail"));
        }
        Kind::Yield => cx.yield_now(),
        _ => {
            with(|world| world.cuts(number));
            cx.cancel_subscriptions();
        }
    }
}

const _: () = assert!(SLOTS == 4);
