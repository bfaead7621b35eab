//! Limits of concurrent steps of an action.

use std::fmt;

/// Maximum number of run steps with equal keys that run their code at once, in all queues of a
/// world.
///
/// Keys are shared by all actions: two actions that must not touch the same resource at once use
/// the same key, and others begin theirs with a prefix of their own. A step that waits for an event
/// or a timer runs no code and does not count.
///
/// ```
/// use turnwheel_engine::Concurrency;
///
/// struct Transfer { account: u64 }
/// let one_at_a_time = Concurrency::keyed(1, |input: &Transfer| format!("account {}", input.account));
/// assert_eq!(one_at_a_time.key(&Transfer { account: 7 }), Some(("account 7".to_owned(), 1)));
/// ```
pub struct Concurrency<I> {
    limit: u32,
    key: Option<fn(&I) -> String>,
    is_shared: bool,
}

/// The key of a call, and how many may have it at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyOfCall {
    pub(crate) key: String,
    pub(crate) limit: u32,
    /// Whether the key shares the places of its queue with others.
    pub(crate) is_shared: bool,
}

impl<I> fmt::Debug for Concurrency<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.key.map(|_| self.limit);
        f.debug_struct("Concurrency").field("limit", &limit).finish_non_exhaustive()
    }
}

impl<I> Concurrency<I> {
    /// Any number.
    pub fn any() -> Self {
        Self { limit: u32::MAX, key: None, is_shared: false }
    }

    /// At most so many, and at least one, with the key that the function makes of the input.
    ///
    /// Cost: the input is read once more for each call.
    pub fn keyed(limit: u32, key: fn(&I) -> String) -> Self {
        Self { limit: limit.max(1), key: Some(key), is_shared: false }
    }

    /// Keys that share the places of a queue, such as one for each tenant: at most so many places
    /// of the queue for one key, and at least one. Half of the places that this leaves to others
    /// are kept for keys that have none. Of the keys that wait those without a place go first,
    /// whatever the priorities of their plans are, then higher priorities, then those with the
    /// fewest places.
    ///
    /// Cost: as [`keyed`](Self::keyed), and a look at all keys that wait for each place.
    pub fn shared(limit: u32, key: fn(&I) -> String) -> Self {
        Self { is_shared: true, ..Self::keyed(limit, key) }
    }

    /// The key of an input and how many may have it at once; `None` if it does not matter.
    pub fn key(&self, input: &I) -> Option<(String, u32)> {
        self.key.map(|key| (key(input), self.limit))
    }

    pub(crate) fn of_call(&self, input: &I) -> Option<KeyOfCall> {
        let (key, limit) = self.key(input)?;
        Some(KeyOfCall { key, limit, is_shared: self.is_shared })
    }

    pub(crate) fn is_any(&self) -> bool {
        self.key.is_none()
    }
}
