//! Admission of messages through the gate of a cell.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;

use turnwheel_runtime::Failure;

use crate::actor::cell::gate::{Release, Verdict, Waiter};
use crate::actor::{Access, Actor, ActorCell, Envelope, MessageFor, Turn};
use crate::call::{Abandoned, ReplyTo};
use crate::request::scope;
use crate::request::{Baggage, Delivery, Panic};
use crate::system::DeadLetterReason;

impl<A: Actor> ActorCell<A> {
    /// After a handler's future: takes the messages that waited for it, or continues its panic.
    pub(crate) fn go_on(
        &mut self,
        panic: Option<Panic>,
        is_activity: bool,
        turn: &mut Turn<'_, A>,
    ) {
        if is_activity {
            self.state.note_use(turn.now_ns());
        }
        let Some(panic) = panic else { return self.drain(turn.reborrow()) };
        if !self.state.is_plain {
            // Runs after the policy hook, which may put another actor into the cell. Refused only
            // with a full fast lane; the next future that ends then takes the waiting messages.
            drop(turn.run(|cell, turn| cell.drain(turn.reborrow())));
        }
        resume_unwind(panic);
    }

    /// Takes the waiting messages that are admitted now.
    pub(crate) fn drain(&mut self, mut turn: Turn<'_, A>) {
        if self.state.is_plain || self.state.is_out() {
            return;
        }
        while self.actor.is_some() {
            let Some(waiter) = self.state.rare().gate.next() else { break };
            // A panic continues to the policy hook; the remaining messages come after it.
            let run = AssertUnwindSafe(|| waiter(self, turn.reborrow(), Release::Admitted));
            if let Err(panic) = catch_unwind(run) {
                return self.go_on(Some(panic), false, &mut turn);
            }
        }
        if self.state.rare().gate.is_free() {
            self.state.set_plain();
        }
    }

    /// Takes the messages that waited for futures of a failed actor, after the fresh actor has
    /// started.
    pub(crate) fn drain_after_start(&mut self, turn: &mut Turn<'_, A>) {
        if self.state.has_waiting() {
            turn.await_exclusive(std::future::ready(()), |cell: &mut Self, turn, ()| {
                cell.drain(turn.reborrow());
            });
        }
    }

    /// Ends the messages at the gate whose deadline has passed or whose caller has given up, and
    /// takes the messages that they blocked.
    fn end_late(&mut self, turn: &mut Turn<'_, A>) {
        let now_ns = turn.attachment().group().now_ns();
        while let Some(waiter) = self.state.rare().gate.next_late(now_ns) {
            waiter(self, turn.reborrow(), Release::Expired);
        }
        self.drain(turn.reborrow());
    }

    /// From now on answers every message with this failure, also those at the gate.
    pub(crate) fn refuse_all(&mut self, failure: Failure, turn: &mut Turn<'_, A>) {
        self.state.is_plain = false;
        self.state.rare().broken = Some(failure);
        self.readmit_waiting(turn);
    }

    /// Admits the messages at the gate again; the actor handles no more messages.
    pub(crate) fn readmit_waiting(&mut self, turn: &mut Turn<'_, A>) {
        for waiter in self.state.rare().gate.take_waiting() {
            // A message that panics when it is dropped takes no others with it.
            scope::contain("refusing a message", || waiter(self, turn.reborrow(), Release::Again));
        }
    }

    /// Whether a stream whose items have this access may be pulled now.
    pub(crate) fn admits_stream(&mut self, access: Access) -> bool {
        self.state.is_plain
            || self.state.rare().gate.judge(access, false) == Verdict::Take && !self.state.is_out()
    }

    /// Puts a stream in line with the messages that wait. Each stream takes one place at a time,
    /// also beyond the limit for messages. An actor that takes no more messages pulls no more.
    pub(crate) fn keep_stream(&mut self, access: Access, waiter: Waiter<A>, turn: &Turn<'_, A>) {
        if self.state.is_out() {
            return;
        }
        if self.state.rare().gate.keep(access, waiter, None, None) {
            turn.task().interrupt();
        }
    }

