//! Plans of steps that do nothing, one after the other: as many at a time as wanted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Next, PlanId, PlanState, Planner, RunAsync, RunsAsync, StepContext, World,
    WorldBuilder,
};
use turnwheel_runtime::{Group, Task};

use super::disk::Usage;
use super::place::Floor;
use super::scenes::failed;
use super::{Options, ThroughputRow, MIB};
use crate::error::BenchError;
use crate::load;

/// Before figures are taken.
const WARM_UP: Duration = Duration::from_millis(500);
/// Locks for the times of the steps: more than workers.
const SHARDS: usize = 64;
const WORKERS: usize = 2;
/// Interval of looks at the size of the write-ahead log.
const LOOK: Duration = Duration::from_millis(10);

/// When each plan's step was called last, and how long it was to the next.
#[derive(Default)]
pub(crate) struct Times {
    shards: Vec<Mutex<Shard>>,
}

#[derive(Default)]
struct Shard {
    last: HashMap<PlanId, Instant>,
    us: Vec<f64>,
    is_taking: bool,
    steps: u64,
}

impl Times {
    fn new() -> Arc<Self> {
        Arc::new(Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() })
    }

    fn called(&self, plan: PlanId) {
        let at = usize::from(plan.to_bytes()[15]) % SHARDS;
        let mut shard = self.shards[at].lock().expect("nothing panics under this lock");
        let now = Instant::now();
        shard.steps += 1;
        let before = shard.last.insert(plan, now);
        if let (Some(before), true) = (before, shard.is_taking) {
            shard.us.push((now - before).as_secs_f64() * 1e6);
        }
    }

    fn forget(&self, plan: PlanId) {
        let at = usize::from(plan.to_bytes()[15]) % SHARDS;
        self.shards[at].lock().expect("nothing panics under this lock").last.remove(&plan);
    }

    /// Begins to take times; the steps so far.
    fn take(&self) -> u64 {
        let begin = |shard: &Mutex<Shard>| {
            let mut shard = shard.lock().expect("nothing panics under this lock");
            shard.is_taking = true;
            shard.steps
        };
        self.shards.iter().map(begin).sum()
    }

    fn end(&self) -> (u64, Vec<f64>) {
        let (mut steps, mut us) = (0, Vec::new());
        for shard in &self.shards {
            let mut shard = shard.lock().expect("nothing panics under this lock");
            shard.is_taking = false;
            steps += shard.steps;
            us.append(&mut shard.us);
        }
        (steps, us)
    }
}

struct NoOp(Arc<Times>);

#[derive(Serialize, Deserialize)]
struct Number {
    number: u32,
}

impl Action for NoOp {
    const NAME: &'static str = "no-op";
    type Input = Number;
    type Output = Option<u32>;
    type Phases = RunsAsync;
}

impl RunAsync for NoOp {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.called(step.plan_id());
        step.output = Some(step.input.number);
        Ok(Next::Done)
    }
}

struct Chain;

impl Action for Chain {
    const NAME: &'static str = "chain";
    type Input = u32;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, steps: u32) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            for number in 0..steps {
                planner.plan_action::<NoOp>(Number { number })?;
            }
            Ok(())
        })
    }
}

/// Triggers one plan after the other.
struct Client {
    world: World,
    times: Arc<Times>,
    steps: u32,
    until: Instant,
    failed: Option<String>,
}

type Cx<'a> = turnwheel_runtime::Context<'a, Client>;

impl Client {
    fn next(&mut self, cx: &mut Cx<'_>) {
        if Instant::now() >= self.until {
            return;
        }
        let world = self.world.clone();
        let steps = self.steps;
        let plan = async move {
            let plan = world.trigger::<Chain>(steps).await.map_err(|error| error.to_string())?;
            plan.finished().await.map_err(|error| error.to_string())
        };
        cx.await_interleaved(plan, |client, cx, outcome| match outcome {
            Ok(view) if view.state == PlanState::Stopped => {
                client.times.forget(view.id);
                client.next(cx);
            }
            Ok(view) => client.failed = Some(format!("plan {} is {}", view.id, view.state.name())),
            Err(error) => client.failed = Some(error),
        });
    }
}

/// Figures of a load.
pub(crate) struct Driven {
    pub(crate) seconds: f64,
    pub(crate) steps: u64,
    /// From a step's call to that of the next one, in order.
    pub(crate) us: Vec<f64>,
    pub(crate) commits: u64,
    written: u64,
    cpu_ms: f64,
}

