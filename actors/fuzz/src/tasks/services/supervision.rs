//! Supervisors: children begin anew as kind, strategy and limit say, one at a time for each place.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use turnwheel_actors::supervise::{ChildRef, RestartKind, StartChild, StopChild};
use turnwheel_actors::{Address, ChildSpec, Restart, Strategy, Supervisor};
use turnwheel_runtime::Backoff;

use super::{poll, End};
use crate::kind::Kind;
use crate::program::{Act, Script};
use crate::run::Twin;
use crate::tasks::actors::{lost, Player};
use crate::tasks::main_thread::guarded;
use crate::tasks::slots::slot;
use crate::tasks::world::{violation, with, World};

/// Restarts of the children of a supervisor, at most.
const RESTARTS_MAX: u32 = 2;
/// Pause before a restart, where there is one.
const PAUSE: Duration = Duration::from_millis(2);
/// Time that a child has to close.
const CLOSE_LIMIT: Duration = Duration::from_millis(1);
/// A supervisor has acted this long after the last start or end of a child.
const QUIET_NS: u64 = 20_000_000;

/// One supervisor.
#[derive(Debug)]
pub(super) struct Model {
    address: Option<Address<Supervisor>>,
    end: Option<End>,
    is_one_for_one: bool,
    /// Whether a restart begins without a pause, in which another child may start.
    is_at_once: bool,
    children: Vec<Child>,
    /// It was told to end.
    may_end: bool,
    changed_ns: u64,
}

#[derive(Debug)]
struct Child {
    kind: RestartKind,
    place: Option<ChildRef<Player>>,
    starts: u32,
    current: Option<u32>,
    wish: Wish,
}

/// The request to a supervisor about one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// To keep it: a child of the beginning, or one that was said to have started.
    Live,
    /// To start it, or to stop it; not answered yet.
    Asked,
    /// To stop it: it was said to have ended. Or it was said not to have started.
    Gone,
}

/// An answer to `StartChild` or `StopChild` that is awaited.
pub(super) type Asking = Pin<Box<dyn Future<Output = ()>>>;

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::Supervise => make(act),
        Kind::FindChild => find(act),
        Kind::StartChild => start(act),
        Kind::StopChild => stop(act),
        _ => end(act),
    }
}

fn make(act: &Act) {
    let Some(system) = with(|world| world.actors.system.clone()) else { return };
    let strategy =
        [Strategy::OneForOne, Strategy::AllForOne, Strategy::RestForOne][usize::from(act.b) % 3];
    let number = with(|world| {
        world.services.supervisors.push(Model {
            address: None,
            end: None,
            is_one_for_one: strategy == Strategy::OneForOne,
            is_at_once: act.b / 3 % 2 == 0,
            children: Vec::new(),
            may_end: world.is_ending,
            changed_ns: 0,
        });
        world.services.supervisors.len() - 1
    });
    let restart = Restart::limited(RESTARTS_MAX, Duration::from_secs(1_000));
    let restart = match act.b / 3 % 2 {
        0 => restart,
        _ => restart.backoff(Backoff::constant(PAUSE)),
    };
    let is_broken = with(|world| world.twin) == Some(Twin::RestartsOne);
    let strategy = if is_broken { Strategy::OneForOne } else { strategy };
    let mut supervisor = Supervisor::new(strategy).restart(restart);
    for place in 0..=usize::from(act.a / 4 % 3) {
        let kind = match (act.b / 6, place) {
            (0 | 1, _) | (2, 0) => RestartKind::Permanent,
            (2, _) | (3, 0) => RestartKind::Transient,
            _ => RestartKind::Temporary,
        };
        supervisor = supervisor.child(child((number, place), kind, Wish::Live, &act.body));
    }
    match system.spawn(supervisor) {
        Ok(address) => {
            let end = End::of(address.closed());
            with(|world| {
                let model = &mut world.services.supervisors[number];
                (model.address, model.end) = (Some(address), Some(end));
            });
        }
        Err(error) => {
            with(|world| world.services.supervisors[number].may_end = true);
            drop(error);
        }
    }
}