    /// Takes a message of an actor that has a gate or interceptors. Out of line and without a
    /// `Delivery`: in line, its locals and registers cost every message that needs neither.
    #[inline(never)]
    pub(crate) fn receive_gated<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        message: M,
        baggage: Option<Arc<Baggage>>,
        reply: Option<ReplyTo<M::Reply>>,
        mut turn: Turn<'_, A>,
    ) {
        let delivery = Delivery { message, baggage, reply };
        if let Some(delivery) = self.admit::<M, K>(delivery, &mut turn) {
            self.handle_admitted::<M, K>(delivery, turn);
        }
    }

    /// The half after admission: the handler, with interceptors around it if there are any.
    pub(crate) fn handle_admitted<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        delivery: Delivery<M, M::Reply>,
        turn: Turn<'_, A>,
    ) {
        let is_intercepted = self.state.is_intercepted();
        M::run(self, delivery, turn, is_intercepted);
    }

    /// Handles, ends or admits again a message that has waited at the gate.
    fn release<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        delivery: Delivery<M, M::Reply>,
        release: Release,
        turn: Turn<'_, A>,
    ) {
        match release {
            Release::Admitted => self.handle_admitted::<M, K>(delivery, turn),
            Release::Again => M::receive(self, delivery, turn),
            Release::Expired => {
                let Some(reply) = delivery.reply else { return };
                let has_expired = reply.has_expired(turn.attachment().group());
                reply.expire();
                self.dead_letter::<M>(&turn, DeadLetterReason::of_unbegun(has_expired));
            }
        }
    }

    /// Lets a message through the gate, keeps it, or refuses it.
    fn admit<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        delivery: Delivery<M, M::Reply>,
        turn: &mut Turn<'_, A>,
    ) -> Option<Delivery<M, M::Reply>> {
        let access = M::GATE_ACCESS;
        let is_tick = std::mem::take(&mut self.state.is_tick);
        if let Some(failure) = self.state.broken() {
            if let Some(reply) = delivery.reply {
                reply.fail(failure);
            }
            self.dead_letter::<M>(turn, DeadLetterReason::Dropped);
            return None;
        }
        let call = delivery.reply.as_ref().and_then(|reply| reply.call());
        let comes_back = call.is_some_and(|call| call.chain.contains(self.state.id));
        let rare = self.state.rare();
        if let Some(forwarder) = rare.forwarder.as_ref().filter(|_| !comes_back) {
            forwarder.take(Box::new(Envelope::<M, M::Reply, K>::new(delivery)));
            return None;
        }
        if rare.gate.is_full() {
            self.end_late(turn);
        }
        match self.state.rare().gate.judge(access, comes_back) {
            Verdict::Take => {
                if is_tick {
                    self.state.expect_tick();
                }
                return Some(delivery);
            }
            Verdict::Wait => {
                let asked = delivery.reply.as_ref().and_then(ReplyTo::asked);
                let envelope = Envelope::<M, M::Reply, K>::new(delivery);
                let waiter = Box::new(move |cell: &mut Self, turn: Turn<'_, A>, release| {
                    if is_tick {
                        cell.state.expect_tick();
                    }
                    cell.release::<M, K>(envelope.open(), release, turn);
                });
                let holds_up = self.state.rare().gate.holds_readers_up(access);
                let look = asked.clone().filter(|_| holds_up).map(|call| {
                    let gone = Abandoned::by_caller(call, turn.attachment().group().clone());
                    turn.await_interleaved(gone, |cell: &mut Self, turn, ()| cell.end_late(turn))
                });
                if self.state.rare().gate.keep(access, waiter, asked, look) {
                    // The message has left the mailbox: an entity notes that a message waits.
                    turn.task().interrupt();
                }
            }
            Verdict::Cycle => {
                if let Some(reply) = delivery.reply {
                    reply.fail_with_cycle(turn.name().to_owned());
                }
            }
            Verdict::TooMany => {
                if let Some(reply) = delivery.reply {
                    reply.fail(Failure::Refused("too many messages wait for other handlers"));
                }
                self.dead_letter::<M>(turn, DeadLetterReason::TooManyWaiting);
            }
        }
        None
    }
}
