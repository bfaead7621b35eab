//! What the open-loop measurements share: planned instants, spinning, floods, quantiles.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use turnwheel_runtime::{
    Context, Flow, Group, IdlePolicy, Mailbox, Pinning, SubmitError, SubmitErrorKind, Task,
};

use crate::error::BenchError;
use crate::report::percentile;

/// The last part of a wait is spun, since a sleeping thread wakes up late.
const SPUN: Duration = Duration::from_micros(150);
/// Messages that a flooding producer sends before it sends itself «go on».
const FLOOD_CHUNK: u64 = 1_000;
/// The bound of a flooded mailbox.
const FLOOD_BOUND: u64 = 4_096;

/// Starts a group for a measurement.
pub(crate) fn group(name: &str, workers: usize) -> Result<Group, BenchError> {
    build(name, Group::builder(name).workers(workers))
}

/// Starts a group of one worker on a core of its own, away from the measuring thread, which is put
/// on another: as `turnwheel doctor` measures the floor.
pub(crate) fn lone_worker(name: &str, idle: IdlePolicy) -> Result<Group, BenchError> {
    let builder = Group::builder(name).workers(1).idle(idle);
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let builder = match cores.as_slice() {
        [mine, theirs, ..] => {
            core_affinity::set_for_current(*mine);
            builder.pinning(Pinning::Cores(vec![theirs.id]))
        }
        _ => builder.pinning(Pinning::None),
    };
    build(name, builder)
}

fn build(name: &str, builder: turnwheel_runtime::GroupBuilder) -> Result<Group, BenchError> {
    builder.build().map_err(|error| BenchError::Start {
        what: format!("group {name}"),
        why: error.to_string(),
    })
}

/// Spawns a task with a mailbox that refuses nothing.
pub(crate) fn spawn<S: Send + 'static>(group: &Group, state: S) -> Result<Task<S>, BenchError> {
    group
        .task(state)
        .mailbox(Mailbox::unbounded())
        .spawn()
        .map_err(|error| BenchError::Start { what: "a task".to_owned(), why: error.to_string() })
}

/// Submits a job that must be taken.
pub(crate) fn submit<S, F>(task: &Task<S>, job: F) -> Result<(), BenchError>
where
    S: Send + 'static,
    F: FnOnce(&mut S, &mut Context<'_, S>) + Send + 'static,
{
    task.submit(job).map_err(|error| BenchError::Start {
        what: "a job".to_owned(),
        why: error.kind.to_string(),
    })
}

/// A message that must arrive. One that is refused makes the result wrong: an error exit at once,
/// instead of a run that never ends.
#[inline]
pub(crate) fn sent<J>(submitted: Result<(), SubmitError<J>>) {
    if let Err(error) = submitted {
        refused(&error);
    }
}

/// Set when a run has failed: what its actors still send is refused, and that is not the cause.
static HAS_GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// A run has failed with an error of its own.
pub(crate) fn give_up() {
    HAS_GIVEN_UP.store(true, Ordering::SeqCst);
}

/// Ends the process with the refusal of a message, unless its run has failed before.
#[cold]
pub(crate) fn refused(error: &dyn std::fmt::Display) {
    if HAS_GIVEN_UP.load(Ordering::SeqCst) {
        return;
    }
    eprintln!("turnwheel-bench: a message was refused: {error}");
    std::process::exit(1);
}

/// Waits for what a task has gathered.
pub(crate) fn fetch<S, T>(
    task: &Task<S>,
    take: impl FnOnce(&mut S) -> T + Send + 'static,
) -> Result<T, BenchError>
where
    S: Send + 'static,
    T: Send + 'static,
{
    task.call(move |state, _| take(state)).wait().map_err(|failure| BenchError::Start {
        what: "the result of a task".to_owned(),
        why: failure.to_string(),
    })
}

/// How a load generator waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Awake: it has a core of its own.
    Awake,
    /// Asleep but for the last stretch: it takes time from the workers.
    Asleep,
}

/// Waits until an instant.
pub(crate) fn wait_until(instant: Instant, wait: Wait) {
    let ahead = instant.saturating_duration_since(Instant::now());
    if wait == Wait::Asleep && ahead > SPUN {
        std::thread::sleep(ahead - SPUN);
    }
    while Instant::now() < instant {
        hint::spin_loop();
    }
}

/// Works for a time, as a job that computes.
pub(crate) fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        hint::spin_loop();
    }
}

