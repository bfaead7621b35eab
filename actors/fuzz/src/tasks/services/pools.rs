//! Pools: a message is handled once, by whichever member.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::{Context, Handler, Pool, Restart, Routing};
use turnwheel_runtime::Backoff;

use crate::kind::Kind;
use crate::program::Act;
use crate::run::Twin;
use crate::tasks::actors::{keep, told, Call, Letter, Plain, Player};
use crate::tasks::main_thread::guarded;
use crate::tasks::slots::{track, Tracked};
use crate::tasks::world::{violation, with, Role, Token, World};

const POOLS: usize = 2;

/// Pools, and the actor of the model that stands for each.
#[derive(Debug, Default)]
pub(super) struct Model {
    pools: [Option<(Pool<Player>, u32)>; POOLS],
    spreads: Vec<Spread>,
}

/// One message to all members of a pool.
#[derive(Clone, Debug)]
struct Spread {
    pool: u32,
    /// Members that took it; nothing before the call has returned.
    delivered: Option<usize>,
    handled: Vec<u32>,
}

/// A copy of it.
#[derive(Clone, Debug)]
struct Leaflet {
    spread: usize,
    _token: Arc<Token>,
}

pub(super) fn perform(act: &Act) {
    if act.kind == Kind::Pool {
        return make(act);
    }
    let at = usize::from(act.a) % POOLS;
    let Some((pool, number)) = with(|world| world.services.pools.pools[at].clone()) else { return };
    if act.kind == Kind::ClosePool {
        with(|world| world.actors.closes(number));
        return track(Tracked::Unit("close-pool", pool.close()));
    }
    if act.kind == Kind::Broadcast {
        return broadcast(act, &pool, number);
    }
    let is_call = act.kind == Kind::PoolAsk;
    let message = with(|world| world.sent(Some(number), false, is_call));
    let plain = Plain(Letter::new(message, &act.body));
    let is_keyed = act.b % 2 == 1;
    if is_call {
        let ask = if is_keyed { pool.ask_keyed(&act.b, plain) } else { pool.ask(plain) };
        return keep(Call::Plain(message, ask));
    }
    if with(|world| world.twin) == Some(Twin::LosesPooled) {
        return drop(plain);
    }
    let sent = if is_keyed { pool.tell_keyed(&act.b, plain) } else { pool.tell(plain) };
    told(message, sent, |plain| plain.0.number);
}

fn broadcast(act: &Act, pool: &Pool<Player>, number: u32) {
    let spread = with(|world| {
        let spreads = &mut world.services.pools.spreads;
        spreads.push(Spread { pool: number, delivered: None, handled: Vec::new() });
        spreads.len() - 1
    });
    let leaflet = Leaflet { spread, _token: Arc::new(Token::new(Role::Other, &act.body)) };
    let most = pool.size();
    let result = pool.broadcast(&leaflet);
    with(|world| {
        if let Some(model) = world.services.pools.spreads.get_mut(spread) {
            model.delivered = Some(result.delivered);
        }
        if result.delivered + result.refused != most && !world.is_ending {
            world.violation(format!("a pool of {most} answers a broadcast with {result:?}"));
        }
    });
    drop(leaflet);
}

impl Handler<Leaflet> for Player {
    type Reply = ();

    fn handle(&mut self, leaflet: Leaflet, _: &mut Context<'_, Self>) {
        let member = self.number();
        with(|world| {
            if world.twin == Some(Twin::LosesSpread) {
                return;
            }
            let Some(model) = world.services.pools.spreads.get_mut(leaflet.spread) else { return };
            if model.handled.contains(&member) {
                let text = format!("member {member} gets a broadcast twice: {model:?}");
                return world.violation(text);
            }
            model.handled.push(member);
        });
    }
}

impl World {
    /// A pool whose members take all messages at once has handled every copy.
    pub(super) fn check_spread(&mut self) {
        let mut found = Vec::new();
        for model in &self.services.pools.spreads {
            let is_due = self.actors.is_pool_free(model.pool) && !self.is_ending;
            let handled = Some(model.handled.len());
            if is_due && model.delivered.is_some() && handled != model.delivered {
                found.push(format!("idle, and copies of a broadcast wait: {model:?}"));
            }
        }
        found.into_iter().for_each(|text| self.violation(text));
    }
}

fn make(act: &Act) {
    let Some(system) = with(|world| world.actors.system.clone()) else { return };
    let number = with(|world| {
        let number = world.actors.add_pool();
        if world.is_ending {
            world.actors.may_end(number);
        }
        number
    });
    let hooks = act.body.clone();
    let member = move || Player::new(with(|world| world.actors.add_member(number)), &hooks);
    let restart = Restart::limited(2, Duration::from_secs(1));
    let restart = match act.b / 8 % 2 {
        0 => restart,
        _ => restart.backoff(Backoff::constant(Duration::from_millis(1))),
    };
    let builder = system.pool(member).restart(restart).idle_limit(Duration::from_millis(5));
    let builder = match act.b % 4 {
        0 => builder.fixed(1),
        1 => builder.fixed(3),
        2 => builder.growing(0, 2),
        _ => builder.growing(1, 3),
    };
    let routing = if act.b / 4 % 2 == 0 { Routing::LeastLoaded } else { Routing::RoundRobin };
    match builder.routing(routing).build() {
        Ok(pool) => {
            track(Tracked::Unit("closed-pool", pool.closed()));
            let at = usize::from(act.a) % POOLS;
            let entry = Some((pool, number));
            let old = with(|world| std::mem::replace(&mut world.services.pools.pools[at], entry));
            lost(old);
        }
        Err(error) => {
            if !with(|world| world.is_ending) {
                violation(format!("a pool was not made: {error}"));
            }
        }
    }
}

/// The handle of a pool goes.
fn lost(old: Option<(Pool<Player>, u32)>) {
    if let Some((pool, number)) = old {
        with(|world| world.actors.closes(number));
        guarded("dropping a pool", || drop(pool));
    }
}

pub(super) fn give_up() {
    let pools = with(|world| std::mem::take(&mut world.services.pools.pools));
    for pool in pools {
        if let Some((_, number)) = &pool {
            with(|world| world.actors.may_end(*number));
        }
        lost(pool);
    }
}