/// Describes a child; its factory tells the model of each start.
fn child(
    (number, place): (usize, usize),
    kind: RestartKind,
    wish: Wish,
    hooks: &Script,
) -> ChildSpec<Player> {
    let hooks = hooks.clone();
    let spec = ChildSpec::new(&format!("child-{place}"), move |system| {
        let actor = with(|world| {
            let actor = world.actors.add(false, None);
            // Its supervisor may end it at any time.
            world.actors.may_end(actor);
            world.child_starts(number, place, actor);
            actor
        });
        system.spawn(Player::new(actor, &hooks))
    });
    let reference = spec.current();
    with(|world| {
        let model = &mut world.services.supervisors[number];
        let place = Some(reference);
        model.children.push(Child { kind, place, starts: 0, current: None, wish });
    });
    let is_broken = with(|world| world.twin) == Some(Twin::LosesChildren);
    let kind = if is_broken { RestartKind::Temporary } else { kind };
    spec.kind(kind).close_limit(CLOSE_LIMIT)
}

/// The newest supervisor that was not told to end, with the number of its children.
fn newest() -> Option<(usize, Address<Supervisor>, usize)> {
    with(|world| {
        let number = world.services.supervisors.len().checked_sub(1)?;
        let model = &world.services.supervisors[number];
        Some((number, model.address.clone()?, model.children.len()))
    })
}

/// Asks for one more child.
fn start(act: &Act) {
    let Some((number, address, place)) = newest() else { return };
    let kinds = [RestartKind::Permanent, RestartKind::Transient, RestartKind::Temporary];
    let spec = child((number, place), kinds[usize::from(act.b) % 3], Wish::Asked, &act.body);
    let ask = address.ask(StartChild::new(spec));
    awaited(async move {
        let wish = if matches!(ask.await, Ok(Ok(()))) { Wish::Live } else { Wish::Gone };
        answered(number, place, wish);
    });
    drop(address);
}

/// Asks for the end of a child.
fn stop(act: &Act) {
    let Some((number, address, count)) = newest() else { return };
    let place = usize::from(act.a) % count.max(1);
    let wish = |world: &mut World| {
        let child = world.services.supervisors[number].children.get_mut(place)?;
        (child.wish == Wish::Live).then(|| child.wish = Wish::Asked)
    };
    if with(wish).is_none() {
        return;
    }
    if with(|world| world.twin) == Some(Twin::KeepsChildren) {
        return answered(number, place, Wish::Gone);
    }
    let ask = address.ask(StopChild(format!("child-{place}")));
    awaited(async move {
        // Of one that has ended for good nothing is known there.
        if ask.await.is_ok() {
            answered(number, place, Wish::Gone);
        }
    });
    drop(address);
}

pub(super) fn awaited(asking: impl Future<Output = ()> + 'static) {
    with(|world| world.services.asking.push(Box::pin(asking)));
}

fn answered(number: usize, place: usize, wish: Wish) {
    with(|world| {
        let model = world.services.supervisors.get_mut(number);
        if let Some(child) = model.and_then(|model| model.children.get_mut(place)) {
            child.wish = wish;
        }
    });
}

/// Takes the answers that are there.
pub(super) fn take_answers() {
    let asking = with(|world| std::mem::take(&mut world.services.asking));
    for mut asking in asking {
        guarded("an answer of a supervisor", || {
            if poll(&mut asking).is_pending() {
                with(|world| world.services.asking.push(asking));
            }
        });
    }
}

/// Every answer has come.
pub(super) fn check_end() {
    take_answers();
    let left = with(|world| world.services.asking.len());
    if left > 0 {
        violation(format!("{left} answers of supervisors never come"));
    }
    drop_answers();
}

pub(super) fn drop_answers() {
    let asking = with(|world| std::mem::take(&mut world.services.asking));
    asking.into_iter().for_each(|one| guarded("dropping a call of a supervisor", || drop(one)));
}

/// Puts the address of a child among the others.
fn find(act: &Act) {
    let found = with(|world| {
        let model = world.services.supervisors.last()?;
        let child = model.children.get(usize::from(act.b) % model.children.len().max(1))?;
        Some((child.place.clone()?, child.current?))
    });
    let Some((place, current)) = found else { return };
    let Some(address) = place.get() else { return };
    let entry = Some((address, current));
    let old = with(|world| std::mem::replace(&mut world.actors.addresses[slot(act.a)], entry));
    lost(old.as_ref());
    drop(old);
}

fn end(act: &Act) {
    let address = with(|world| {
        let model = world.services.supervisors.last_mut()?;
        model.may_end = true;
        model.address.take()
    });
    let Some(address) = address else { return };
    match act.b % 3 {
        0 => address.close().detach(),
        1 => address.stop().detach(),
        _ => {}
    }
    drop(address);
}

