//! The model of actors: which messages were taken, and what became of them.

use turnwheel_actors::{Address, Ask, Entities, ReplyTo, System};
use turnwheel_runtime::SubmitErrorKind;

use super::player::{Bulk, Busy, Large, Later, Mixed, Plain, Player};
use crate::tasks::slots::SLOTS;
use crate::tasks::world::World;

/// One message.
#[derive(Clone, Copy, Debug)]
pub(in crate::tasks) struct MessageModel {
    /// The actor that it was sent to; none for an entity.
    to: Option<u32>,
    fate: MessageFate,
    since: u64,
    /// Whether the order in which it was sent counts.
    is_ordered: bool,
    /// Whether its sender may give it up.
    is_call: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageFate {
    Sent,
    Handled,
    Refused,
    Dropped,
}

/// One actor.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tasks) struct ActorModel {
    /// Live values of it: more than one only while a restart replaces one.
    live: u32,
    is_bounded: bool,
    may_close: bool,
    may_drop: bool,
    /// When the last message in order began.
    last: u64,
    /// Whether a handler's future keeps all others out.
    is_busy: bool,
    /// Futures of handlers beside others.
    open: u32,
    /// Whether it is an entity, of this key.
    key: Option<u64>,
    /// The pool that it is a member of, as one of the actors.
    pool: Option<u32>,
    /// Whether it stands for a pool.
    is_pool: bool,
    /// Whether it has ended with a failure, once its end was told.
    has_failed: Option<bool>,
}

/// A call under way, by the kind of its handler.
pub(in crate::tasks) enum Call {
    Plain(u32, Ask<Plain, u32>),
    Busy(u32, Ask<Busy, u32>),
    Mixed(u32, Ask<Mixed, u32>),
    Later(u32, Ask<Later, u32>),
    Large(u32, Ask<Large, Bulk>),
}

/// Actors and entities of a program.
#[derive(Default)]
pub(in crate::tasks) struct Actors {
    pub(in crate::tasks) system: Option<System>,
    pub(in crate::tasks) entities: Option<Entities>,
    pub(in crate::tasks) addresses: [Option<(Address<Player>, u32)>; SLOTS],
    pub(super) replies: Vec<(ReplyTo<u32>, u32)>,
    pub(super) calls: Vec<Call>,
    pub(super) messages: Vec<MessageModel>,
    pub(super) actors: Vec<ActorModel>,
    /// Messages that were forwarded, and the calls that they answer.
    pub(super) aliases: Vec<(u32, u32)>,
    /// Activations of each key that live.
    pub(super) active: [u32; 3],
    /// Activations from now on that fail.
    pub(super) failing: u32,
}

impl std::fmt::Debug for Actors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Actors").field("messages", &self.messages).finish_non_exhaustive()
    }
}

impl Actors {
    pub(in crate::tasks) fn add(&mut self, is_bounded: bool, key: Option<u64>) -> u32 {
        self.actors.push(ActorModel { is_bounded, key, ..ActorModel::default() });
        (self.actors.len() - 1) as u32
    }

    /// A pool, as an actor without a value of its own.
    pub(in crate::tasks) fn add_pool(&mut self) -> u32 {
        let pool = self.add(false, None);
        self.actors[pool as usize].is_pool = true;
        pool
    }

    /// A member of a pool.
    pub(in crate::tasks) fn add_member(&mut self, pool: u32) -> u32 {
        let member = self.add(false, None);
        self.actors[member as usize].pool = Some(pool);
        // Members of a pool that may shrink close at any time.
        self.actors[member as usize].may_close = true;
        member
    }

    /// The actor may end at any time, and drops what is queued.
    pub(in crate::tasks) fn may_end(&mut self, actor: u32) {
        self.closes(actor);
        self.actors[actor as usize].may_drop = true;
        if let Some(pool) = self.actors[actor as usize].pool {
            self.may_end(pool);
        }
    }

    /// Its end is told.
    pub(super) fn ended(&mut self, actor: u32, has_failed: bool) {
        self.actors[actor as usize].has_failed = Some(has_failed);
    }

