//! Several groups of one process under one roof: a CPU group, an IO group, the user's own.
//!
//! A layer on the public API of [`Group`]. Invariant: no two groups of a runtime share a name, and
//! its shutdown reaches every group that it has made.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use turnwheel_runtime::completion::{completion, Completion};
use turnwheel_runtime::limits::SHUTDOWN_DEADLINE;
use turnwheel_runtime::time::{Clock, SystemClock};
use turnwheel_runtime::{
    BuildError, Failure, Group, GroupBuilder, IdlePolicy, Pinning, ShutdownError, ShutdownReport,
    SpawnError, Task,
};

use crate::limits::IO_WORKERS_DEFAULT;
use crate::OffsetClock;

/// Name of the group for work that computes.
const CPU: &str = "cpu";
/// Name of the group for work that talks to devices and networks in short, frequent jobs.
const IO: &str = "io";

/// A user's settings of a group; kept, so that a derived runtime uses the same ones.
type Configure = Arc<dyn Fn(GroupBuilder) -> GroupBuilder + Send + Sync>;

/// The groups of a process: `cpu` and `io`, further ones by name, and a pool for blocking work.
///
/// Clones share it. It runs until [`Runtime::shutdown`]; dropping it ends nothing.
///
/// Memory and threads: those of its groups, nothing else.
///
/// # Example
///
/// ```
/// use turnwheel_extras::Runtime;
///
/// let runtime = Runtime::builder().cpu(|group| group.workers(1)).build()?;
/// let counter = runtime.spawn(0_u64)?;
/// let feed = runtime.io().spawn(counter.clone())?;
/// feed.submit(|counter, _| drop(counter.submit(|count, _| *count += 1)))?;
/// feed.close().wait()?;
/// assert_eq!(counter.call(|count, _| *count).wait()?, 1);
/// assert!(runtime.shutdown()?.is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[doc(alias = "ActorScheduler")]
pub struct Runtime {
    shared: Arc<Shared>,
}

struct Shared {
    plan: Plan,
    groups: Mutex<Groups>,
    cpu: Group,
    io: Group,
}

struct Groups {
    /// In the order in which they were made; without the prefix.
    list: Vec<(String, Group)>,
    is_closed: bool,
}