impl Driven {
    /// A part of the times is shorter than this one, in microseconds.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let last = self.us.len().saturating_sub(1);
        self.us.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN)
    }
}

/// A world with the actions of plans that follow one another, and the times of their steps.
pub(crate) fn with_chains(builder: WorldBuilder) -> (WorldBuilder, Arc<Times>) {
    let times = Times::new();
    (builder.action(NoOp(Arc::clone(&times))).action(Chain), times)
}

/// Runs so many plans at a time. `meanwhile` waits until the given moment.
pub(crate) fn drive(
    world: &World,
    group: &Group,
    times: &Arc<Times>,
    [steps, concurrency]: [u32; 2],
    length: Duration,
    meanwhile: impl FnOnce(Instant),
) -> Result<Driven, BenchError> {
    let until = Instant::now() + WARM_UP + length;
    let mut clients: Vec<Task<Client>> = Vec::new();
    for _ in 0..concurrency {
        let (world, times) = (world.clone(), Arc::clone(times));
        let client = Client { world, times, steps, until, failed: None };
        let client = load::spawn(group, client)?;
        load::submit(&client, Client::next)?;
        clients.push(client);
    }
    std::thread::sleep(WARM_UP);
    let commits = || world.stats().wait().map(|it| it.journal.commits).map_err(|it| failed(&it));
    let commits_before = commits()?;
    let (steps_before, usage_before, begin) = (times.take(), Usage::now()?, Instant::now());
    meanwhile(begin + length - Duration::from_millis(50));
    let (seconds, usage) = (begin.elapsed().as_secs_f64(), Usage::now()?);
    let (steps_after, mut us) = times.end();
    let commits = commits()? - commits_before;
    for client in &clients {
        if let Some(problem) = load::fetch(client, |client| client.failed.take())? {
            return Err(BenchError::Failed(problem));
        }
    }
    us.sort_unstable_by(f64::total_cmp);
    Ok(Driven {
        seconds,
        steps: steps_after - steps_before,
        us,
        commits,
        written: usage.written - usage_before.written,
        cpu_ms: usage.cpu_ms - usage_before.cpu_ms,
    })
}

/// One row.
pub(super) fn run(
    path: &Path,
    options: &Options,
    steps: u32,
    concurrency: u32,
    floor: &Floor,
) -> Result<ThroughputRow, BenchError> {
    let group: Group = load::group("plans", WORKERS)?;
    let (builder, times) = with_chains(World::builder().group(&group));
    let world = builder.build(options.place.store(path)?).map_err(|error| failed(&error))?;
    let length = Duration::from_secs(options.seconds);
    let mut log_bytes = 0;
    let meanwhile = |until| log_bytes = longest_log(path, until);
    let driven = drive(&world, &group, &times, [steps, concurrency], length, meanwhile)?;
    world.shutdown().map_err(|error| failed(&error))?;
    let _left = group.shutdown();
    let count = driven.steps as f64;
    let cpu_us_per_step = driven.cpu_ms * 1_000.0 / count;
    let width = f64::from(concurrency);
    let ceiling_per_s = match options.place.raw_per_s(path, concurrency)? {
        Some(rows_per_s) => rows_per_s,
        None => width / (floor.sync_us + width * cpu_us_per_step / WORKERS as f64) * 1e6,
    };
    Ok(ThroughputRow {
        workload: format!("sequential_{steps}"),
        concurrency,
        steps_per_s: load::rounded(count / driven.seconds),
        p50_us: load::rounded(driven.at(0.5)),
        p99_us: load::rounded(driven.at(0.99)),
        sync_us: load::rounded(floor.sync_us),
        syncs_per_step: load::rounded(driven.commits as f64 / count),
        log_mib: load::rounded(log_bytes as f64 / MIB),
        bytes_per_step: load::rounded(driven.written as f64 / count),
        cpu_ms_per_1000: load::rounded(driven.cpu_ms / count * 1_000.0),
        ceiling_per_s: load::rounded(ceiling_per_s),
    })
}

/// The greatest size of the write-ahead log of a store until then.
fn longest_log(store: &Path, until: Instant) -> u64 {
    let log = PathBuf::from(format!("{}-wal", store.display()));
    let mut longest = 0;
    while Instant::now() < until {
        std::thread::sleep(LOOK);
        longest = longest.max(std::fs::metadata(&log).map_or(0, |it| it.len()));
    }
    longest
}