pub(super) fn give_up() {
    let addresses: Vec<_> = with(|world| {
        let all = world.services.supervisors.iter_mut();
        all.map(|model| {
            model.may_end = true;
            model.children.iter_mut().for_each(|child| child.place = None);
            model.address.take()
        })
        .collect()
    });
    addresses.into_iter().for_each(|value| guarded("dropping a supervisor", || drop(value)));
}

pub(super) fn now_ns(world: &World) -> u64 {
    world.group.as_ref().map_or(0, |group| group.now_ns())
}

impl World {
    fn child_starts(&mut self, supervisor: usize, place: usize, actor: u32) {
        let now_ns = now_ns(self);
        let model = &mut self.services.supervisors[supervisor];
        let is_one_for_one = model.is_one_for_one;
        model.changed_ns = now_ns;
        let child = &mut model.children[place];
        child.starts += 1;
        let is_gone = child.wish == Wish::Gone;
        let (starts, kind, former) = (child.starts, child.kind, child.current.replace(actor));
        let restarts: u32 = model.children.iter().map(|child| child.starts.saturating_sub(1)).sum();
        let name = format!("child {place} of supervisor {supervisor}");
        if is_gone {
            self.violation(format!("{name} starts after its end was told"));
        }
        self.check_order(supervisor, place);
        let Some(former) = former else { return };
        if self.actors.is_alive(former) {
            self.violation(format!("{name} starts while the former one lives"));
        }
        let has_failed = self.actors.has_failed(former);
        let is_right = match kind {
            RestartKind::Transient => has_failed != Some(false),
            kind => kind == RestartKind::Permanent,
        };
        if is_one_for_one && !is_right {
            self.violation(format!("{name}, {kind:?}, starts again: {has_failed:?}"));
        }
        if starts > RESTARTS_MAX + 1 || (is_one_for_one && restarts > RESTARTS_MAX) {
            self.violation(format!("{name} is at its start {starts}, restarts: {restarts}"));
        }
    }

    /// Children start in order: the younger ones that a restart ends are gone, and begin after.
    fn check_order(&mut self, supervisor: usize, place: usize) {
        let model = &self.services.supervisors[supervisor];
        if model.is_one_for_one || !model.is_at_once {
            return;
        }
        let younger = model.children.iter().enumerate().skip(place + 1);
        let is_alive = |(_, child): &(usize, &Child)| {
            child.current.is_some_and(|actor| self.actors.is_alive(actor))
        };
        if let Some((other, _)) = younger.into_iter().find(is_alive) {
            let text = format!("child {place} of {supervisor} starts while {other} lives");
            self.violation(text);
        }
    }

    /// A value of an actor is gone: it may be a child.
    pub(in crate::tasks) fn child_ended(&mut self, actor: u32) {
        let now_ns = now_ns(self);
        let is_it = |child: &Child| child.current == Some(actor);
        let all = &mut self.services.supervisors;
        if let Some(model) = all.iter_mut().find(|model| model.children.iter().any(is_it)) {
            model.changed_ns = now_ns;
        }
    }

    /// Permanent children live while their supervisor does, and none outlives it.
    pub(super) fn check_children(&mut self, now_ns: u64) {
        for number in 0..self.services.supervisors.len() {
            let model = &mut self.services.supervisors[number];
            let Some(end) = &mut model.end else { continue };
            let is_over = end.look().is_some();
            let is_quiet = model.changed_ns + QUIET_NS <= now_ns && !model.may_end;
            let states = model.children.iter().map(|c| (c.kind, c.wish, c.current));
            let states: Vec<_> = states.collect();
            for (place, (kind, wish, current)) in states.into_iter().enumerate() {
                let is_alive = current.is_some_and(|actor| self.actors.is_alive(actor));
                if is_over && is_alive {
                    self.violation(format!("child {place} outlives its supervisor {number}"));
                }
                if wish == Wish::Gone && is_alive {
                    self.violation(format!("child {place} of {number} lives on when stopped"));
                }
                let is_kept = kind == RestartKind::Permanent && wish == Wish::Live;
                let is_wanted = is_kept && !is_over && is_quiet;
                if is_wanted && !is_alive && !self.is_ending {
                    self.violation(format!("child {place} of supervisor {number} was left dead"));
                }
            }
        }
    }
}