    /// How it has ended, if it has.
    pub(in crate::tasks) fn has_failed(&self, actor: u32) -> Option<bool> {
        self.actors[actor as usize].has_failed
    }

    /// Whether the actor is alive and takes every message at once.
    pub(in crate::tasks) fn is_free(&self, actor: u32) -> bool {
        let model = self.actors[actor as usize];
        model.live > 0 && !model.may_close && !model.may_drop && self.is_ready(actor)
    }

    /// Whether no handler of it, or of a pool's members, is under way.
    pub(in crate::tasks) fn is_ready(&self, actor: u32) -> bool {
        let is_ready = |model: &ActorModel| !model.is_busy && model.open == 0;
        let members = self.actors.iter().filter(|model| model.pool == Some(actor));
        let mut members = members.chain([&self.actors[actor as usize]]);
        members.all(is_ready)
    }

    /// Whether a pool is there and each member takes every message at once.
    pub(in crate::tasks) fn is_pool_free(&self, pool: u32) -> bool {
        let model = self.actors[pool as usize];
        model.is_pool && !model.may_close && !model.may_drop && self.is_ready(pool)
    }

    /// Whether a value of the actor lives.
    pub(in crate::tasks) fn is_alive(&self, actor: u32) -> bool {
        self.actors[actor as usize].live > 0
    }

    /// Whether its mailbox may refuse messages.
    pub(in crate::tasks) fn is_bounded(&self, actor: u32) -> bool {
        self.actors[actor as usize].is_bounded
    }

    pub(super) fn opens(&mut self, actor: u32, by: i32) {
        let open = &mut self.actors[actor as usize].open;
        *open = open.saturating_add_signed(by);
    }

    /// The message was refused by an interceptor.
    pub(in crate::tasks) fn intercepted(&mut self, message: u32) {
        self.messages[message as usize].fate = MessageFate::Refused;
    }

    /// Whether a message still waits, and whether it was dropped.
    pub(in crate::tasks) fn fate_of(&self, message: u32) -> (bool, bool) {
        let fate = self.messages[message as usize].fate;
        (fate == MessageFate::Sent, fate == MessageFate::Dropped)
    }

    /// The actor closes in order.
    pub(in crate::tasks) fn closes(&mut self, actor: u32) {
        self.actors[actor as usize].may_close = true;
        let members = self.actors.iter_mut().filter(|model| model.pool == Some(actor));
        members.for_each(|model| model.may_close = true);
    }

    /// Whether any message was sent.
    pub(in crate::tasks) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Whether it is an activation of an entity.
    pub(super) fn is_entity(&self, actor: u32) -> bool {
        self.key_of(actor).is_some()
    }

    /// Its key, if it is an activation of an entity.
    pub(super) fn key_of(&self, actor: u32) -> Option<u64> {
        self.actors[actor as usize].key
    }

    /// The answer to this message goes to the caller of another one.
    pub(super) fn alias(&mut self, message: u32, asked: u32) {
        self.aliases.push((message, asked));
    }

    pub(super) fn busy(&mut self, actor: u32, is_busy: bool) {
        self.actors[actor as usize].is_busy = is_busy;
    }
}

impl World {
    /// A message is sent.
    pub(in crate::tasks) fn sent(
        &mut self,
        to: Option<u32>,
        is_ordered: bool,
        is_call: bool,
    ) -> u32 {
        let since = self.next();
        let fate = MessageFate::Sent;
        self.actors.messages.push(MessageModel { to, fate, since, is_ordered, is_call });
        (self.actors.messages.len() - 1) as u32
    }

