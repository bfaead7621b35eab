//! What is no throughput: plans that sleep, plans below a plan, large payloads, timers.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, SendError, SyncSender};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Cause, Next, PlanHandle, PlanId, PlanState, RunAsync, RunsAsync,
    StepContext, World,
};
use turnwheel_runtime::completion::block_on;

use super::disk::{Memory, Usage};
use super::{Options, Place};
use crate::compare::trial::Random;
use crate::error::{check, BenchError};
use crate::load;
use crate::report::{figure, percentile, Row};

/// Plans that are woken one after the other, each at a random place.
const WAKES: usize = 1_000;
/// Plans that are being triggered at once while many are made.
const AT_ONCE: usize = 2_000;
/// Time for plans to leave memory.
const SETTLE: Duration = Duration::from_secs(5);
/// The processors are watched for so long.
const WATCH: Duration = Duration::from_secs(5);
const LARGE_BYTES: usize = 100 * 1024;
const LARGE_PLANS: usize = 500;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SceneRow {
    pub(crate) workload: String,
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
}

impl Row for SceneRow {
    fn heads() -> &'static [&'static str] {
        &["workload", "metric", "value"]
    }

    fn cells(&self) -> Vec<String> {
        vec![self.workload.clone(), self.metric.to_owned(), figure(self.value)]
    }
}

/// Waits for a word, or for the time it is given.
struct Sleep;

#[derive(Serialize, Deserialize)]
struct Nap {
    seconds: Option<u64>,
}

impl Action for Sleep {
    const NAME: &'static str = "sleep";
    type Input = Nap;
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Sleep {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::Event {
            return Ok(Next::Done);
        }
        if let Some(seconds) = step.input.seconds {
            step.event_after(Duration::from_secs(seconds), &())?;
        }
        Ok(Next::suspend("a word"))
    }
}

/// Gives back a part of what it was given.
struct Carry;

impl Action for Carry {
    const NAME: &'static str = "carry";
    type Input = String;
    type Output = String;
    type Phases = RunsAsync;
}

impl RunAsync for Carry {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.clone_from(&step.input);
        Ok(Next::Done)
    }
}

/// Asks for many plans of their own.
struct FanOut;

impl Action for FanOut {
    const NAME: &'static str = "fan-out";
    type Input = u32;
    type Output = u32;
    type Phases = RunsAsync;
}

impl RunAsync for FanOut {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            step.output = step.sub_plans().success;
            return Ok(Next::Done);
        }
        for _ in 0..step.input {
            step.trigger::<Carry>(&String::from("part"))?;
        }
        Ok(Next::suspend("the parts"))
    }
}

fn world(path: &Path, options: &Options) -> Result<World, BenchError> {
    World::builder()
        .action(Sleep)
        .action(Carry)
        .action(FanOut)
        .build(options.place.store(path)?)
        .map_err(|error| BenchError::Failed(error.to_string()))
}

/// Rows of a workload that was sent.
pub(crate) fn rows(workload: &str, per_s: &'static str, sent: (Vec<f64>, f64)) -> Vec<SceneRow> {
    let (mut us, seconds) = sent;
    us.sort_unstable_by(f64::total_cmp);
    let row = |metric, value| row(workload, metric, value);
    vec![
        row(per_s, us.len() as f64 / seconds),
        row("p50_us", percentile(&us, 0.5)),
        row("p99_us", percentile(&us, 0.99)),
    ]
}

/// One figure, as a row.
pub(crate) fn row(workload: &str, metric: &'static str, value: f64) -> SceneRow {
    SceneRow { workload: workload.to_owned(), metric, value: load::rounded(value) }
}

pub(crate) fn failed(error: &dyn std::fmt::Display) -> BenchError {
    BenchError::Failed(error.to_string())
}

/// Triggers so many plans, a number of them at once.
fn trigger_many<A: Action>(
    world: &World,
    count: usize,
    bar: &ProgressBar,
    mut input: impl FnMut(usize) -> A::Input,
) -> Result<Vec<PlanId>, BenchError> {
    let mut plans = Vec::with_capacity(count);
    let mut at = 0;
    while at < count {
        let until = (at + AT_ONCE).min(count);
        let triggered: Vec<_> = (at..until).map(|at| world.trigger::<A>(input(at))).collect();
        for plan in triggered {
            plans.push(plan.wait().map_err(|error| failed(&error))?.id());
        }
        bar.inc((until - at) as u64);
        at = until;
    }
    Ok(plans)
}

