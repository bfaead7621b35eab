//! Keys of entities.

use std::borrow::Cow;
use std::hash::Hash;
use std::sync::Arc;

use super::Entity;

/// Bytes of a key as text, at most: keys go into logs, stores and indexes.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Key of an entity.
pub trait EntityKey: Clone + Eq + Hash + Send + Sync + 'static {
    /// The key as text for logs and stores.
    fn text(&self) -> Cow<'_, str>;

    /// Parses the [`text`](EntityKey::text) of a key: a stored reminder finds its entity by it. The
    /// default returns `None`, and entities with such keys have no reminders.
    fn from_text(text: &str) -> Option<Self> {
        let _ = text;
        None
    }

    /// Whether [`text`](EntityKey::text) has more bytes than [`KEY_BYTES_MAX`].
    fn is_too_long(&self) -> bool {
        self.text().len() > KEY_BYTES_MAX
    }
}

/// The text of a key is too long: no entity has such a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key of {entity} has {bytes} bytes as text, and may have no more than 1,024 bytes")]
#[non_exhaustive]
pub struct KeyTooLong {
    /// Type of the entity.
    pub entity: &'static str,
    /// Bytes of its text.
    pub bytes: usize,
}

impl KeyTooLong {
    /// The error of a key that is too long.
    pub(crate) fn of<E: Entity>(key: &E::Key) -> Option<Self> {
        let entity = std::any::type_name::<E>();
        key.is_too_long().then(|| Self { entity, bytes: key.text().len() })
    }
}

const _: () = assert!(KEY_BYTES_MAX == 1_024, "the text of the error names it");

impl EntityKey for String {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl EntityKey for Arc<str> {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(text.into())
    }
}

macro_rules! number_keys {
    ($($number:ty),*) => {$(
        impl EntityKey for $number {
            fn text(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }

            fn from_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn is_too_long(&self) -> bool {
                false
            }
        }
    )*};
}

number_keys!(u32, u64, u128, i64);
