//! Actions of which one plan may be under way.

use std::fmt;

use serde::{Deserialize, Serialize};

/// At most one plan with this action is under way in a world: its plan holds a lock from the moment in
/// which it is planned until it is stopped or paused, also while it waits and over restarts.
///
/// The lock is named after the action, or also after a key that is made of the input. A plan takes all
/// of its locks or none, in the same commit in which it begins. A sub-plan that would wait for a lock of a
/// plan that waits for it, at any depth and over other plans and their locks, ends with the error
/// `deadlock`, which names the chain.
///
/// ```
/// use turnwheel_engine::Singleton;
///
/// struct Deploy { site: String }
/// let one_for_each_site = Singleton::keyed(|input: &Deploy| input.site.clone()).wait();
/// # let _ = one_for_each_site;
/// ```
pub struct Singleton<I> {
    key: Option<fn(&I) -> String>,
    taken: WhenTaken,
}

impl<I> fmt::Debug for Singleton<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Singleton")
            .field("is_keyed", &self.key.is_some())
            .field("taken", &self.taken)
            .finish()
    }
}

/// Treatment of a plan whose lock another plan has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WhenTaken {
    /// Its planning fails.
    Reject,
    /// It is planned, and waits. Waiting plans get the lock in the order of their ids.
    Wait,
    /// The other one is cancelled, and those that wait for the lock; then it is as with
    /// [`Wait`](WhenTaken::Wait).
    Replace,
}

impl<I> Singleton<I> {
    /// One in the world. A second one fails in planning.
    pub fn new() -> Self {
        Self { key: None, taken: WhenTaken::Reject }
    }

    /// One for each key. A second one with the same key fails in planning, and so does one whose
    /// lock has a [longer name](crate::limits::LOCK_NAME_BYTES_MAX) than may be.
    pub fn keyed(key: fn(&I) -> String) -> Self {
        Self { key: Some(key), taken: WhenTaken::Reject }
    }

    /// A second one waits until the first is stopped or paused.
    #[must_use]
    pub fn wait(mut self) -> Self {
        self.taken = WhenTaken::Wait;
        self
    }

    /// A second one has the first cancelled, and begins when that is over.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.taken = WhenTaken::Replace;
        self
    }

    pub(crate) fn lock(&self, action: &str, input: &I) -> PlanLock {
        let name = match self.key {
            Some(key) => format!("{action}: {}", key(input)),
            None => action.to_owned(),
        };
        PlanLock { name, taken: self.taken }
    }
}

impl<I> Default for Singleton<I> {
    fn default() -> Self {
        Self::new()
    }
}

/// A lock that a plan needs to be under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanLock {
    /// Its name.
    pub name: String,
    /// Treatment if another plan has it.
    pub taken: WhenTaken,
}