fn finished(plan: &PlanHandle) -> Result<(), BenchError> {
    let view = plan.finished().wait().map_err(|error| failed(&error))?;
    check(format!("state of plan {}", plan.id()), view.state.name(), PlanState::Stopped.name())
}

/// Plans that wait for a word: memory, processors, wake, restart.
pub(super) fn suspended(
    folder: &Path,
    options: &Options,
    count: usize,
    bar: &ProgressBar,
) -> Result<Vec<SceneRow>, BenchError> {
    let path = folder.join("suspended.db");
    let workload = format!("suspended_{count}");
    let mut rows = Vec::new();
    let mut row = |metric, value: f64| {
        rows.push(SceneRow { workload: workload.clone(), metric, value: load::rounded(value) });
    };
    let before = Memory::now()?;
    let first = world(&path, options)?;
    row("idle_world_mib", Memory::now()?.anonymous_mib);
    bar.set_length(count as u64);
    bar.set_message("making plans that sleep");
    let begin = Instant::now();
    let plans = trigger_many::<Sleep>(&first, count, bar, |_| Nap { seconds: None })?;
    row("made_per_s", count as f64 / begin.elapsed().as_secs_f64());
    std::thread::sleep(SETTLE);
    let settled = Memory::now()?;
    row("anonymous_mib", settled.anonymous_mib - before.anonymous_mib);
    let usage = Usage::now()?;
    std::thread::sleep(WATCH);
    let used = Usage::now()?.cpu_ms - usage.cpu_ms;
    row("cpu_percent", used / WATCH.as_secs_f64() / 10.0);
    let (some, others) = plans.split_at(plans.len() / 2);
    row("wake_p99_us", wake(&first, some)?);
    // The files of a database are not those of one process.
    let killed = match options.place {
        Place::Files(_) => Some(as_killed(&path)?),
        Place::Database(_) => None,
    };
    first.shutdown().map_err(|error| failed(&error))?;
    drop(first);
    let (second, seconds) = serving(&path, options)?;
    row("restart_to_serving_s", seconds);
    row("wake_after_restart_p99_us", wake(&second, others)?);
    second.shutdown().map_err(|error| failed(&error))?;
    drop(second);
    let Some(killed) = killed else { return Ok(rows) };
    let mut row = |metric, value: f64| {
        rows.push(SceneRow { workload: workload.clone(), metric, value: load::rounded(value) });
    };
    let (third, seconds) = serving(&killed, options)?;
    row("restart_after_kill_s", seconds);
    row("wake_after_kill_p99_us", wake(&third, others)?);
    third.shutdown().map_err(|error| failed(&error))?;
    Ok(rows)
}

/// Starts a world, and how long that took until a plan was run.
fn serving(path: &Path, options: &Options) -> Result<(World, f64), BenchError> {
    let begin = Instant::now();
    let world = world(path, options)?;
    let plan = world.trigger::<Carry>(String::from("first")).wait();
    finished(&plan.map_err(|error| failed(&error))?)?;
    Ok((world, begin.elapsed().as_secs_f64()))
}

/// The files of a store in use, as the end of its process would leave them. Nothing may write to it
/// meanwhile.
fn as_killed(path: &Path) -> Result<PathBuf, BenchError> {
    let copy = path.with_file_name("killed.db");
    for end in ["", "-wal"] {
        let beside = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        let from = beside(path);
        std::fs::copy(&from, beside(&copy))
            .map_err(|source| BenchError::File { path: from.display().to_string(), source })?;
    }
    Ok(copy)
}

/// Says when it is called.
struct Arrive(SyncSender<Instant>);

impl Action for Arrive {
    const NAME: &'static str = "arrive";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Arrive {
    async fn run(&self, _step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let gone = |error: SendError<Instant>| ActionError::new("nobody_listens", error);
        self.0.send(Instant::now()).map_err(gone)?;
        Ok(Next::Done)
    }
}

