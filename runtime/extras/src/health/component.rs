//! A leaf of the tree: something that says itself how it is.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::monitor::Shared as Monitor;
use super::{HealthIssue, HealthReport, HealthStatus};

/// A component that reports its own health, from any thread. Clones are the same component.
///
/// Cost: a short lock, and a signal to each monitor when the status changes.
///
/// # Example
///
/// ```
/// use turnwheel_extras::health::{HealthComponent, HealthStatus};
///
/// let disk = HealthComponent::healthy("disk");
/// assert!(disk.fail("no space left"));
/// assert_eq!(disk.report().status, HealthStatus::Unhealthy);
/// disk.recover();
/// assert!(disk.report().is_healthy());
/// ```
#[derive(Clone, Debug)]
pub struct HealthComponent {
    shared: Arc<Component>,
}

#[derive(Debug)]
struct Component {
    name: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    status: HealthStatus,
    issue: Option<Arc<HealthIssue>>,
    /// Monitors of the component.
    monitors: Vec<Weak<Monitor>>,
}

impl HealthComponent {
    /// A component that works already.
    #[must_use]
    pub fn healthy(name: &str) -> Self {
        Self::new(name, HealthStatus::Healthy, None)
    }

    /// A component that is unhealthy until it says otherwise.
    #[must_use]
    pub fn starting(name: &str) -> Self {
        let issue = Arc::new(HealthIssue::new("starting"));
        Self::new(name, HealthStatus::Unhealthy, Some(issue))
    }

    fn new(name: &str, status: HealthStatus, issue: Option<Arc<HealthIssue>>) -> Self {
        let state = Mutex::new(State { status, issue, monitors: Vec::new() });
        Self { shared: Arc::new(Component { name: name.into(), state }) }
    }

    /// Its name in the tree.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// It works again. Returns whether that changed its status; the dead stay dead.
    pub fn recover(&self) -> bool {
        self.set(HealthStatus::Healthy, None)
    }

    /// It does not work for now. Returns whether that changed its status; a new issue replaces the
    /// old one all the same. The dead stay dead.
    pub fn fail(&self, issue: impl Into<HealthIssue>) -> bool {
        self.set(HealthStatus::Unhealthy, Some(Arc::new(issue.into())))
    }

    /// Marks the component as failed for good. Its successor registers as a new component, of the
    /// same name if wanted. Returns whether this changed the status.
    pub fn die(&self, issue: impl Into<HealthIssue>) -> bool {
        self.set(HealthStatus::Dead, Some(Arc::new(issue.into())))
    }

    /// Returns the current status.
    #[must_use]
    pub fn report(&self) -> HealthReport {
        let state = self.shared.state.lock();
        HealthReport::leaf(Arc::clone(&self.shared.name), state.status, state.issue.clone())
    }

    fn set(&self, status: HealthStatus, issue: Option<Arc<HealthIssue>>) -> bool {
        let monitors = {
            let mut state = self.shared.state.lock();
            if state.status == HealthStatus::Dead {
                return false;
            }
            state.issue = issue;
            if std::mem::replace(&mut state.status, status) == status {
                return false;
            }
            state.monitors.clone()
        };
        // Outside of the lock: the monitors look back at us.
        for monitor in monitors.iter().filter_map(Weak::upgrade) {
            monitor.changed();
        }
        true
    }

    pub(super) fn attach(&self, monitor: &Arc<Monitor>) {
        let mut state = self.shared.state.lock();
        state.monitors.retain(|other| other.strong_count() > 0);
        state.monitors.push(Arc::downgrade(monitor));
    }

    pub(super) fn detach(&self, monitor: &Monitor) {
        let mut state = self.shared.state.lock();
        let is_it = |other: &Weak<Monitor>| std::ptr::eq(other.as_ptr(), monitor);
        if let Some(index) = state.monitors.iter().position(is_it) {
            state.monitors.swap_remove(index);
        }
    }
}
