//! `latency`: open loop. Each job has a planned instant, and its latency counts from there, so that
//! a load generator that is held up hides nothing.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::Serialize;
use turnwheel_runtime::{Context, Group, IdlePolicy, Late, Task};

use crate::error::BenchError;
use crate::load::{self, rounded, AlwaysFull, Flood, Probe, Quantiles, Wait};
use crate::report::{figure, median, Row};

/// Between two jobs to a parked worker: as long as the doctor's floor leaves its thread parked, and
/// far longer than a worker spins.
const PARKED_GAP: Duration = Duration::from_micros(turnwheel::doctor::limits::UNPARK_GAP_US);
/// The same after a longer rest: the core has gone deeper to sleep.
const RESTED_GAP: Duration = Duration::from_millis(2);
/// Between two jobs to a spinning worker: far shorter than it spins.
const SPINNING_GAP: Duration = Duration::from_micros(50);
const SPINNING_LIMIT: Duration = Duration::from_millis(20);
/// Between two probes beside a load.
const PROBE_GAP: Duration = Duration::from_millis(1);
/// Floods in `outside_beside_flood`: two for each of two workers.
const FLOODS: usize = 4;
/// Jobs of the actor that is always full, and how many it has.
const FULL_JOB: Duration = Duration::from_micros(1);
const FULL_JOBS: u64 = 4_096;
/// The long turn, when in it the job is made, and the rest after it.
const LONG_TURN: Duration = Duration::from_millis(5);
const MADE_AFTER: Duration = Duration::from_millis(1);
const TURN_GAP: Duration = Duration::from_millis(3);
/// Long turns are few: each takes eight milliseconds.
const LONG_TURNS_MAX: usize = 500;
/// The mixed load: light actors with a short job each millisecond, one hog, one flood.
const LIGHT_ACTORS: usize = 20;
const LIGHT_PERIOD: Duration = Duration::from_millis(1);
const LIGHT_JOB: Duration = Duration::from_micros(20);
const HOG_PERIOD: Duration = Duration::from_millis(10);
const HOG_JOB: Duration = Duration::from_millis(1);

/// One case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LatencyRow {
    case: &'static str,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    /// The smallest and the largest 99th percentile of the repetitions.
    p99_min_us: f64,
    p99_max_us: f64,
    /// The machine's one-way unpark in this run, as `turnwheel doctor` measures it.
    unpark_us: f64,
}

impl LatencyRow {
    /// The median of each quantile over the repetitions.
    fn of(case: &'static str, seen: &[Quantiles], unpark_us: f64) -> Self {
        let all = |pick: fn(&Quantiles) -> f64| seen.iter().map(pick).collect::<Vec<_>>();
        let middle = |pick| rounded(median(&all(pick)));
        let p99 = all(|one| one.p99);
        Self {
            case,
            p50_us: middle(|one| one.p50),
            p90_us: middle(|one| one.p90),
            p99_us: middle(|one| one.p99),
            p999_us: middle(|one| one.p999),
            p99_min_us: p99.iter().copied().fold(f64::INFINITY, f64::min),
            p99_max_us: p99.iter().copied().fold(0.0, f64::max),
            unpark_us: rounded(unpark_us),
        }
    }
}

impl Row for LatencyRow {
    fn heads() -> &'static [&'static str] {
        &[
            "case",
            "p50 us",
            "p90 us",
            "p99 us",
            "p999 us",
            "p99 min",
            "p99 max",
            "unpark us",
            "p50/unpark",
            "p99/unpark",
        ]
    }

    fn cells(&self) -> Vec<String> {
        let figures = [
            self.p50_us,
            self.p90_us,
            self.p99_us,
            self.p999_us,
            self.p99_min_us,
            self.p99_max_us,
            self.unpark_us,
        ];
        let ratios = [self.p50_us / self.unpark_us, self.p99_us / self.unpark_us];
        let mut cells = vec![self.case.to_owned()];
        cells.extend(figures.into_iter().chain(ratios).map(figure));
        cells
    }
}

