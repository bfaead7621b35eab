//! An inner node of the tree: as healthy as the worst of its children.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Condition, ConditionMode, Context, Failure, Group, Task, TimerError};

use super::{HealthComponent, HealthIssue, HealthReport, HealthStatus};
use crate::limits::{HEALTH_DEPTH_MAX, HEALTH_FIRST_CHECK, HEALTH_INTERVAL_DEFAULT};

/// Watches components and other monitors. Clones are the same monitor; it ends with the last one.
///
/// It begins unhealthy, until something is registered; a name that is expected counts as unhealthy
/// until something of that name is registered. Reports are read from any thread; listeners and
/// probes run on a task of the monitor's own.
///
/// # Example
///
/// ```
/// use turnwheel_extras::health::{HealthComponent, HealthMonitor, HealthStatus};
/// use turnwheel_runtime::Group;
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let broker = HealthMonitor::start(&group, "broker")?;
/// broker.expect("disk");
/// assert_eq!(broker.status(), HealthStatus::Unhealthy);
/// let disk = HealthComponent::healthy("disk");
/// broker.register(&disk)?;
/// assert_eq!(broker.status(), HealthStatus::Healthy);
/// disk.die("the head has crashed");
/// let report = broker.report();
/// assert_eq!(report.status, HealthStatus::Dead);
/// let issue = report.root_issue().expect("the disk is dead");
/// assert_eq!(issue.message, "the head has crashed");
/// assert_eq!(report.to_string(), "broker: dead\n  disk: dead (the head has crashed)");
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[doc(alias = "CriticalComponentsHealthMonitor")]
pub struct HealthMonitor {
    shared: Arc<Shared>,
    /// Ends the task with the last handle.
    ends: Arc<Ends>,
}

/// State of a monitor that components and parents read.
pub(super) struct Shared {
    name: Arc<str>,
    children: Mutex<Children>,
    parents: Mutex<Vec<Weak<Shared>>>,
    /// Signalled when a component has changed; there once the task runs.
    changed: OnceLock<Condition>,
    next_listener: AtomicU64,
}

#[derive(Clone, Default)]
struct Children {
    /// By name; `None` for an expected source that is not registered yet.
    list: BTreeMap<Arc<str>, Option<HealthSource>>,
    /// Whether anything was ever registered.
    has_begun: bool,
}

struct Ends(Task<Watch>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.close().detach();
    }
}

/// State of the monitor's task.
struct Watch {
    shared: Weak<Shared>,
    /// The status that was logged last.
    logged: HealthStatus,
    listeners: BTreeMap<u64, Listener>,
    probes: BTreeMap<Arc<str>, (HealthComponent, Probe)>,
}

/// The callback and the last status that it received.
struct Listener {
    knows: HealthStatus,
    /// Its handle is gone.
    is_over: Arc<AtomicBool>,
    tell: Box<dyn FnMut(&HealthReport) + Send>,
}

type Probe = Box<dyn FnMut() -> Result<(), Failure> + Send>;

/// Something that a monitor can watch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HealthSource {
    /// A component.
    Component(HealthComponent),
    /// A monitor, with its whole tree.
    Monitor(HealthMonitor),
}

impl From<&HealthComponent> for HealthSource {
    fn from(component: &HealthComponent) -> Self {
        Self::Component(component.clone())
    }
}

impl From<&HealthMonitor> for HealthSource {
    fn from(monitor: &HealthMonitor) -> Self {
        Self::Monitor(monitor.clone())
    }
}

/// Why something was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HealthError {
    /// A monitor would watch itself, by a detour or not.
    #[error("monitor «{0}» is above «{1}» already: a tree has no cycles")]
    Cycle(Arc<str>, Arc<str>),
}

/// Handle of a listener; dropping it ends the calls.
#[must_use = "the listener is told until this is dropped"]
pub struct Listening {
    task: Task<Watch>,
    number: u64,
    is_over: Arc<AtomicBool>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let number = self.number;
        self.is_over.store(true, Ordering::Release);
        // Refused only by a monitor that is over, which calls no listener.
        let _ = self.task.run(move |watch, _| {
            watch.listeners.remove(&number);
        });
    }
}

