//! Ownership of keys: one node for now, behind a trait with an epoch.

use std::fmt;

pub use crate::error::NotOwner;

/// The owner of a key and the epoch of its ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// Whether this process owns the key; if not, its messages are refused here.
    pub is_local: bool,
    /// Rises when the ownership changes; every durable write is checked against it.
    pub epoch: u64,
}

/// Ownership of keys among processes. The implementation covers the network.
pub trait Placement: Send + Sync + fmt::Debug {
    /// The owner of an entity, by its type's name and its key as text.
    fn place(&self, entity: &str, key: &str) -> Ownership;

    /// Another process that owns an entity, by a name or address of the cluster: for the refusal of
    /// its messages ([`NotOwner`]). By default it is not known.
    fn owner(&self, entity: &str, key: &str) -> Option<String> {
        let _ = (entity, key);
        None
    }

    /// Whether this process owns every key, now and always: then an activation does not ask for its
    /// place, and need not make a text of its key.
    fn is_all_local(&self) -> bool {
        false
    }
}

/// Everything is here, in the first epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleNode;

impl Placement for SingleNode {
    fn place(&self, _: &str, _: &str) -> Ownership {
        Ownership { is_local: true, epoch: 1 }
    }

    fn is_all_local(&self) -> bool {
        true
    }
}
