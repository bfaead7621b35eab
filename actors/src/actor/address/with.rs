//! Closures as messages.

use crate::actor::{kind, Access, Actor, ActorCell, Context, MessageFor, Turn};
use crate::large::Carry;
use crate::request::Delivery;

/// The message of [`Address::with`](crate::Address::with).
pub struct With<F>(pub(super) F);

debug_fields!(impl<F> With<F>, self =>);

impl<A, R, F> MessageFor<A, kind::Closure<R>> for With<F>
where
    A: Actor,
    R: Send + 'static,
    F: FnOnce(&mut A, &mut Context<'_, A>) -> R + Send + 'static,
{
    type Reply = R;
    const GATE_ACCESS: Access = Access::Write;

    fn run<P: Carry<Self>>(
        cell: &mut ActorCell<A>,
        delivery: Delivery<P, R>,
        turn: Turn<'_, A>,
        is_intercepted: bool,
    ) {
        let handle = |actor: &mut A, with: P, cx: &mut Context<'_, A>| (with.open().0)(actor, cx);
        match is_intercepted {
            false => cell.run_plain(delivery, turn, handle),
            true => cell.plain_intercepted::<Self, P, R>(delivery, turn, handle),
        }
    }
}
