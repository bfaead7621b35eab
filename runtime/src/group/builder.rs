//! Description of a group before it starts.

use std::time::Duration;

use super::shared::Config;
use super::{Group, GroupShared};
use crate::failure::Failure;
use crate::limits::{
    GROUP_MAILBOX_BYTES_DEFAULT, LONG_TURN, MAILBOX_JOBS_MAX, SPIN_NS_LATENCY, SPIN_NS_POWER,
    STACK_BYTES_DEFAULT, TURN_JOBS_MAX, TURN_TIME_MAX, WORKERS_MAX,
};
use crate::sync::Arc;
use crate::task::{AnyTask, Mailbox};
use crate::time::clock::{as_ns, Clock, ClockSource};
use crate::worker::{self, HostedWorker, Pinning};

/// Limits of one turn of a task; after them the task goes behind all queued tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub(crate) jobs: u32,
    pub(crate) time_ns: u64,
}

impl Budget {
    /// At most `jobs` jobs and about `time`; both are raised to at least one job.
    pub fn new(jobs: u32, time: Duration) -> Self {
        Self { jobs: jobs.max(1), time_ns: as_ns(time) }
    }
}

default_value!(Budget => Self::new(TURN_JOBS_MAX, TURN_TIME_MAX));

/// Behaviour of a worker without work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdlePolicy {
    /// Spins 50 µs before it parks: work that arrives soon starts without a wake-up.
    LatencyFirst,
    /// Parks at once.
    PowerFirst,
    /// Spins this long before it parks, at most a second.
    Spin(Duration),
}

impl IdlePolicy {
    pub(crate) fn spin_ns(self) -> u64 {
        match self {
            Self::LatencyFirst => SPIN_NS_LATENCY,
            Self::PowerFirst => SPIN_NS_POWER,
            Self::Spin(time) => time.min(Duration::from_secs(1)).as_nanos() as u64,
        }
    }
}

/// Why a group was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum BuildError {
    /// A group needs a worker to run anything.
    #[error("group «{group}»: zero workers; give at least one, or leave the count out")]
    NoWorkers { group: String },
    /// More workers than the limit.
    #[error("group «{group}»: {workers} workers, but at most {WORKERS_MAX} are possible")]
    TooManyWorkers { group: String, workers: usize },
    /// An empty name, or one with a NUL or line break in it.
    #[error("group name {group:?}: a name must not be empty or hold control characters")]
    BadName { group: String },
    /// The stack cannot hold a worker.
    #[error("group «{group}»: a stack of {bytes} bytes; at least {least} are needed")]
    StackTooSmall { group: String, bytes: usize, least: usize },
    /// A mailbox that can hold nothing.
    #[error("group «{group}»: a mailbox for zero jobs would refuse everything")]
    NoMailbox { group: String },
    /// A mailbox bound that the state word of a task cannot count.
    #[error(
        "group «{group}»: a mailbox for {jobs} jobs; bound it to at most {MAILBOX_JOBS_MAX}, or \
         make it unbounded"
    )]
    MailboxTooLarge { group: String, jobs: u64 },
    /// The list of cores is empty.
    #[error("group «{group}»: the list of cores to pin to is empty")]
    NoCores { group: String },
    /// Two groups of one runtime may not share a name.
    #[error("group «{group}» exists already in this runtime")]
    DuplicateName { group: String },
    /// The runtime to which the group was to be added has been shut down.
    #[error("group «{group}»: its runtime has been shut down")]
    Closed { group: String },
    /// Without unwinding a panic cannot be kept inside its task.
    #[error(
        "group «{group}»: this program is built with panic = \"abort\"; isolation of tasks \
             needs panic = \"unwind\""
    )]
    NoUnwind { group: String },
    /// The system refused a thread.
    #[error("group «{group}»: worker {worker} could not be started: {source}")]
    Thread { group: String, worker: usize, source: std::io::Error },
}

/// The least stack of a worker, in bytes.
const STACK_BYTES_MIN: usize = 64 << 10;