/// What probes have seen: one latency for each planned instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    /// Microseconds from the planned instant to the start of the job.
    pub(crate) us: Vec<f64>,
}

impl Probe {
    /// Room for that many samples, so that recording allocates nothing.
    pub(crate) fn with_capacity(samples: usize) -> Self {
        Self { us: Vec::with_capacity(samples) }
    }

    /// A job planned for this instant starts now.
    pub(crate) fn record(&mut self, planned: Instant) {
        let late = Instant::now().saturating_duration_since(planned);
        self.us.push(late.as_nanos() as f64 / 1_000.0);
    }
}

/// Quantiles of latencies in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

impl Quantiles {
    /// Of a sample that must have the expected size: a lost job is a wrong result.
    pub(crate) fn of(case: &str, mut us: Vec<f64>, expected: usize) -> Result<Self, BenchError> {
        crate::error::check(format!("{case}: jobs run"), us.len(), expected)?;
        us.sort_by(f64::total_cmp);
        Ok(Self {
            p50: rounded(percentile(&us, 0.5)),
            p90: rounded(percentile(&us, 0.9)),
            p99: rounded(percentile(&us, 0.99)),
            p999: rounded(percentile(&us, 0.999)),
        })
    }
}

/// Microseconds to the nanosecond.
pub(crate) fn rounded(us: f64) -> f64 {
    (us * 1_000.0).round() / 1_000.0
}

/// A producer that keeps one bounded actor full until it is told to end.
#[derive(Debug)]
pub(crate) struct Flood {
    target: Task<u64>,
    is_over: bool,
}

impl Flood {
    /// Starts a flood.
    pub(crate) fn start(group: &Group) -> Result<Task<Self>, BenchError> {
        let target = group.task(0_u64).mailbox(Mailbox::bounded(FLOOD_BOUND)).spawn();
        let target = target.map_err(|error| BenchError::Start {
            what: "a flooded task".to_owned(),
            why: error.to_string(),
        })?;
        let flood = spawn(group, Self { target, is_over: false })?;
        submit(&flood, Self::go_on)?;
        Ok(flood)
    }

    /// Ends it.
    pub(crate) fn end(flood: &Task<Self>) -> Result<(), BenchError> {
        submit(flood, |flood, _| flood.is_over = true)
    }

    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..FLOOD_CHUNK {
            match self.target.submit(|count, _| *count += 1) {
                Ok(()) => {}
                Err(error) if error.kind == SubmitErrorKind::Full => break,
                Err(_) => return,
            }
        }
        if !self.is_over {
            // A group that shuts down takes no more, and the flood ends.
            let _ = cx.submit(Self::go_on);
        }
    }
}

/// A task that is always ready, with jobs of a given length, until it is told to end.
#[derive(Debug)]
pub(crate) struct AlwaysReady {
    length: Duration,
}

impl AlwaysReady {
    /// Starts it.
    pub(crate) fn start(group: &Group, length: Duration) -> Result<Task<Self>, BenchError> {
        let task = spawn(group, Self { length })?;
        let job = |this: &mut Self, _: &mut Context<'_, Self>| {
            compute(this.length);
            Flow::Again
        };
        task.submit_again(job).map_err(|error| BenchError::Start {
            what: "an endless job".to_owned(),
            why: error.kind.to_string(),
        })?;
        Ok(task)
    }
}

/// An actor whose mailbox is always full: each job puts itself back.
#[derive(Debug)]
pub(crate) struct AlwaysFull {
    me: Option<Task<AlwaysFull>>,
    length: Duration,
}

impl AlwaysFull {
    /// Starts it with that many jobs of a given length.
    pub(crate) fn start(
        group: &Group,
        jobs: u64,
        length: Duration,
    ) -> Result<Task<Self>, BenchError> {
        let task = spawn(group, Self { me: None, length })?;
        let me = task.clone();
        submit(&task, move |full, _| full.me = Some(me))?;
        for _ in 0..jobs {
            submit(&task, Self::work)?;
        }
        Ok(task)
    }

    /// Ends it: what is queued runs once more.
    pub(crate) fn end(task: &Task<Self>) -> Result<(), BenchError> {
        submit(task, |full, _| full.me = None)
    }

    fn work(&mut self, _: &mut Context<'_, Self>) {
        compute(self.length);
        if let Some(me) = &self.me {
            // Not `cx.submit`, which would end the turn. A closed task takes no more.
            let _ = me.submit(Self::work);
        }
    }
}
