//! Who sends to entities: actors that tell in chunks, actors that ask and await each answer.

use std::convert::Infallible;
use std::sync::Arc;

use turnwheel::actors::{
    Actor, Address, AsyncContext, AsyncHandler, Context, Entities, EntityRef, Handler, System,
};
use turnwheel_runtime::{Mailbox, SubmitErrorKind};

use super::account::{Account, Increment, Named, Visit};
use crate::compare::plan::CHUNK;

/// How a sender reaches an entity, and with what.
#[derive(Clone)]
pub(super) enum Door {
    /// By its key, each time anew.
    Get(Entities),
    /// By references that are held.
    Held(Arc<[EntityRef<Account>]>),
    /// By a text that is ready; each goes once.
    Text(Entities, Vec<String>),
    /// By its key, with a message that ends the activation.
    Visit(Entities),
}

impl Door {
    /// Whether it was taken; not if the mailbox is full.
    #[inline]
    fn tell(&mut self, key: u32) -> bool {
        let told = match self {
            Self::Get(entities) => {
                entities.get::<Account>(key).tell(Increment).map_err(|error| error.kind)
            }
            Self::Held(all) => all[key as usize].tell(Increment).map_err(|error| error.kind),
            Self::Text(entities, keys) => {
                let key = keys.pop().unwrap_or_default();
                entities.get::<Named>(key).tell(Increment).map_err(|error| error.kind)
            }
            Self::Visit(entities) => {
                entities.get::<Account>(key).tell(Visit).map_err(|error| error.kind)
            }
        };
        match told {
            Ok(()) => true,
            Err(SubmitErrorKind::Full) => false,
            Err(kind) => lost(kind),
        }
    }

    async fn ask(&self, key: u32) -> u64 {
        let answer = match self {
            Self::Held(all) => all[key as usize].ask(Increment).await,
            Self::Get(entities) | Self::Text(entities, _) | Self::Visit(entities) => {
                entities.get::<Account>(key).ask(Increment).await
            }
        };
        answer.unwrap_or_else(|error| lost(error))
    }
}

/// A message that is refused would make the run wait for ever.
fn lost(why: impl std::fmt::Display) -> ! {
    eprintln!("turnwheel-bench: a message to an entity was refused: {why}");
    std::process::exit(1);
}

/// Sends to its keys in order.
pub(super) struct Sender {
    door: Door,
    targets: Vec<u32>,
    at: usize,
}

/// Go on sending, from the begin if it is through.
pub(super) struct GoOn;

impl Actor for Sender {
    type Error = Infallible;
}

impl Handler<GoOn> for Sender {
    type Reply = ();

    fn handle(&mut self, GoOn: GoOn, cx: &mut Context<'_, Self>) {
        let end = self.targets.len().min(self.at + CHUNK as usize);
        for key in &self.targets[self.at..end] {
            if !self.door.tell(*key) {
                break;
            }
            self.at += 1;
        }
        if self.at < self.targets.len() {
            if let Err(error) = cx.tell_self(GoOn) {
                lost(error.kind);
            }
        } else {
            self.at = 0;
        }
    }
}

/// Asks its keys in order, each after the answer before.
pub(super) struct Asker {
    door: Door,
    targets: Vec<u32>,
}

impl Actor for Asker {
    type Error = Infallible;
}

impl AsyncHandler<GoOn> for Asker {
    type Reply = ();

    async fn handle(&mut self, GoOn: GoOn, _: AsyncContext<Self>) {
        for key in &self.targets {
            self.door.ask(*key).await;
        }
    }
}

/// The senders of a run.
pub(super) enum Senders {
    Tell(Vec<Address<Sender>>),
    Ask(Vec<Address<Asker>>),
}

impl Senders {
    /// Those who tell, each to its own part of the keys.
    pub(super) fn tell(system: &System, parts: Vec<(Door, Vec<u32>)>) -> Self {
        let sender = |(door, targets)| spawn(system, Sender { door, targets, at: 0 });
        Self::Tell(parts.into_iter().map(sender).collect())
    }

    /// Those who ask, each its own part of the keys.
    pub(super) fn ask(system: &System, parts: Vec<(Door, Vec<u32>)>) -> Self {
        let asker = |(door, targets)| spawn(system, Asker { door, targets });
        Self::Ask(parts.into_iter().map(asker).collect())
    }

    /// Lets them begin.
    pub(super) fn start(&self) {
        match self {
            Self::Tell(all) => all.iter().for_each(|one| begun(one.tell(GoOn))),
            Self::Ask(all) => all.iter().for_each(|one| begun(one.tell(GoOn))),
        }
    }
}

fn begun<M>(told: Result<(), turnwheel::actors::TellError<M>>) {
    if let Err(error) = told {
        lost(error.kind);
    }
}

fn spawn<A: Actor>(system: &System, actor: A) -> Address<A> {
    let builder = system.actor(actor).mailbox(Mailbox::unbounded());
    builder.spawn().expect("the group runs while it is measured")
}