type Case = fn(&'static str, usize) -> Result<Quantiles, BenchError>;

const CASES: [(&str, Case); 9] = [
    ("outside_parked", outside_parked),
    ("outside_parked_rested", outside_rested),
    ("outside_parked_group_of_2", outside_parked_group),
    ("outside_spinning", outside_spinning),
    ("outside_beside_flood", outside_beside_flood),
    ("outside_mixed_load", outside_mixed_load),
    ("made_inside_5ms_turn", made_inside_turn),
    ("other_actor_beside_flood_1_worker", beside_full_alone),
    ("other_actor_beside_flood_2_workers", beside_full_shared),
];

/// The names of the cases, for the command line.
pub(crate) fn names() -> Vec<&'static str> {
    CASES.iter().map(|(name, _)| *name).collect()
}

/// Runs the cases asked for, all if none is named: in turn, so often, so that a bad second of the
/// machine falls on one repetition of each.
pub(crate) fn run(
    wanted: &[String],
    samples: usize,
    reps: usize,
    bar: &ProgressBar,
) -> Result<Vec<LatencyRow>, BenchError> {
    if samples == 0 || reps == 0 {
        return Err(BenchError::BadValue("--samples and --reps are at least 1".to_owned()));
    }
    if let Some(name) = wanted.iter().find(|name| !names().contains(&name.as_str())) {
        let known = names().join(", ");
        return Err(BenchError::UnknownName { what: "case", name: name.clone(), known });
    }
    let chosen: Vec<_> = CASES
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|one| one == name))
        .collect();
    bar.set_length((chosen.len() * reps) as u64 + 1);
    bar.set_message("one-way unpark of this machine");
    let floor = turnwheel::doctor::unpark_floor()
        .map_err(|error| BenchError::Start { what: "the floor".into(), why: error.to_string() })?;
    bar.inc(1);
    let mut seen = vec![Vec::with_capacity(reps); chosen.len()];
    for _ in 0..reps {
        for ((name, case), seen) in chosen.iter().zip(&mut seen) {
            bar.set_message(*name);
            seen.push(run_once(name, *case, samples)?);
            bar.inc(1);
        }
    }
    let row = |(name, seen): (&'static str, &Vec<Quantiles>)| LatencyRow::of(name, seen, floor.p50);
    Ok(chosen.iter().map(|(name, _)| *name).zip(&seen).map(row).collect())
}

/// On a thread of its own: a case may pin its load generator.
fn run_once(name: &'static str, case: Case, samples: usize) -> Result<Quantiles, BenchError> {
    let quantiles = std::thread::scope(|scope| scope.spawn(|| case(name, samples)).join());
    quantiles.map_err(|_| BenchError::Start {
        what: name.to_owned(),
        why: "its load generator panicked".to_owned(),
    })?
}

/// Sends a job to the probe at each planned instant, and gathers what it has seen.
fn probe_from_outside(
    case: &str,
    group: &Group,
    samples: usize,
    gap: Duration,
    wait: Wait,
) -> Result<Quantiles, BenchError> {
    let probe = load::spawn(group, Probe::with_capacity(samples))?;
    let mut planned = Instant::now() + gap;
    for _ in 0..samples {
        load::wait_until(planned, wait);
        load::submit(&probe, move |probe, _| probe.record(planned))?;
        planned += gap;
    }
    let us = load::fetch(&probe, |probe| std::mem::take(&mut probe.us))?;
    Quantiles::of(case, us, samples)
}

fn ended(group: &Group) {
    // Endless loads are told to end before; what is left is reported there, not here.
    let _ = group.shutdown();
}

/// One worker on a core of its own, the load generator awake on another: as the floor is measured.
fn alone(
    case: &str,
    samples: usize,
    gap: Duration,
    idle: IdlePolicy,
) -> Result<Quantiles, BenchError> {
    let group = load::lone_worker(case, idle)?;
    let quantiles = probe_from_outside(case, &group, samples, gap, Wait::Awake);
    ended(&group);
    quantiles
}

fn outside_parked(case: &'static str, samples: usize) -> Result<Quantiles, BenchError> {
    alone(case, samples, PARKED_GAP, IdlePolicy::LatencyFirst)
}

fn outside_rested(case: &'static str, samples: usize) -> Result<Quantiles, BenchError> {
    alone(case, samples, RESTED_GAP, IdlePolicy::LatencyFirst)
}

