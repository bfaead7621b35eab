//! Closures as messages.

use std::fmt;

use crate::actor::cell::ActorCell;
use crate::actor::context::Context;
use crate::actor::handler::{kind, Access, Receive, Turn};
use crate::actor::Actor;
use crate::large::Carry;
use crate::request::Delivery;

/// The message of [`Address::with`](crate::Address::with).
pub struct With<F>(pub(super) F);

impl<F> fmt::Debug for With<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("With")
    }
}

impl<A, R, F> Receive<With<F>, kind::Closure<R>> for A
where
    A: Actor,
    R: Send + 'static,
    F: FnOnce(&mut A, &mut Context<'_, A>) -> R + Send + 'static,
{
    type Reply = R;
    const GATE_ACCESS: Access = Access::Write;

    fn run<P: Carry<With<F>>>(
        cell: &mut ActorCell<A>,
        delivery: Delivery<P, R>,
        turn: Turn<'_, A>,
    ) {
        cell.run_plain(delivery, turn, |actor, with, cx| (with.open().0)(actor, cx));
    }

    fn run_intercepted<P: Carry<With<F>>>(
        cell: &mut ActorCell<A>,
        delivery: Delivery<P, R>,
        turn: Turn<'_, A>,
    ) {
        cell.plain_intercepted::<With<F>, P, R>(delivery, turn, |actor, with, cx| {
            (with.open().0)(actor, cx)
        });
    }
}
