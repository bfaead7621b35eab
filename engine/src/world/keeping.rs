//! Cleaning by the clock: a world that removes what is long over by itself, a little at a time.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Cleaned, Retention, Shared, World, WorldBuilder};
use crate::limits::{CLEAN_EVERY, CLEAN_PAUSE};
use crate::time::Time;

/// Automatic cleaning of a world, and its results so far.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeepingView {
    /// Age since its stop at which a plan is removed.
    pub age: Duration,
    /// Export of plans before their removal.
    pub export: Option<PathBuf>,
    /// Interval of looks for such plans.
    pub every: Duration,
    /// Plans that were removed since the world began.
    pub removed: u64,
    /// Plans that could not be exported the last time, and are kept.
    pub kept: u64,
    /// When it was last looked.
    pub last: Option<Time>,
    /// The error of the last look, if it failed; it is repeated at the next one.
    pub problem: Option<String>,
}

/// State of a world's cleaning.
#[derive(Debug, Default)]
pub(super) struct Keeping(Mutex<Option<KeepingView>>);

impl WorldBuilder {
    /// Lets the world remove old stopped plans by itself, as [`World::clean`] does: at its begin,
    /// and then every [`CLEAN_EVERY`]. It pauses between slices, so that others are served. Of
    /// several worlds over a store only one needs this.
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
    /// Automatic cleaning of this world, and its results; `None` if it is off.
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