fn outside_spinning(case: &'static str, samples: usize) -> Result<Quantiles, BenchError> {
    alone(case, samples, SPINNING_GAP, IdlePolicy::Spin(SPINNING_LIMIT))
}

/// A group as a user starts it; the load generator runs wherever the system puts it.
fn outside_parked_group(case: &'static str, samples: usize) -> Result<Quantiles, BenchError> {
    let group = load::group(case, 2)?;
    let quantiles = probe_from_outside(case, &group, samples, RESTED_GAP, Wait::Asleep);
    ended(&group);
    quantiles
}

fn outside_beside_flood(case: &'static str, samples: usize) -> Result<Quantiles, BenchError> {
    let group = load::group(case, 2)?;
    let floods = (0..FLOODS).map(|_| Flood::start(&group)).collect::<Result<Vec<_>, _>>()?;
    let quantiles = probe_from_outside(case, &group, samples, PROBE_GAP, Wait::Asleep);
    floods.iter().try_for_each(Flood::end)?;
    ended(&group);
    quantiles
}

fn outside_mixed_load(case: &'static str, samples: usize) -> Result<Quantiles, BenchError> {
    let group = load::group(case, 2)?;
    let flood = Flood::start(&group)?;
    let mut periodic = vec![every(&group, HOG_PERIOD, HOG_JOB)?];
    for _ in 0..LIGHT_ACTORS {
        periodic.push(every(&group, LIGHT_PERIOD, LIGHT_JOB)?);
    }
    let quantiles = probe_from_outside(case, &group, samples, PROBE_GAP, Wait::Asleep);
    Flood::end(&flood)?;
    periodic.iter().for_each(|task| drop(task.stop()));
    ended(&group);
    quantiles
}

/// A task with a job of this length at a fixed rate.
fn every(group: &Group, period: Duration, length: Duration) -> Result<Task<()>, BenchError> {
    let task = load::spawn(group, ())?;
    load::submit(&task, move |(), cx: &mut Context<'_, ()>| {
        // A group holds far more timers than this one.
        let _ = cx.every(period, Late::Skip, move |(), _| load::compute(length));
    })?;
    Ok(task)
}

/// A task that computes for long and in the middle makes a job for another.
struct Maker {
    probe: Task<Probe>,
}

impl Maker {
    fn long_turn(&mut self, _: &mut Context<'_, Self>) {
        let begin = Instant::now();
        let planned = begin + MADE_AFTER;
        while Instant::now() < planned {
            std::hint::spin_loop();
        }
        // A job that is not taken shows as one that has not run.
        let _ = self.probe.submit(move |probe, _| probe.record(planned));
        while begin.elapsed() < LONG_TURN {
            std::hint::spin_loop();
        }
    }
}

fn made_inside_turn(case: &'static str, samples: usize) -> Result<Quantiles, BenchError> {
    let samples = samples.min(LONG_TURNS_MAX);
    let group = load::group(case, 2)?;
    let probe = load::spawn(&group, Probe::with_capacity(samples))?;
    let maker = load::spawn(&group, Maker { probe: probe.clone() })?;
    for _ in 0..samples {
        load::submit(&maker, Maker::long_turn)?;
        // Asleep, so that both cores are the workers'; the rest lets them park.
        std::thread::sleep(LONG_TURN + TURN_GAP);
    }
    // The maker has ended its last turn when it answers.
    load::fetch(&maker, |_| ())?;
    let us = load::fetch(&probe, |probe| std::mem::take(&mut probe.us))?;
    ended(&group);
    Quantiles::of(case, us, samples)
}

fn beside_full(case: &str, workers: usize, samples: usize) -> Result<Quantiles, BenchError> {
    let group = load::group(case, workers)?;
    let full = AlwaysFull::start(&group, FULL_JOBS, FULL_JOB)?;
    let quantiles = probe_from_outside(case, &group, samples, PROBE_GAP, Wait::Asleep);
    AlwaysFull::end(&full)?;
    ended(&group);
    quantiles
}

fn beside_full_alone(case: &'static str, samples: usize) -> Result<Quantiles, BenchError> {
    beside_full(case, 1, samples)
}

fn beside_full_shared(case: &'static str, samples: usize) -> Result<Quantiles, BenchError> {
    beside_full(case, 2, samples)
}