impl fmt::Debug for HealthMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthMonitor").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl HealthMonitor {
    /// Starts a monitor whose task lives in `group` and looks at its probes every minute.
    ///
    /// # Errors
    ///
    /// The group has been shut down.
    pub fn start(group: &Group, name: &str) -> Result<Self, Failure> {
        Self::start_with_interval(group, name, HEALTH_INTERVAL_DEFAULT)
    }

    /// As [`HealthMonitor::start`] with another time between two checks. The first check is early:
    /// after a fifth of that time, but not before 5 s (or `interval`, if that is shorter).
    ///
    /// # Errors
    ///
    /// As [`HealthMonitor::start`].
    pub fn start_with_interval(
        group: &Group,
        name: &str,
        interval: Duration,
    ) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            name: name.into(),
            children: Mutex::new(Children::default()),
            parents: Mutex::new(Vec::new()),
            changed: OnceLock::new(),
            next_listener: AtomicU64::new(0),
        });
        let watch = Watch {
            shared: Arc::downgrade(&shared),
            logged: HealthStatus::Unhealthy,
            listeners: BTreeMap::new(),
            probes: BTreeMap::new(),
        };
        let task = group.task(watch).name(name).class("HealthMonitor").spawn()?;
        task.submit(move |watch, cx| watch.begin(cx, interval))?;
        Ok(Self { shared, ends: Arc::new(Ends(task)) })
    }

    /// Its name in the tree.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Counts something of this name as unhealthy until it is registered.
    pub fn expect(&self, name: &str) {
        self.shared.children.lock().list.entry(name.into()).or_insert(None);
        self.shared.changed();
    }

    /// Watches a component or another monitor; replaces the source with the same name.
    ///
    /// # Errors
    ///
    /// The monitor is this one or contains this one.
    pub fn register(&self, source: impl Into<HealthSource>) -> Result<(), HealthError> {
        let source = source.into();
        if let HealthSource::Monitor(monitor) = &source {
            if monitor.shared.is_above(&self.shared, 0) {
                let (above, below) = (&monitor.shared.name, &self.shared.name);
                return Err(HealthError::Cycle(Arc::clone(above), Arc::clone(below)));
            }
        }
        self.put(source.name().into(), source);
        Ok(())
    }

    fn put(&self, name: Arc<str>, source: HealthSource) {
        source.attach(&self.shared);
        let before = {
            let mut children = self.shared.children.lock();
            children.has_begun = true;
            children.list.insert(name, Some(source))
        };
        if let Some(Some(before)) = before {
            before.detach(&self.shared);
        }
        self.shared.changed();
    }

    /// Watches by asking: `probe` runs on the monitor's task soon and then at each check. It must
    /// not block. A failure or a panic makes it unhealthy until it succeeds.
    ///
    /// # Errors
    ///
    /// The monitor is over.
    pub fn probe(
        &self,
        name: &str,
        probe: impl FnMut() -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let component = HealthComponent::starting(name);
        let name: Arc<str> = name.into();
        self.put(Arc::clone(&name), HealthSource::Component(component.clone()));
        self.ends.0.submit(move |watch, _| {
            let mut probe: Probe = Box::new(probe);
            ask(&component, &mut probe);
            watch.probes.insert(name, (component, probe));
        })?;
        Ok(())
    }

    /// Removes the source with this name; the status follows at once. Returns whether there was
    /// one.
    pub fn remove(&self, name: &str) -> bool {
        let removed = self.shared.children.lock().list.remove(name);
        let is_known = removed.is_some();
        if let Some(Some(source)) = removed {
            source.detach(&self.shared);
        }
        let name: Arc<str> = name.into();
        // Refused only by a monitor that is over, which runs no probe.
        let _ = self.ends.0.submit(move |watch, _| {
            watch.probes.remove(&name);
        });
        self.shared.changed();
        is_known
    }

    /// The entire tree as it is now, from any thread. Cost: one short lock for each component.
    #[must_use]
    pub fn report(&self) -> HealthReport {
        self.shared.report(0)
    }

    /// The worst status of the children now; healthy when the last one was removed.
    #[must_use]
    pub fn status(&self) -> HealthStatus {
        self.report().status
    }

    /// Calls `listener` on the monitor's task each time the status differs from the last one that
    /// it received, at first the status at the time of this call: unhealthy for a failure, healthy
    /// for a recovery, dead for the end. A change that is undone before the task has looked is not
    /// reported.
    ///
    /// A panic of the listener is logged, and it is called again the next time.
    ///
    /// # Errors
    ///
    /// The monitor is over.
    pub fn listen(
        &self,
        listener: impl FnMut(&HealthReport) + Send + 'static,
    ) -> Result<Listening, Failure> {
        // Relaxed: only the numbers must differ.
        let number = self.shared.next_listener.fetch_add(1, Ordering::Relaxed);
        let task = self.ends.0.clone();
        let is_over = Arc::new(AtomicBool::new(false));
        let listener = Listener {
            knows: self.status(),
            is_over: Arc::clone(&is_over),
            tell: Box::new(listener),
        };
        task.submit(move |watch, _| {
            watch.listeners.insert(number, listener);
            watch.look();
        })?;
        Ok(Listening { task, number, is_over })
    }
}

impl HealthSource {
    fn name(&self) -> &str {
        match self {
            Self::Component(component) => component.name(),
            Self::Monitor(monitor) => monitor.name(),
        }
    }

    fn report(&self, depth: u32) -> HealthReport {
        match self {
            Self::Component(component) => component.report(),
            Self::Monitor(monitor) => monitor.shared.report(depth),
        }
    }

    fn attach(&self, parent: &Arc<Shared>) {
        match self {
            Self::Component(component) => component.attach(parent),
            Self::Monitor(monitor) => {
                let mut parents = monitor.shared.parents.lock();
                parents.retain(|other| other.strong_count() > 0);
                parents.push(Arc::downgrade(parent));
            }
        }
    }

