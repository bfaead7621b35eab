//! The handle of a continuation.

use crate::subscription::Source;
use crate::sync::{Arc, Ordering};

/// The handle of a continuation; lets the task give it up.
#[derive(Clone, Debug)]
pub struct Subscription(Arc<Source>);

impl Subscription {
    pub(crate) fn new(source: Arc<Source>) -> Self {
        Self(source)
    }

    pub(crate) fn index(&self) -> u32 {
        self.0.index
    }

    /// Drops the continuation unrun, from any thread, unless it has begun.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Release);
        self.0.ready();
    }

    /// Whether it is still registered.
    pub fn is_registered(&self) -> bool {
        self.0.is_attached()
    }
}
