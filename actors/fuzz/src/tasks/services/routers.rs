//! Routers: a message is handled once, by one of the actors that were added.

use turnwheel_actors::{Callee, Recipient, Router, Routing};

use crate::kind::Kind;
use crate::program::Act;
use crate::run::Twin;
use crate::tasks::actors::{keep, told, Call, Letter, Plain};
use crate::tasks::main_thread::guarded;
use crate::tasks::slots::slot;
use crate::tasks::world::{violation, with, World};

const ROUTERS: usize = 2;

/// Two routers, and one for calls.
#[derive(Debug, Default)]
pub(super) struct Model {
    telling: [Option<Router<Recipient<Plain>>>; ROUTERS],
    asking: Option<Router<Callee<Plain, u32>>>,
    /// The actors of each, those of the one for calls last.
    routees: [Vec<u32>; ROUTERS + 1],
    /// Messages that were taken, and the actors of which one has it.
    taken: Vec<(u32, Vec<u32>)>,
}

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::Route => add(act),
        Kind::RouterTell => tell(act),
        Kind::RouterAsk => ask(act),
        _ => lost(usize::from(act.a) % (ROUTERS + 1)),
    }
}

/// Adds the actor of a slot to a router.
fn add(act: &Act) {
    let Some((address, actor)) = with(|world| world.actors.addresses[slot(act.a)].clone()) else {
        return;
    };
    if with(|world| world.is_ending) {
        return;
    }
    let at = usize::from(act.b) % (ROUTERS + 1);
    let routing = if at == 0 { Routing::RoundRobin } else { Routing::LeastLoaded };
    let is_added = if at == ROUTERS {
        let router = with(|world| {
            let router = &mut world.services.routers.asking;
            router.get_or_insert_with(|| Router::new(routing)).clone()
        });
        router.add(address.callee()).is_ok()
    } else {
        let router = with(|world| {
            let router = &mut world.services.routers.telling[at];
            router.get_or_insert_with(|| Router::new(routing)).clone()
        });
        router.add(address.recipient()).is_ok()
    };
    if !is_added {
        violation(format!("actor {actor} was not added to a router"));
    }
    with(|world| world.services.routers.routees[at].push(actor));
    drop(address);
}

fn tell(act: &Act) {
    let at = usize::from(act.a) % ROUTERS;
    let Some(router) = with(|world| world.services.routers.telling[at].clone()) else { return };
    let message = with(|world| world.sent(None, false, false));
    let plain = Plain(Letter::new(message, &act.body));
    if with(|world| world.twin) == Some(Twin::LosesRouted) {
        with(|world| world.routed(message, at));
        return drop(plain);
    }
    let is_keyed = act.b % 2 == 1;
    let sent = if is_keyed { router.tell_keyed(&act.b, plain) } else { router.tell(plain) };
    match sent {
        Ok(()) => with(|world| world.routed(message, at)),
        Err(error) => {
            // An actor that takes every message must not be passed over.
            let free = with(|world| {
                let routees = &world.services.routers.routees[at];
                let is_open = |actor: &&u32| {
                    let (actors, actor) = (&world.actors, **actor);
                    actors.is_free(actor) && !actors.is_bounded(actor) && !world.is_tight
                };
                routees.iter().find(is_open).copied()
            });
            if let (Some(actor), false) = (free, is_keyed) {
                let kind = error.kind;
                violation(format!("message {message} is refused ({kind:?}); {actor} is free"));
            }
            told(message, Err(error), |plain| plain.0.number);
        }
    }
}

fn ask(act: &Act) {
    let Some(router) = with(|world| world.services.routers.asking.clone()) else { return };
    let message = with(|world| world.sent(None, false, true));
    let plain = Plain(Letter::new(message, &act.body));
    let is_keyed = act.b % 2 == 1;
    let ask = if is_keyed { router.ask_keyed(&act.b, plain) } else { router.ask(plain) };
    keep(Call::Plain(message, ask));
}

/// A router goes, and with it the addresses that it keeps.
fn lost(at: usize) {
    let old = with(|world| {
        let routers = &mut world.services.routers;
        let actors = std::mem::take(&mut routers.routees[at]);
        let telling = routers.telling.get_mut(at).and_then(Option::take);
        let asking = if at == ROUTERS { routers.asking.take() } else { None };
        for actor in actors {
            // Without another address it closes.
            world.actors.closes(actor);
        }
        (telling, asking)
    });
    guarded("dropping a router", || drop(old));
}

pub(super) fn give_up() {
    (0..=ROUTERS).for_each(lost);
}

impl World {
    fn routed(&mut self, message: u32, at: usize) {
        let actors = self.services.routers.routees[at].clone();
        self.services.routers.taken.push((message, actors));
    }

    /// A message to actors of which each takes all at once was handled.
    pub(super) fn check_routed(&mut self) {
        let mut found = Vec::new();
        for (message, actors) in &self.services.routers.taken {
            let (is_waiting, is_dropped) = self.actors.fate_of(*message);
            let are_free = actors.iter().all(|actor| self.actors.is_free(*actor));
            if (is_waiting || is_dropped) && are_free && !self.is_ending {
                found.push(format!("idle, and message {message} to one of {actors:?} is lost"));
            }
        }
        found.into_iter().for_each(|text| self.violation(text));
    }
}