/// One plan at a time: from its trigger to the call of its first step.
pub(super) fn first_step(folder: &Path, options: &Options) -> Result<Vec<SceneRow>, BenchError> {
    let (sender, arrivals) = sync_channel(1);
    let store = options.place.store(&folder.join("first-step.db"))?;
    let world =
        World::builder().action(Arrive(sender)).build(store).map_err(|error| failed(&error))?;
    let mut us = Vec::with_capacity(WAKES);
    for _ in 0..WAKES {
        let begin = Instant::now();
        let plan = world.trigger::<Arrive>(());
        let arrived = arrivals.recv().map_err(|error| failed(&error))?;
        us.push((arrived - begin).as_secs_f64() * 1e6);
        finished(&plan.wait().map_err(|error| failed(&error))?)?;
    }
    world.shutdown().map_err(|error| failed(&error))?;
    us.sort_unstable_by(f64::total_cmp);
    let row = |metric, percent: usize| SceneRow {
        workload: "first_step".to_owned(),
        metric,
        value: load::rounded(us[(us.len() - 1) * percent / 100]),
    };
    Ok(vec![row("p50_us", 50), row("p99_us", 99)])
}

/// The 99th percentile of the time from an event to the end of its plan, in microseconds.
fn wake(world: &World, plans: &[PlanId]) -> Result<f64, BenchError> {
    let mut random = Random::new(7);
    let mut us = Vec::with_capacity(WAKES);
    for at in 0..WAKES.min(plans.len()) {
        // Each plan once, from random places of the list.
        let stride = plans.len() / WAKES.max(1);
        let place = at * stride.max(1) + random.below(stride.max(1) as u64) as usize;
        let plan = world.plan(plans[place.min(plans.len() - 1)]);
        let begin = Instant::now();
        let sent = world.event(plan.id(), turnwheel_engine::StepId(2), None, &());
        block_on(sent)
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error))?;
        finished(&plan)?;
        us.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    us.sort_unstable_by(f64::total_cmp);
    Ok(us[(us.len() - 1) * 99 / 100])
}

/// Plans with a timer each, far away: how many are armed a second, and the memory that they take.
pub(super) fn timers(
    folder: &Path,
    options: &Options,
    count: usize,
    bar: &ProgressBar,
) -> Result<Vec<SceneRow>, BenchError> {
    let path = folder.join("timers.db");
    let workload = format!("timers_{count}");
    let before = Memory::now()?;
    let world = world(&path, options)?;
    bar.set_length(count as u64);
    bar.set_message("arming timers");
    let begin = Instant::now();
    trigger_many::<Sleep>(&world, count, bar, |at| Nap {
        seconds: Some(86_400 + at as u64 % 3_600),
    })?;
    let made = count as f64 / begin.elapsed().as_secs_f64();
    std::thread::sleep(SETTLE);
    let settled = Memory::now()?;
    world.shutdown().map_err(|error| failed(&error))?;
    let row = |metric, value: f64| SceneRow {
        workload: workload.clone(),
        metric,
        value: load::rounded(value),
    };
    Ok(vec![
        row("armed_per_s", made),
        row("anonymous_mib", settled.anonymous_mib - before.anonymous_mib),
    ])
}

/// One plan with many below it.
pub(super) fn fan_out(
    folder: &Path,
    options: &Options,
    count: u32,
) -> Result<Vec<SceneRow>, BenchError> {
    let world = world(&folder.join("fan-out.db"), options)?;
    let begin = Instant::now();
    let plan = world.trigger::<FanOut>(count).wait().map_err(|error| failed(&error))?;
    let view = plan.finished().wait().map_err(|error| failed(&error))?;
    let seconds = begin.elapsed().as_secs_f64();
    let done = view.output::<FanOut>().map_err(|error| failed(&error))?;
    check("sub-plans that ended well", done, count)?;
    world.shutdown().map_err(|error| failed(&error))?;
    let workload = format!("fan_out_{count}");
    let row = |metric, value: f64| SceneRow {
        workload: workload.clone(),
        metric,
        value: load::rounded(value),
    };
    Ok(vec![
        row("seconds", seconds),
        row("plans_per_s", f64::from(count) / seconds),
        row("peak_mib", Memory::peak_mib()?),
    ])
}

/// Plans with a payload of 100 KiB.
pub(super) fn large(folder: &Path, options: &Options) -> Result<Vec<SceneRow>, BenchError> {
    let world = world(&folder.join("large.db"), options)?;
    let text = "x".repeat(LARGE_BYTES);
    let begin = Instant::now();
    let triggered: Vec<_> =
        (0..LARGE_PLANS).map(|_| world.trigger::<Carry>(text.clone())).collect();
    for plan in triggered {
        finished(&plan.wait().map_err(|error| failed(&error))?)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    world.shutdown().map_err(|error| failed(&error))?;
    let value = load::rounded(LARGE_PLANS as f64 / seconds);
    Ok(vec![SceneRow { workload: "payload_100_kib".to_owned(), metric: "steps_per_s", value }])
}