    /// A message came back.
    pub(in crate::tasks) fn came_back(&mut self, message: u32, kind: SubmitErrorKind) {
        let MessageModel { to, fate, .. } = self.actors.messages[message as usize];
        self.actors.messages[message as usize].fate = MessageFate::Refused;
        if fate != MessageFate::Sent {
            self.violation(format!("message {message} came back ({kind:?}) and is {fate:?}"));
        }
        let Some(actor) = to.map(|to| self.actors.actors[to as usize]) else { return };
        let is_right = match kind {
            SubmitErrorKind::Full => actor.is_bounded,
            SubmitErrorKind::Closed => actor.may_close,
            SubmitErrorKind::GroupMemory => self.is_tight,
            _ => false,
        };
        if !is_right {
            self.violation(format!("message {message} was refused: {kind:?}; {actor:?}"));
        }
    }

    /// A forwarded message came back.
    pub(super) fn refused_forward(&mut self, message: u32) {
        self.actors.messages[message as usize].fate = MessageFate::Refused;
    }

    /// Messages that wait though nothing keeps their actor from them.
    pub(in crate::tasks) fn check_waiting(&mut self) {
        let mut found = Vec::new();
        for (number, message) in self.actors.messages.iter().enumerate() {
            let Some(to) = message.to.filter(|_| !message.is_call) else { continue };
            let is_free = self.actors.is_free(to) || self.actors.is_pool_free(to);
            if message.fate == MessageFate::Sent && is_free && !self.is_ending {
                found.push(format!("idle, and message {number} to actor {to} waits"));
            }
        }
        found.into_iter().for_each(|text| self.violation(text));
    }

    /// A handler begins.
    pub(super) fn message_begins(&mut self, message: u32, actor: u32) {
        let MessageModel { to, fate, since, is_ordered, .. } =
            self.actors.messages[message as usize];
        self.actors.messages[message as usize].fate = MessageFate::Handled;
        self.later_begins(message);
        let model = self.actors.actors[actor as usize];
        if fate != MessageFate::Sent {
            self.violation(format!("message {message} is handled and was {fate:?}"));
        }
        if model.is_busy {
            self.violation(format!("message {message} begins beside an exclusive handler"));
        }
        if model.live == 0 {
            self.violation(format!("message {message} is handled by the dead actor {actor}"));
        }
        if is_ordered && to == Some(actor) {
            if since < model.last {
                self.violation(format!("message {message} to actor {actor} was overtaken"));
            }
            self.actors.actors[actor as usize].last = since;
        }
    }

    pub(in crate::tasks) fn message_dropped(&mut self, message: u32) {
        let MessageModel { to, fate, is_call, .. } = self.actors.messages[message as usize];
        if fate != MessageFate::Sent {
            return;
        }
        self.actors.messages[message as usize].fate = MessageFate::Dropped;
        let Some(actor) = to.filter(|_| !is_call) else { return };
        if !self.actors.actors[actor as usize].may_drop && !self.is_ending {
            self.violation(format!("message {message} to actor {actor} was dropped unhandled"));
        }
    }

    /// A value of an actor is made.
    pub(in crate::tasks) fn actor_made(&mut self, actor: u32) {
        self.actors.actors[actor as usize].live += 1;
        let Some(key) = self.actors.actors[actor as usize].key else { return };
        let active = &mut self.actors.active[key as usize];
        *active += 1;
        if *active > 1 {
            self.violation(format!("entity {key} is active twice"));
        }
    }

    pub(in crate::tasks) fn actor_dropped(&mut self, actor: u32) {
        self.actors.actors[actor as usize].live -= 1;
        self.actors.actors[actor as usize].is_busy = false;
        self.child_ended(actor);
        if let Some(key) = self.actors.actors[actor as usize].key {
            self.actors.active[key as usize] -= 1;
        }
    }

    /// The result that an answered call must have.
    pub(super) fn answered(&mut self, message: u32, answer: Option<u32>) {
        let fate = self.actors.messages[message as usize].fate;
        let is_right = match answer {
            Some(number) => {
                let is_forwarded = self.actors.aliases.iter().any(|alias| alias.0 == number);
                (number == message || is_forwarded) && fate == MessageFate::Handled
            }
            None => true,
        };
        if !is_right {
            self.violation(format!("the call {message}, {fate:?}, is answered with {answer:?}"));
        }
    }
}
