//! Work in memory that a call leaves for when its plan goes on.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// Work that is done if the plan takes the end of the call, in the same turn.
#[derive(Clone)]
pub(crate) struct Taken(pub(crate) Arc<dyn Fn() + Send + Sync>);

/// Work that is done once, when the end of the call is durable.
#[derive(Clone)]
pub(crate) struct Stored(Arc<Mutex<Option<StoredWork>>>);

type StoredWork = Box<dyn FnOnce() + Send>;

impl Stored {
    pub(crate) fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(work)))))
    }

    /// Does the work, unless it was done.
    pub(crate) fn work(&self) {
        let work = self.0.lock().take();
        if let Some(work) = work {
            work();
        }
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taken")
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stored")
    }
}
