//! Why a reminder was not registered, read or removed, and why reminders were not set up.

use std::time::Duration;

use super::{NAME_BYTES_MAX, PER_ENTITY_MAX};
use crate::entity::StoreError;

/// Why something was not done about the reminders of an entity.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum ReminderError {
    /// These entities have no reminders.
    #[error("no reminders are set up: give the builder of the entities some (`reminders`)")]
    NotSetUp,
    /// Entities of this type take no reminders.
    #[error(
        "entities «{entity}» take no reminders: name their type when they are set up (`entity`)"
    )]
    NotTaken { entity: String },
    /// An entity could not be found again by its stored key.
    #[error(
        "entity {entity} «{key}»: its key is not read back from text (`EntityKey::from_text`)"
    )]
    UnreadableKey { entity: String, key: String },
    /// The name is empty or too long.
    #[error("reminder «{name}»: a name has 1 to {NAME_BYTES_MAX} bytes")]
    BadName { name: String },
    /// It would tick more often than it may.
    #[error(
        "reminder «{name}»: a period of {period:?} is shorter than {period_min:?}; use a timer"
    )]
    PeriodTooShort { name: String, period: Duration, period_min: Duration },
    /// A time that cannot be stored.
    #[error("reminder «{name}»: a time or period of more than 290 million years")]
    OutOfRange { name: String },
    /// The entity has as many as it may.
    #[error("entity {entity} «{key}» has {PER_ENTITY_MAX} reminders already")]
    TooMany { entity: String, key: String },
    /// Another process owns the entity, and delivers its reminders.
    #[error("entity {entity} «{key}» is owned by another process: register its reminders there")]
    Elsewhere { entity: String, key: String },
    /// The handle is of a reminder that was removed, has ticked its last, was registered in another
    /// way since, or belongs to another entity.
    #[error("reminder «{name}» is not any more what this handle stands for; get it anew")]
    Stale { name: String },
    /// The store has failed, or others wrote the reminder again and again.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why reminders were not set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum RemindersError {
    /// The window, the time between two looks, or the shortest period is zero.
    #[error("{what} of reminders must not be zero")]
    Zero { what: &'static str },
    /// Reminders due between two looks would be found too late.
    #[error(
        "a window of {window:?} is shorter than the {refresh:?} between two looks at the store"
    )]
    WindowTooShort { window: Duration, refresh: Duration },
    /// A type of entities without a name, by which its reminders could be found again.
    #[error("entity type `{type_name}` has no `NAME`, under which its reminders could be stored")]
    Unnamed { type_name: &'static str },
    /// Two types of entities with one name.
    #[error("two entity types have the name «{name}»")]
    SameName { name: &'static str },
}
