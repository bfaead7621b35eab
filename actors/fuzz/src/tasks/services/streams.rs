//! Streams: an attached channel's items come once each, in order.

use turnwheel_actors::{Attached, Context, Handler};
use turnwheel_channel::Channel;

use crate::kind::Kind;
use crate::program::Act;
use crate::run::Twin;
use crate::tasks::actors::Player;
use crate::tasks::main_thread::guarded;
use crate::tasks::slots::slot;
use crate::tasks::world::{violation, with, Role, Token, World};

/// Items that a channel holds at most.
const CAPACITY: usize = 8;

/// One stream.
#[derive(Debug)]
pub(super) struct Model {
    channel: Option<Channel<Piece>>,
    attached: Option<Attached>,
    actor: u32,
    sent: u32,
    got: u32,
    is_cut: bool,
}

/// One item.
#[derive(Debug)]
struct Piece {
    stream: usize,
    number: u32,
    _token: Token,
}

pub(super) fn perform(act: &Act) {
    if act.kind == Kind::Detach {
        let attached = with(|world| {
            let model = world.services.streams.last_mut()?;
            model.is_cut = true;
            model.attached.take()
        });
        if let Some(attached) = attached {
            attached.cancel();
        }
        return;
    }
    if act.a % 4 < 2 {
        attach(act);
    }
    send(act);
}

/// Attaches a channel to an actor.
fn attach(act: &Act) {
    let Some((address, actor)) = with(|world| world.actors.addresses[slot(act.a)].clone()) else {
        return;
    };
    if with(|world| world.is_ending) {
        return;
    }
    let channel = Channel::bounded(CAPACITY);
    let attached = address.attach_channel(&channel);
    with(|world| {
        let is_cut = attached.is_err();
        let channel = Some(channel);
        let attached = attached.ok();
        let model = Model { channel, attached, actor, sent: 0, got: 0, is_cut };
        world.services.streams.push(model);
    });
}

/// Sends some items to the last stream, and may end it.
fn send(act: &Act) {
    let last = with(|world| {
        let stream = world.services.streams.len().checked_sub(1)?;
        Some((stream, world.services.streams[stream].channel.clone()?))
    });
    let Some((stream, channel)) = last else { return };
    for _ in 0..act.b % 4 {
        let number = with(|world| {
            let sent = world.services.streams[stream].sent;
            if world.twin == Some(Twin::MixesItems) {
                sent ^ 1
            } else {
                sent
            }
        });
        // Before the call: the item may be taken in it.
        with(|world| world.services.streams[stream].sent += 1);
        let piece = Piece { stream, number, _token: Token::new(Role::Other, &act.body) };
        if let Err(refused) = channel.send(piece) {
            with(|world| world.services.streams[stream].sent -= 1);
            drop(refused);
            break;
        }
    }
    if act.b / 4 == 7 {
        channel.close();
        let model = with(|world| world.services.streams[stream].channel.take());
        drop(model);
    }
}

impl Handler<Piece> for Player {
    type Reply = ();

    fn handle(&mut self, piece: Piece, _: &mut Context<'_, Self>) {
        let Piece { stream, number, .. } = piece;
        let wanted = with(|world| {
            let Some(model) = world.services.streams.get_mut(stream) else { return number };
            model.got += 1;
            model.got - 1
        });
        if number != wanted {
            violation(format!("item {number} of stream {stream} comes, not {wanted}"));
        }
    }
}

pub(super) fn give_up() {
    let streams = with(|world| std::mem::take(&mut world.services.streams));
    for Model { channel, attached, .. } in streams {
        drop(attached);
        let Some(channel) = channel else { continue };
        // Each item for itself: its destructor may panic.
        while let Some(item) = channel.try_take() {
            guarded("dropping an item", || drop(item));
        }
        channel.close();
    }
}

impl World {
    /// A free actor has taken all items.
    pub(super) fn check_streams(&mut self) {
        let mut found = Vec::new();
        for model in &self.services.streams {
            let is_due = model.got < model.sent && !model.is_cut && !self.is_ending;
            if is_due && self.actors.is_free(model.actor) {
                found.push(format!("idle, and items of a stream wait: {model:?}"));
            }
        }
        found.into_iter().for_each(|text| self.violation(text));
    }
}
