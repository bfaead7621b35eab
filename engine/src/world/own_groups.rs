//! Groups that a world or a shared store made for itself. Their threads end with their owner.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use turnwheel_runtime::Group;

/// Time for the threads of a refused build or of a dropped owner to end.
const LIMIT: Duration = Duration::from_secs(1);

/// Groups whose threads end at the latest when this is dropped.
#[derive(Debug, Default)]
pub(super) struct OwnGroups {
    pub(super) groups: Vec<Group>,
    /// The owner, for the log; nothing until it was built.
    user: Option<String>,
    is_ended: AtomicBool,
}

impl OwnGroups {
    pub(super) fn of(group: Group) -> Self {
        Self { groups: vec![group], user: None, is_ended: AtomicBool::new(false) }
    }

    /// The owner was built: its user has to end it.
    pub(super) fn used_by(mut self, user: String) -> Self {
        self.user = Some(user);
        self
    }

    /// The groups, for an owner that ends them itself.
    pub(super) fn end(&self) -> &[Group] {
        // Relaxed: only the destructor reads it, and nothing runs beside a destructor.
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
                "{user} is dropped without shutdown: its threads end now and running steps are \
                 interrupted; call shutdown"
            );
        }
        for group in &self.groups {
            // A caller may try a refused build again at once: the store is free by then.
            let ended = self.user.is_none() && group.shutdown_within(LIMIT).is_ok();
            if !ended {
                // The report has no reader.
                drop(group.shutdown_later(LIMIT));
            }
        }
    }
}
