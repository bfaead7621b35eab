//! Topics: every subscriber gets each copy once, in order, or it is counted as missed.

use std::sync::Arc;
use std::task::Poll;

use turnwheel_actors::{Context, Handler, Published, SubscriptionId, Topic, TopicOverflow};
use turnwheel_runtime::Completion;

use super::poll;
use crate::kind::Kind;
use crate::program::Act;
use crate::run::Twin;
use crate::tasks::actors::Player;
use crate::tasks::main_thread::guarded;
use crate::tasks::slots::slot;
use crate::tasks::world::{violation, with, Role, Token, World};

const TOPICS: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Model {
    topics: [Option<Topic<Copied>>; TOPICS],
    published: [u32; TOPICS],
    subscribers: Vec<Subscriber>,
    /// A destructor that runs within `publish` publishes nothing.
    is_publishing: bool,
    receipts: Vec<Completion<Published>>,
}

#[derive(Clone, Copy, Debug)]
struct Subscriber {
    topic: usize,
    actor: u32,
    id: SubscriptionId,
    overflow: TopicOverflow,
    /// Messages that were published before.
    since: u32,
    last: Option<u32>,
    got: u64,
    is_off: bool,
}

/// A published message.
#[derive(Clone, Debug)]
struct Copied {
    topic: usize,
    number: u32,
    _token: Arc<Token>,
}

/// The topic that an argument names.
fn topic(argument: u8) -> Option<(usize, Topic<Copied>)> {
    let at = usize::from(argument) % TOPICS;
    with(|world| {
        if world.is_ending {
            return None;
        }
        let topic = world.services.topics.topics[at].get_or_insert_with(Topic::new);
        Some((at, topic.clone()))
    })
}

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::Subscribe => subscribe(act),
        Kind::Publish => publish(act),
        _ => unsubscribe(act),
    }
}

fn subscribe(act: &Act) {
    let Some((at, topic)) = topic(act.b) else { return };
    let Some((address, actor)) = with(|world| world.actors.addresses[slot(act.a)].clone()) else {
        return;
    };
    let is_known = |one: &Subscriber| one.topic == at && one.actor == actor;
    // Once only: the actor cannot tell the copies of two subscriptions apart.
    if with(|world| world.services.topics.subscribers.iter().any(is_known)) {
        return;
    }
    let overflow = match act.b / 2 % 5 {
        0 => TopicOverflow::Reject,
        1 => TopicOverflow::Unsubscribe,
        2 => TopicOverflow::DropOldest { keep: 2 },
        3 => TopicOverflow::Coalesce,
        _ => TopicOverflow::Wait,
    };
    let id = topic.subscribe(address.recipient(), overflow);
    with(|world| {
        let since = world.services.topics.published[at];
        let is_off = false;
        let (last, got) = (None, 0);
        let one = Subscriber { topic: at, actor, id, overflow, since, last, got, is_off };
        world.services.topics.subscribers.push(one);
    });
}

fn unsubscribe(act: &Act) {
    let Some((at, topic)) = topic(act.b) else { return };
    let id = with(|world| {
        let all = &mut world.services.topics.subscribers;
        let one = all.iter_mut().filter(|one| one.topic == at && !one.is_off).last()?;
        one.is_off = true;
        Some(one.id)
    });
    if let Some(id) = id {
        topic.unsubscribe(id);
    }
}

fn publish(act: &Act) {
    let Some((at, topic)) = topic(act.a) else { return };
    let number = with(|world| {
        let topics = &mut world.services.topics;
        if std::mem::replace(&mut topics.is_publishing, true) {
            return None;
        }
        topics.published[at] += 1;
        Some(topics.published[at])
    });
    let Some(number) = number else { return };
    let token = Arc::new(Token::new(Role::Other, &act.body));
    let copied = Copied { topic: at, number, _token: token };
    let most = topic.subscriptions().len();
    let published = if act.b % 3 == 0 {
        let receipt = topic.publish_accepted(&copied);
        with(|world| world.services.topics.receipts.push(receipt));
        None
    } else {
        Some(topic.publish(&copied))
    };
    with(|world| world.services.topics.is_publishing = false);
    drop(copied);
    let Some(Published { delivered, deferred, rejected, removed, .. }) = published else { return };
    let sum = delivered + deferred + rejected + removed;
    if sum < most {
        violation(format!("{most} subscribers, and the receipt names {sum}: {published:?}"));
    }
}

impl Handler<Copied> for Player {
    type Reply = ();

    fn handle(&mut self, copied: Copied, _: &mut Context<'_, Self>) {
        with(|world| world.copy_arrives(&copied, self.number()));
    }
}

/// Each subscriber that is free has what was published, but for what it has missed.
pub(super) fn check_idle() {
    let all = with(|world| world.services.topics.subscribers.clone());
    for one in all {
        let topic = with(|world| {
            let is_free = world.actors.is_free(one.actor) && !one.is_off && !world.is_ending;
            world.services.topics.topics[one.topic].clone().filter(|_| is_free)
        });
        let Some(topic) = topic else { continue };
        let published = with(|world| world.services.topics.published[one.topic]);
        let wanted = u64::from(published - one.since);
        let Some(info) = topic.subscriptions().into_iter().find(|info| info.id == one.id) else {
            if one.overflow != TopicOverflow::Unsubscribe {
                violation(format!("the topic has lost a subscription: {one:?}"));
            }
            continue;
        };
        if wanted != one.got + info.missed + info.kept as u64 {
            violation(format!("{wanted} copies are due to {one:?}: {info:?}"));
        }
        if info.kept > 0 && !with(|world| world.is_tight) {
            violation(format!("idle, and copies are kept for {one:?}: {info:?}"));
        }
    }
}

/// Every receipt has come.
pub(super) fn check_end() {
    let receipts = with(|world| std::mem::take(&mut world.services.topics.receipts));
    for mut receipt in receipts {
        if matches!(poll(&mut receipt), Poll::Pending) {
            violation("the receipt of a published message never comes".to_owned());
        }
    }
}

pub(super) fn give_up() {
    let topics = with(|world| std::mem::take(&mut world.services.topics.topics));
    topics.into_iter().for_each(|topic| guarded("dropping a topic", || drop(topic)));
}

impl World {
    fn copy_arrives(&mut self, copied: &Copied, actor: u32) {
        if self.twin == Some(Twin::LosesCopies) {
            return;
        }
        let number = copied.number;
        let is_it = |one: &&mut Subscriber| one.topic == copied.topic && one.actor == actor;
        let Some(one) = self.services.topics.subscribers.iter_mut().find(is_it) else {
            return self.violation(format!("copy {number} comes to actor {actor}: no subscriber"));
        };
        let (before, since) = (one.last.replace(number), one.since);
        one.got += 1;
        if before.is_some_and(|before| before >= number) || number <= since {
            let text = format!("copy {number} comes to actor {actor} after {before:?}, {since}");
            self.violation(text);
        }
    }
}