/// Everything that a derived runtime takes over.
#[derive(Clone)]
struct Plan {
    prefix: String,
    clock: Option<Arc<dyn Clock>>,
    controlled: Option<OffsetClock>,
    cpu: Configure,
    io: Configure,
    /// Further groups that were described before the start.
    further: Vec<(String, Configure)>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names();
        f.debug_struct("Runtime").field("groups", &names).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Describes a runtime; every value has a default.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder {
            plan: Plan {
                prefix: String::new(),
                clock: None,
                controlled: None,
                cpu: Arc::new(|group| group),
                io: Arc::new(|group| group),
                further: Vec::new(),
            },
        }
    }

    /// Describes a runtime like this one: same clock, same description of its groups, but threads,
    /// tasks and end of its own. `prefix` replaces the prefix of group and thread names.
    ///
    /// Groups made later with [`Runtime::add_group`] are not repeated.
    ///
    /// # Example
    ///
    /// ```
    /// use turnwheel_extras::Runtime;
    ///
    /// let runtime = Runtime::builder().cpu(|group| group.workers(1)).build()?;
    /// let tests = runtime.derive("tests-").build()?;
    /// assert_eq!(tests.cpu().name(), "tests-cpu");
    /// runtime.shutdown()?;
    /// assert_eq!(tests.spawn(7)?.call(|seven, _| *seven).wait()?, 7);
    /// tests.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn derive(&self, prefix: &str) -> RuntimeBuilder {
        let mut plan = self.shared.plan.clone();
        prefix.clone_into(&mut plan.prefix);
        RuntimeBuilder { plan }
    }

    /// The group for work that computes: as many pinned workers as the process may use cores.
    #[must_use]
    pub fn cpu(&self) -> &Group {
        &self.shared.cpu
    }

    /// The group for short jobs around devices and networks: never pinned, sleeps when idle.
    #[must_use]
    pub fn io(&self) -> &Group {
        &self.shared.io
    }

    /// A group by its name without the prefix; `cpu` and `io` too.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<Group> {
        let groups = self.shared.groups.lock();
        let found = groups.list.iter().find(|(own, _)| own == name);
        found.map(|(_, group)| group.clone())
    }

    /// The names of all groups without the prefix, in the order in which they were made.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let groups = self.shared.groups.lock();
        groups.list.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Starts a further group.
    ///
    /// # Errors
    ///
    /// [`BuildError::DuplicateName`] if the name is in use, [`BuildError::Closed`] after the
    /// shutdown, or the error in the description.
    pub fn add_group(
        &self,
        name: &str,
        configure: impl FnOnce(GroupBuilder) -> GroupBuilder,
    ) -> Result<Group, BuildError> {
        let mut groups = self.shared.groups.lock();
        let full = format!("{}{name}", self.shared.plan.prefix);
        if groups.is_closed {
            return Err(BuildError::Closed { group: full });
        }
        if groups.list.iter().any(|(own, _)| own == name) {
            return Err(BuildError::DuplicateName { group: name.to_owned() });
        }
        let group = configure(self.shared.plan.group(name)).build()?;
        groups.list.push((name.to_owned(), group.clone()));
        Ok(group)
    }

    /// Spawns a task in the CPU group; see [`Group::spawn`].
    ///
    /// # Errors
    ///
    /// After the shutdown; the state comes back.
    pub fn spawn<S: Send + 'static>(&self, state: S) -> Result<Task<S>, SpawnError<S>> {
        self.cpu().spawn(state)
    }

    /// Runs a closure that may block on the elastic pool; see [`Group::run_blocking`].
    pub fn run_blocking<T, F>(&self, block: F, limit: Option<Duration>) -> Completion<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.io().run_blocking(block, limit)
    }

    /// The clock that can be moved at run time, if the runtime was built with one.
    #[must_use]
    pub fn controlled_clock(&self) -> Option<&OffsetClock> {
        self.shared.plan.controlled.as_ref()
    }

    /// Wall time on the runtime's clock.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        match &self.shared.plan.clock {
            Some(clock) => clock.wall(),
            None => SystemClock::new().wall(),
        }
    }

    /// Shuts down every group and reports the leftovers; waits at most 30 s for the tasks.
    ///
    /// Further groups end first, in reverse order of creation, then `cpu`, then `io`: a closing
    /// task can still call tasks of older groups. Idempotent.
    ///
    /// Blocks the calling thread: in an async host use [`Runtime::shutdown_later`].
    ///
    /// # Errors
    ///
    /// On a worker of one of the groups, which would wait for itself.
    pub fn shutdown(&self) -> Result<RuntimeReport, ShutdownError> {
        self.shutdown_within(SHUTDOWN_DEADLINE)
    }

    /// As [`Runtime::shutdown`] with another deadline for all groups together.
    ///
    /// A group that is reached after the deadline closes its idle tasks and kills the rest.
    ///
    /// # Errors
    ///
    /// As [`Runtime::shutdown`].
    pub fn shutdown_within(&self, deadline: Duration) -> Result<RuntimeReport, ShutdownError> {
        let is_own = |(_, group): &(String, Group)| group.is_current();
        if self.shared.groups.lock().list.iter().any(is_own) {
            return Err(ShutdownError::OnWorker);
        }
        let groups = self.close();
        let started = SystemClock::new();
        let mut report = RuntimeReport { groups: Vec::new() };
        for (name, group) in groups {
            let spent = Duration::from_nanos(started.now_ns());
            let ended = group.shutdown_within(deadline.saturating_sub(spent))?;
            report.groups.push((name, ended));
        }
        Ok(report)
    }

    /// As [`Runtime::shutdown_within`] on a thread of its own: from workers and async hosts. The
    /// answer is a future for any executor.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use turnwheel_extras::Runtime;
    ///
    /// let runtime = Runtime::builder().cpu(|group| group.workers(1)).build()?;
    /// let report = runtime.shutdown_later(Duration::from_secs(5)); // or `.await`
    /// assert!(report.wait()?.is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_later(&self, deadline: Duration) -> Completion<RuntimeReport> {
        let (completer, report) = completion();
        let refused = completer.clone();
        let runtime = self.clone();
        let thread = std::thread::Builder::new()
            .name(format!("{}shutdown", self.shared.plan.prefix))
            .spawn(move || {
                // The receiver of the report may be gone.
                let _ = match runtime.shutdown_within(deadline) {
                    Ok(report) => completer.complete(report).map_err(drop),
                    Err(error) => completer.fail(Failure::error(error)).map_err(drop),
                };
            });
        if let Err(error) = thread {
            let _ = refused.fail(Failure::error(error));
        }
        report
    }

    /// No group is added any more. All groups in the order in which they end.
    fn close(&self) -> Vec<(String, Group)> {
        let mut groups = self.shared.groups.lock();
        groups.is_closed = true;
        // The first two are `cpu` and `io`.
        let (first, further) = groups.list.split_at(2);
        further.iter().rev().chain(first).cloned().collect()
    }
}

