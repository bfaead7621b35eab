//! Calls that an interceptor makes again: as often as it says, until one is answered.

use std::time::Duration;

use turnwheel_actors::{AskError, Context, ReplyHandler, ReplyTo, RequestContext};
use turnwheel_interceptors::Retry;
use turnwheel_runtime::Backoff;

use super::supervision::{awaited, now_ns};
use crate::program::Act;
use crate::run::Twin;
use crate::tasks::actors::{Player, ASK_LIMIT};
use crate::tasks::slots::slot;
use crate::tasks::world::{violation, with, Role, Token};

/// Attempts in all.
const ATTEMPTS: u32 = 3;

/// The time limit of a call, with room for the pauses in it.
const ASK_LIMIT_NS: u64 = ASK_LIMIT.as_nanos() as u64;

/// One call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// Attempts that get no answer.
    failing: u32,
    handled: u32,
    begin_ns: u64,
}

/// A message that may be handled more than once.
#[derive(Debug)]
pub(super) struct Repeated {
    number: usize,
    _token: Token,
}

impl Repeated {
    fn new(number: usize) -> Self {
        Self { number, _token: Token::new(Role::Other, &[]) }
    }
}

impl Clone for Repeated {
    fn clone(&self) -> Self {
        Self::new(self.number)
    }
}

/// The interceptor of a program's system.
pub(super) fn policy() -> Retry {
    let is_broken = with(|world| world.twin) == Some(Twin::LosesAttempts);
    let attempts = if is_broken { 1 } else { ATTEMPTS };
    Retry::new(attempts, Backoff::constant(Duration::from_millis(1))).of::<Repeated>()
}

pub(super) fn perform(act: &Act) {
    let address = with(|world| world.actors.addresses[slot(act.a)].clone());
    let Some((address, to)) = address else { return };
    let number = with(|world| {
        let failing = u32::from(act.b) % (ATTEMPTS + 1);
        let begin_ns = now_ns(world);
        world.services.retried.push(Model { failing, handled: 0, begin_ns });
        world.services.retried.len() - 1
    });
    // Within a request its deadline, which may be near, would be that of all attempts.
    let ask = RequestContext::new().apart(|| address.ask(Repeated::new(number)));
    drop(address);
    awaited(async move {
        let outcome = ask.await;
        with(|world| {
            let Some(model) = world.services.retried.get(number).copied() else { return };
            let is_repeated = world.services.intercepted.is_measured();
            let most = if is_repeated { ATTEMPTS } else { 1 };
            let is_right = match &outcome {
                Ok(answer) => *answer == number && model.handled == model.failing + 1,
                Err(AskError::Unanswered(_)) => {
                    // A living actor has seen every attempt that there was time for.
                    let is_late = model.begin_ns + ASK_LIMIT_NS / 2 < now_ns(world);
                    model.handled == most || is_late || !world.actors.is_free(to)
                }
                Err(_) => true,
            };
            if !is_right || model.handled > most {
                world.violation(format!("call {number}, {model:?}, ends with {outcome:?}"));
            }
        });
        drop(outcome);
    });
}

impl ReplyHandler<Repeated> for Player {
    type Reply = usize;

    fn handle(&mut self, call: Repeated, reply: ReplyTo<usize>, _: &mut Context<'_, Self>) {
        let model = with(|world| {
            let model = world.services.retried.get_mut(call.number)?;
            model.handled += 1;
            Some(*model)
        });
        match model {
            Some(model) if model.handled > model.failing => reply.send(call.number),
            Some(_) => drop(reply),
            None => violation(format!("call {} is of no program", call.number)),
        }
    }
}
