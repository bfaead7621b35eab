//! The message of a due reminder, and how it finds its entity by names.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use turnwheel_runtime::Failure;

use crate::actor::MessageFor;
use crate::entity::{Entities, Entity, EntityKey};

/// A reminder is due: the message that an entity with reminders handles, by any of the traits of
/// [`handler`](crate::handler).
///
/// It may come again: after a failure, and after a crash between the delivery and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReminderTick {
    /// The name of the reminder.
    pub name: Arc<str>,
    /// Its first occurrence.
    pub first_due: SystemTime,
    /// Time between two occurrences; `None` if there is only one.
    pub period: Option<Duration>,
    /// The occurrence of this tick.
    pub planned: SystemTime,
    /// The time of the tick; never before `planned`.
    pub current: SystemTime,
    /// Skipped occurrences between the last delivered one and this one.
    pub skipped: u64,
    /// Attempts to tell this occurrence that have failed.
    pub failures: u32,
}

/// Answer of a handler of [`ReminderTick`]: nothing, or whether it has succeeded. After an error
/// or a panic the tick is repeated.
pub trait TickReply: Send + 'static {
    /// Why the tick has failed, if it has.
    fn into_outcome(self) -> Result<(), Failure>;
}

impl TickReply for () {
    fn into_outcome(self) -> Result<(), Failure> {
        Ok(())
    }
}

impl<E: fmt::Display + Send + 'static> TickReply for Result<(), E> {
    fn into_outcome(self) -> Result<(), Failure> {
        self.map_err(|error| Failure::message(error.to_string()))
    }
}

/// A tick on its way.
pub(super) type Told = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Delivers a tick to an entity of one type, found by its key as text.
pub(super) type Tell = Box<dyn Fn(&Entities, &str, ReminderTick, Duration) -> Told + Send + Sync>;

/// A type of entities that takes reminders.
pub(super) struct Target {
    pub(super) name: &'static str,
    pub(super) type_name: &'static str,
    pub(super) tell: Tell,
}

impl Target {
    pub(super) fn of<E: Entity, K: 'static>() -> Self
    where
        ReminderTick: MessageFor<E, K, Reply: TickReply>,
    {
        let tell: Tell = Box::new(|entities, key, tick, limit| {
            let Some(key) = E::Key::from_text(key) else {
                let refused = Failure::Refused("the key is not read back from text");
                return Box::pin(std::future::ready(Err(refused)));
            };
            let asked = entities.get::<E>(key).ask_within(tick, limit);
            Box::pin(async { asked.await.map_err(Failure::from)?.into_outcome() })
        });
        Self { name: E::NAME, type_name: std::any::type_name::<E>(), tell }
    }
}
