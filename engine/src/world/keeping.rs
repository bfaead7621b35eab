//! Cleaning by the clock: a world that removes what is long over by itself, a little at a time.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Cleaned, Retention, Shared, World, WorldBuilder};
use crate::limits::{CLEAN_EVERY, CLEAN_PAUSE};
use crate::time::Time;

/// How a world cleans by itself, and what came of it so far.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeepingView {
    /// How long ago a plan was stopped that is removed.
    pub age: Duration,
    /// Where plans are written before they are removed.
    pub export: Option<PathBuf>,
    /// How often it is looked for such plans.
    pub every: Duration,
    /// Plans that were removed since the world began.
    pub removed: u64,
    /// Plans that could not be exported the last time, and are kept.
    pub kept: u64,
    /// When it was last looked.
    pub last: Option<Time>,
    /// What went wrong then, if something did: it is tried again the next time.
    pub problem: Option<String>,
}

/// What a world knows of its cleaning.
#[derive(Debug, Default)]
pub(super) struct Keeping(Mutex<Option<KeepingView>>);

impl WorldBuilder {
    /// The world removes plans that are long over by itself, as [`World::clean`] does: once it has begun,
    /// and then every [`CLEAN_EVERY`]. Between slices it pauses, so that others are served. What a world
    /// that shares its store does not run it does not remove either: one of them is enough.
    ///
    /// ```
    /// use std::time::Duration;
    /// use turnwheel_engine::{MemoryStore, Retention, World};
    ///
    /// let month = Duration::from_secs(30 * 24 * 3600);
    /// let world = World::builder().keep(Retention::older_than(month)).build(MemoryStore::new())?;
    /// assert_eq!(world.keeping().map(|keeping| keeping.age), Some(month));
    /// # world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep(mut self, retention: Retention) -> Self {
        self.retention = Some(retention.pause(CLEAN_PAUSE));
        self
    }
}

impl World {
    /// How this world cleans by itself, and what came of it; nothing if it does not.
    pub fn keeping(&self) -> Option<KeepingView> {
        self.shared().keeping.0.lock().clone()
    }

    /// Begins to clean by the clock.
    pub(super) fn begin_keeping(&self, retention: Retention) {
        let shared = self.shared();
        *shared.keeping.0.lock() = Some(KeepingView {
            age: retention.age(),
            export: retention.export_place(),
            every: CLEAN_EVERY,
            removed: 0,
            kept: 0,
            last: None,
            problem: None,
        });
        shared.hub().spawn(keep(Arc::downgrade(shared), retention));
    }
}

/// Cleans as long as its world lives.
async fn keep(world: Weak<Shared>, retention: Retention) {
    loop {
        let Some(shared) = world.upgrade().filter(|shared| !shared.is_ending()) else { return };
        let world_then = World::of(&shared);
        let outcome = world_then.clean(retention.clone()).await;
        if let Some(keeping) = &mut *shared.keeping.0.lock() {
            keeping.last = Some(shared.now());
            match &outcome {
                Ok(Cleaned { plans, kept, .. }) => {
                    keeping.removed += plans;
                    keeping.kept = *kept;
                    keeping.problem = None;
                }
                Err(error) => keeping.problem = Some(error.to_string()),
            }
        }
        match outcome {
            Ok(Cleaned { plans: 0, .. }) => {}
            Ok(Cleaned { plans, .. }) => tracing::info!(plans, "old plans are removed"),
            Err(error) => tracing::warn!(%error, "old plans are not removed"),
        }
        let later = shared.group().sleep(CLEAN_EVERY);
        drop((world_then, shared));
        let _slept = later.await;
    }
}