/// Describes a runtime; every value has a default.
#[must_use]
pub struct RuntimeBuilder {
    plan: Plan,
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("prefix", &self.plan.prefix).finish_non_exhaustive()
    }
}

impl RuntimeBuilder {
    /// Prefix of the name of each group, and so of each thread; by default empty.
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.plan.prefix);
        self
    }

    /// Changes the description of the CPU group. May be called again; the calls add up.
    pub fn cpu(
        mut self,
        configure: impl Fn(GroupBuilder) -> GroupBuilder + Send + Sync + 'static,
    ) -> Self {
        let before = self.plan.cpu;
        self.plan.cpu = Arc::new(move |group| configure(before(group)));
        self
    }

    /// Changes the description of the IO group, which has two unpinned workers that park at once.
    pub fn io(
        mut self,
        configure: impl Fn(GroupBuilder) -> GroupBuilder + Send + Sync + 'static,
    ) -> Self {
        let before = self.plan.io;
        self.plan.io = Arc::new(move |group| configure(before(group)));
        self
    }

    /// Adds a further group.
    pub fn group(
        mut self,
        name: &str,
        configure: impl Fn(GroupBuilder) -> GroupBuilder + Send + Sync + 'static,
    ) -> Self {
        self.plan.further.push((name.to_owned(), Arc::new(configure)));
        self
    }

    /// Another clock than the system's, for all groups.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.plan.clock = Some(clock);
        self.plan.controlled = None;
        self
    }

    /// A clock that follows the system's but can be read, pinned, moved and reset at run time:
    /// see [`Runtime::controlled_clock`]. Costs a virtual call and a short lock for each reading.
    pub fn controlled_clock(mut self) -> Self {
        let clock = OffsetClock::new();
        self.plan.clock = Some(Arc::new(clock.clone()));
        self.plan.controlled = Some(clock);
        self
    }

    /// Starts all groups. If one cannot be started, the ones started before it end again.
    ///
    /// # Errors
    ///
    /// [`BuildError::DuplicateName`] for two groups of one name (`cpu` and `io` are taken), or the
    /// error in the description of a group.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let plan = self.plan;
        let mut names = vec![CPU, IO];
        for (name, _) in &plan.further {
            if names.contains(&name.as_str()) {
                return Err(BuildError::DuplicateName { group: name.clone() });
            }
            names.push(name);
        }
        let mut made = Made(Vec::new());
        let cpu = made.add(CPU, (plan.cpu)(plan.group(CPU)))?;
        let io = plan.group(IO).workers(IO_WORKERS_DEFAULT).idle(IdlePolicy::PowerFirst);
        let io = made.add(IO, (plan.io)(io).pinning(Pinning::None))?;
        for (name, configure) in &plan.further {
            made.add(name, configure(plan.group(name)))?;
        }
        let list = std::mem::take(&mut made.0);
        let groups = Mutex::new(Groups { list, is_closed: false });
        Ok(Runtime { shared: Arc::new(Shared { plan, groups, cpu, io }) })
    }
}

impl Plan {
    fn group(&self, name: &str) -> GroupBuilder {
        let builder = Group::builder(&format!("{}{name}", self.prefix));
        match &self.clock {
            Some(clock) => builder.clock(Arc::clone(clock)),
            None => builder,
        }
    }
}

/// Groups started so far; ends them unless they are taken out.
struct Made(Vec<(String, Group)>);

impl Made {
    fn add(&mut self, name: &str, builder: GroupBuilder) -> Result<Group, BuildError> {
        let group = builder.build()?;
        self.0.push((name.to_owned(), group.clone()));
        Ok(group)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for (name, group) in &self.0 {
            // They have no tasks yet, so this is quick.
            if let Err(error) = group.shutdown() {
                tracing::error!(name, %error, "a group of a runtime that failed to start stays");
            }
        }
    }
}

/// Leftovers of the shutdown of a runtime, group by group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeReport {
    /// Name without the prefix and report of each group, in the order in which they ended.
    pub groups: Vec<(String, ShutdownReport)>,
}

impl RuntimeReport {
    /// Whether every task of every group closed in order.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.groups.iter().all(|(_, report)| report.is_clean())
    }
}
