//! Groups that a world, or a store that worlds share, has made itself: their threads end with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use turnwheel_runtime::Group;

/// How long the threads of something that was never used, or was dropped, may take to end.
const LIMIT: Duration = Duration::from_secs(1);

/// Threads that end at the latest when this is dropped.
#[derive(Debug, Default)]
pub(super) struct OwnGroups {
    pub(super) groups: Vec<Group>,
    /// What they are of, once somebody can use it; nothing if its making was refused.
    user: Option<String>,
    is_ended: AtomicBool,
}

impl OwnGroups {
    pub(super) fn of(group: Group) -> Self {
        Self { groups: vec![group], user: None, is_ended: AtomicBool::new(false) }
    }

    /// Somebody can use what they are of, and has to end it.
    pub(super) fn used_by(mut self, user: String) -> Self {
        self.user = Some(user);
        self
    }

    /// Their owner ends them.
    pub(super) fn end(&self) -> &[Group] {
        // Only the drop reads it, which nothing runs beside.
        self.is_ended.store(true, Ordering::Relaxed);
        &self.groups
    }
}

impl Drop for OwnGroups {
    fn drop(&mut self) {
        if *self.is_ended.get_mut() || self.groups.is_empty() {
            return;
        }
        if let Some(user) = &self.user {
            tracing::error!(
                "{user} is dropped without shutdown: its threads end now, and what runs is interrupted; \
                 call shutdown"
            );
        }
        for group in &self.groups {
            // A refused build is tried again at once by some: its store is free then.
            let ended = self.user.is_none() && group.shutdown_within(LIMIT).is_ok();
            if !ended {
                // Nobody waits for the report.
                drop(group.shutdown_later(LIMIT));
            }
        }
    }
}