/// Describes a group; every value has a default but the name.
#[doc(alias = "ActorThreadGroup")]
#[must_use = "a group is made by `build`"]
pub struct GroupBuilder {
    config: Config,
    clock: ClockSource,
    workers: Option<usize>,
}

debug_fields!(impl GroupBuilder, self => name: self.config.name);

impl GroupBuilder {
    pub(crate) fn new(name: &str) -> Self {
        let config = Config {
            name: name.to_owned(),
            workers: 0,
            pinning: Pinning::EachToACore,
            stack_bytes: STACK_BYTES_DEFAULT,
            budget: Budget::default(),
            spin_ns: IdlePolicy::LatencyFirst.spin_ns(),
            mailbox: Mailbox::default(),
            memory_bytes: GROUP_MAILBOX_BYTES_DEFAULT,
            is_stealing: true,
            is_hosted: false,
            long_turn: LONG_TURN,
            on_start: None,
            on_stop: None,
            on_escalate: None,
            on_long_turn: None,
            #[cfg(feature = "tokio")]
            tokio: None,
        };
        Self { config, clock: ClockSource::system(), workers: None }
    }

    setters! {
        /// Number of workers; by default the number that cpuset and control-group quota allow.
        workers(self, count: usize) => self.workers = Some(count);

        /// Cores of the workers; by default each worker is pinned to a core if there are enough
        /// cores. A pin refused by the system is a warning, no error.
        pinning(self, pinning: Pinning) => self.config.pinning = pinning;

        /// Stack of each worker in bytes, by default 2 MiB.
        stack_bytes(self, bytes: usize) => self.config.stack_bytes = bytes;

        /// Runs on each worker's thread before its first task; gets the worker's number.
        on_worker_start(self, hook: impl Fn(usize) + Send + Sync + 'static) =>
            self.config.on_start = Some(Arc::new(hook));

        /// Runs on each worker's thread after its last task; gets the worker's number.
        on_worker_stop(self, hook: impl Fn(usize) + Send + Sync + 'static) =>
            self.config.on_stop = Some(Arc::new(hook));

        /// Sets a hook for failures that a task's policy hook escalates.
        on_escalate(self, hook: impl Fn(&AnyTask, &Failure) + Send + Sync + 'static) =>
            self.config.on_escalate = Some(Arc::new(hook));
    }

    /// Sets a hook that is called while a turn holds a worker longer than `limit`, with the task
    /// and the time so far. By default a warning is logged after 500 ms.
    pub fn on_long_turn(
        mut self,
        limit: Duration,
        hook: impl Fn(&AnyTask, Duration) + Send + Sync + 'static,
    ) -> Self {
        self.config.long_turn = limit;
        self.config.on_long_turn = Some(Arc::new(hook));
        self
    }

    setters! {
        /// Sets the behaviour of a worker without work; by default latency first.
        idle(self, policy: IdlePolicy) => self.config.spin_ns = policy.spin_ns();

        /// Another clock than the system's.
        clock(self, clock: Arc<dyn Clock>) => self.clock = ClockSource::custom(clock);

        /// Limits of one turn, unless a task has a budget of its own.
        budget(self, budget: Budget) => self.config.budget = budget;

        /// Mailbox of tasks that are spawned without one of their own.
        mailbox(self, mailbox: Mailbox) => self.config.mailbox = mailbox;

        /// Bytes that all mailboxes together may hold, to within 32 KiB a worker; by default 2 GiB.
        memory_budget(self, bytes: u64) => self.config.memory_bytes = bytes;

        /// Makes each worker keep its own tasks: for measurements.
        without_stealing(self) => self.config.is_stealing = false;
    }

    /// Makes a tokio runtime's I/O and timers usable from futures of the group's tasks.
    #[cfg(feature = "tokio")]
    pub fn tokio(mut self, handle: tokio::runtime::Handle) -> Self {
        self.config.tokio = Some(handle);
        self
    }

    /// Starts the group: threads named `<group>-<n>`.
    ///
    /// # Errors
    ///
    /// Each impossible value has a [`BuildError`] that names it; so has a refused thread.
    pub fn build(self) -> Result<Group, BuildError> {
        let (config, clock) = self.checked()?;
        let (shared, queues) = GroupShared::new(config, clock, None);
        Group::start(shared, queues)
    }

    /// Makes a group whose workers are futures, for the threads of an executor such as tokio's.
    ///
    /// For services whose callers are tasks of that executor: a question and its answer then stay
    /// on one thread, where threads of the group's own would compete for the same processors. Not
    /// for long computations, which keep the executor's thread from its other tasks.
    ///
    /// A poll runs at most [`HOSTED_TURNS_MAX`](crate::limits::HOSTED_TURNS_MAX) turns or about
    /// [`HOSTED_POLL_NS`](crate::limits::HOSTED_POLL_NS). A thread of the group, which sleeps while
    /// all workers do, wakes them for timers. Pinning does not apply.
    ///
    /// A thread of the executor whose task waits for an answer of the group, as of
    /// [`Task::call`](crate::Task::call), runs turns meanwhile, inside the poll of that answer: a
    /// question needs no switch of tasks. It runs the turn that gives the answer and a few others,
    /// and leaves one answer in so many to the executor, for the other tasks of the thread. Hold no
    /// lock over such a poll that a job takes too: the job would wait for it for ever.
    ///
    /// Accepted jobs do not depend on the executor: a worker that is dropped goes on on a thread of
    /// its own, and so do all workers when [`Group::shutdown`] begins. A thread of the executor
    /// that blocks outside of a job delays the workers that wait for that thread.
    ///
    /// ```
    /// use turnwheel_runtime::Group;
    ///
    /// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    /// let (group, workers) = Group::builder("service").workers(1).build_hosted()?;
    /// for worker in workers {
    ///     // Futures of the tasks share no budget of tokio's.
    ///     runtime.spawn(tokio::task::unconstrained(worker));
    /// }
    /// let counter = group.spawn(0_u64)?;
    /// let asker = runtime.spawn(counter.call(|count, _| {
    ///     *count += 1;
    ///     *count
    /// }));
    /// assert_eq!(runtime.block_on(asker)??, 1);
    /// group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`GroupBuilder::build`].
    pub fn build_hosted(self) -> Result<(Group, Vec<HostedWorker>), BuildError> {
        let (mut config, clock) = self.checked()?;
        (config.is_hosted, config.pinning) = (true, Pinning::None);
        let (shared, queues) = GroupShared::new(config, clock, None);
        let host = |(index, queue)| HostedWorker::new(&shared, index, queue);
        let workers = queues.into_iter().enumerate().map(host).collect();
        Ok((Group::start(shared, Vec::new())?, workers))
    }

    /// The description, checked.
    pub(crate) fn checked(mut self) -> Result<(Config, ClockSource), BuildError> {
        let group = self.config.name.clone();
        if group.is_empty() || group.chars().any(char::is_control) {
            return Err(BuildError::BadName { group });
        }
        let workers = self.workers.unwrap_or_else(|| worker::usable_workers().min(WORKERS_MAX));
        if workers == 0 {
            return Err(BuildError::NoWorkers { group });
        }
        if workers > WORKERS_MAX {
            return Err(BuildError::TooManyWorkers { group, workers });
        }
        let bytes = self.config.stack_bytes;
        if bytes < STACK_BYTES_MIN {
            return Err(BuildError::StackTooSmall { group, bytes, least: STACK_BYTES_MIN });
        }
        if self.config.mailbox.capacity == 0 {
            return Err(BuildError::NoMailbox { group });
        }
        if self.config.mailbox.is_too_large() {
            let jobs = self.config.mailbox.capacity;
            return Err(BuildError::MailboxTooLarge { group, jobs });
        }
        if self.config.pinning == Pinning::Cores(Vec::new()) {
            return Err(BuildError::NoCores { group });
        }
        if cfg!(panic = "abort") {
            return Err(BuildError::NoUnwind { group });
        }
        self.config.workers = workers;
        Ok((self.config, self.clock))
    }

    /// The number of workers unless one was given: for simulations, the same on every machine.
    pub(crate) fn workers_default(mut self, count: usize) -> Self {
        self.workers.get_or_insert(count);
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }
}
