//! The health of a service as a tree: components report, monitors take the worst of their children.
//!
//! A layer on the public API of the task. Invariant: a report is computed from the current state of
//! the components on each request, so no thread reads an outdated one. Listeners are called on the
//! monitor's own task, in order, and only when the status has changed.

mod component;
mod monitor;

use std::fmt;
use std::sync::Arc;

use turnwheel_runtime::Failure;

pub use component::HealthComponent;
pub use monitor::{HealthError, HealthMonitor, HealthSource, Listening};

/// Status of a component. The greatest of several is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HealthStatus {
    /// It works.
    Healthy,
    /// It does not work, but may again.
    Unhealthy,
    /// It will not work again; an operator must act.
    Dead,
}

impl fmt::Display for HealthStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Dead => "dead",
        })
    }
}

/// Why a component is not healthy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HealthIssue {
    /// Description of the problem.
    pub message: String,
    /// Failure behind the problem, if there is one.
    pub failure: Option<Failure>,
}

impl HealthIssue {
    /// An issue described in words.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), failure: None }
    }
}

impl From<&str> for HealthIssue {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<String> for HealthIssue {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<Failure> for HealthIssue {
    fn from(failure: Failure) -> Self {
        Self { message: failure.to_string(), failure: Some(failure) }
    }
}

impl fmt::Display for HealthIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The health of a component and of all below it at one moment.
///
/// Its text is the tree, one component a line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HealthReport {
    /// Name of the component.
    pub name: Arc<str>,
    /// Its status; a monitor's is the worst of its children's.
    pub status: HealthStatus,
    /// Problem of the component itself; a monitor's issues are its children's.
    pub issue: Option<Arc<HealthIssue>>,
    /// The components of a monitor, by name.
    pub children: Vec<HealthReport>,
}

impl HealthReport {
    pub(crate) fn leaf(
        name: Arc<str>,
        status: HealthStatus,
        issue: Option<Arc<HealthIssue>>,
    ) -> Self {
        Self { name, status, issue, children: Vec::new() }
    }

    /// Whether the status is [`HealthStatus::Healthy`].
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.status == HealthStatus::Healthy
    }

    /// The path from this component down to the cause of its status: at each level the worst child,
    /// the first by name among equals. Empty if it is healthy.
    #[must_use]
    pub fn cause(&self) -> Vec<&HealthReport> {
        let mut way = Vec::new();
        let mut next = (!self.is_healthy()).then_some(self);
        while let Some(report) = next {
            way.push(report);
            next = report.children.iter().find(|child| child.status == report.status);
        }
        way
    }

    /// The issue at the end of [`HealthReport::cause`].
    #[must_use]
    pub fn root_issue(&self) -> Option<&Arc<HealthIssue>> {
        self.cause().last().and_then(|report| report.issue.as_ref())
    }

    /// A component below this one, by the names on the way.
    #[must_use]
    pub fn find(&self, path: &[&str]) -> Option<&HealthReport> {
        path.iter().try_fold(self, |report, name| {
            report.children.iter().find(|child| &*child.name == *name)
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let Self { name, status, .. } = self;
        write!(f, "{:indent$}{name}: {status}", "", indent = 2 * depth)?;
        if let Some(issue) = &self.issue {
            write!(f, " ({issue})")?;
        }
        self.children.iter().try_for_each(|child| {
            writeln!(f)?;
            child.write(f, depth + 1)
        })
    }
}

impl fmt::Display for HealthReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}