    fn detach(&self, parent: &Shared) {
        match self {
            Self::Component(component) => component.detach(parent),
            Self::Monitor(monitor) => {
                let mut parents = monitor.shared.parents.lock();
                let is_it = |other: &Weak<Shared>| std::ptr::eq(other.as_ptr(), parent);
                if let Some(index) = parents.iter().position(is_it) {
                    parents.swap_remove(index);
                }
            }
        }
    }
}

impl Shared {
    /// Something below has changed: this monitor and all above it look again.
    pub(super) fn changed(&self) {
        self.tell(0);
    }

    fn tell(&self, depth: u32) {
        if let Some(condition) = self.changed.get() {
            condition.signal();
        }
        // Without the condition the task has not started, and its first look is still ahead.
        if depth < HEALTH_DEPTH_MAX {
            let parents = self.parents.lock().clone();
            for parent in parents.iter().filter_map(Weak::upgrade) {
                parent.tell(depth + 1);
            }
        }
    }

    fn report(&self, depth: u32) -> HealthReport {
        let name = Arc::clone(&self.name);
        if depth >= HEALTH_DEPTH_MAX {
            let issue = Arc::new(HealthIssue::new("nested too deep to be looked at"));
            return HealthReport::leaf(name, HealthStatus::Unhealthy, Some(issue));
        }
        let Children { list, has_begun } = self.children.lock().clone();
        if list.is_empty() && !has_begun {
            let issue = Arc::new(HealthIssue::new("nothing is registered yet"));
            return HealthReport::leaf(name, HealthStatus::Unhealthy, Some(issue));
        }
        let report = |(name, source): (Arc<str>, Option<HealthSource>)| match source {
            Some(source) => source.report(depth + 1),
            None => {
                let issue = Arc::new(HealthIssue::new("expected, but not registered yet"));
                HealthReport::leaf(name, HealthStatus::Unhealthy, Some(issue))
            }
        };
        let children: Vec<_> = list.into_iter().map(report).collect();
        let worst = children.iter().map(|child| child.status).max();
        let status = worst.unwrap_or(HealthStatus::Healthy);
        HealthReport { name, status, issue: None, children }
    }

    /// Whether `other` is this monitor or below it.
    fn is_above(&self, other: &Shared, depth: u32) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        let children = self.children.lock().clone();
        depth < HEALTH_DEPTH_MAX
            && children.list.values().flatten().any(|source| match source {
                HealthSource::Component(_) => false,
                HealthSource::Monitor(monitor) => monitor.shared.is_above(other, depth + 1),
            })
    }
}

impl Watch {
    /// The first job: from now on the task checks on signals and at each interval.
    fn begin(&mut self, cx: &mut Context<'_, Self>, interval: Duration) {
        let Some(shared) = self.shared.upgrade() else { return };
        let condition = cx.condition(ConditionMode::Coalescing, |watch: &mut Self, _| watch.look());
        // Only this job sets it.
        let _ = shared.changed.set(condition);
        self.look();
        let first = (interval / 5).max(HEALTH_FIRST_CHECK).min(interval);
        let armed = cx.after(first, move |watch, cx| {
            watch.check();
            let again = cx.every_after(interval, |watch: &mut Self, _| watch.check());
            warn_without_timer(again.err());
        });
        warn_without_timer(armed.err().map(TimerError::from));
    }

    /// Runs the probes and checks whether the status has changed.
    fn check(&mut self) {
        for (component, probe) in self.probes.values_mut() {
            ask(component, probe);
        }
        self.look();
    }

    /// Calls the listeners whose last status differs.
    fn look(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let report = shared.report(0);
        let monitor = &*report.name;
        if std::mem::replace(&mut self.logged, report.status) != report.status {
            match report.status {
                HealthStatus::Healthy => tracing::info!(monitor, "healthy again"),
                status => tracing::warn!(monitor, %status, "health has changed:\n{report}"),
            }
        }
        let is_live = |listener: &&mut Listener| !listener.is_over.load(Ordering::Acquire);
        for listener in self.listeners.values_mut().filter(is_live) {
            if std::mem::replace(&mut listener.knows, report.status) == report.status {
                continue;
            }
            let tell = AssertUnwindSafe(|| (listener.tell)(&report));
            if let Err(panic) = catch_unwind(tell) {
                let failure = Failure::from_panic(panic);
                tracing::error!(%failure, "a health listener panicked");
            }
        }
    }
}

/// Runs a probe and stores its result.
fn ask(component: &HealthComponent, probe: &mut Probe) {
    let answer = catch_unwind(AssertUnwindSafe(probe));
    match answer.unwrap_or_else(|panic| Err(Failure::from_panic(panic))) {
        Ok(()) => component.recover(),
        Err(failure) => component.fail(failure),
    };
}

fn warn_without_timer(error: Option<TimerError>) {
    if let Some(error) = error {
        tracing::warn!(%error, "health is looked at only when a component reports");
    }
}
