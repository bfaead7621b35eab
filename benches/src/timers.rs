//! `timers`: what arming and cancelling cost with a million pending, and how late timers run.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::Serialize;
use turnwheel_runtime::{Context, Group, Task, Timer};

use crate::compare::trial::Random;
use crate::error::{check, BenchError};
use crate::load::{self, AlwaysReady, Probe, Quantiles};
use crate::report::{figure, median, Row};

/// Pending timers while costs are taken come in millions, spread over tasks as they are in a service.
const MILLION: u64 = 1_000_000;
const PENDING_TASKS: u64 = 1_000;
/// More than fit the memory of any machine that this was run on: about 30 GB.
const MILLIONS_MAX: u64 = 100;
/// They are due between one and two hours from now: never in a run.
const FAR: Duration = Duration::from_secs(3_600);
/// Timers armed, then cancelled, between two clock readings; a reading costs about a tenth of one.
const BATCH: usize = 1_000;
const BATCHES: usize = 100;
/// Timers in each lateness case.
const LATE_TIMERS: usize = 500;
/// Their deadlines are spread over this time; a worker is blocked as long.
const LATE_SPREAD: Duration = Duration::from_secs(1);
/// The saturated case: always-ready tasks for each worker, and their jobs.
const READY_A_WORKER: usize = 2;
const READY_JOB: Duration = Duration::from_micros(20);
const WORKERS: usize = 2;

/// One cost or one lateness.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum TimerRow {
    /// Nanoseconds of one call.
    Cost { case: String, median_ns: f64 },
    /// From the deadline to the start of the job.
    Late { case: &'static str, p50_us: f64, p99_us: f64 },
}

impl Row for TimerRow {
    fn heads() -> &'static [&'static str] {
        &["case", "median ns", "p50 us", "p99 us"]
    }

    fn cells(&self) -> Vec<String> {
        let none = || "-".to_owned();
        match self {
            Self::Cost { case, median_ns } => {
                vec![case.clone(), figure(*median_ns), none(), none()]
            }
            Self::Late { case, p50_us, p99_us } => {
                vec![(*case).to_owned(), none(), figure(*p50_us), figure(*p99_us)]
            }
        }
    }
}

/// Runs all cases.
pub(crate) fn run(millions: u64, bar: &ProgressBar) -> Result<Vec<TimerRow>, BenchError> {
    if !(1..=MILLIONS_MAX).contains(&millions) {
        let limits = format!("--millions is from 1 to {MILLIONS_MAX}, not {millions}");
        return Err(BenchError::BadValue(limits));
    }
    bar.set_length(4);
    bar.set_message(format!("arm and cancel, {millions} million pending"));
    let mut rows = costs(millions)?;
    bar.inc(1);
    type Case = fn() -> Result<Vec<f64>, BenchError>;
    let cases: [(&str, Case); 3] = [
        ("lateness_idle", late_idle),
        ("lateness_saturated", late_saturated),
        ("lateness_one_worker_blocked", late_blocked),
    ];
    for (case, measure) in cases {
        bar.set_message(case);
        let quantiles = Quantiles::of(case, measure()?, LATE_TIMERS)?;
        rows.push(TimerRow::Late { case, p50_us: quantiles.p50, p99_us: quantiles.p99 });
        bar.inc(1);
    }
    Ok(rows)
}

fn far(random: &mut Random) -> Duration {
    FAR + Duration::from_nanos(random.below(FAR.as_nanos() as u64))
}

fn costs(millions: u64) -> Result<Vec<TimerRow>, BenchError> {
    let pending = millions * MILLION;
    let group = load::group("timers-cost", WORKERS)?;
    let mut holders = Vec::new();
    for seed in 0..PENDING_TASKS {
        let holder = load::spawn(&group, ())?;
        load::submit(&holder, move |(), cx| {
            let mut random = Random::new(seed);
            for _ in 0..pending / PENDING_TASKS {
                // A timer that was refused is missing in the check below.
                let _ = cx.after(far(&mut random), |(), _| {});
            }
        })?;
        holders.push(holder);
    }
    for holder in &holders {
        load::fetch(holder, |()| ())?;
    }
    check("timers pending", group.metrics().timers as u64, pending)?;
    let measurer = load::spawn(&group, (Vec::new(), Vec::new()))?;
    load::submit(&measurer, measure_costs)?;
    let (arm_ns, cancel_ns) = load::fetch(&measurer, std::mem::take)?;
    check("batches of timers measured", arm_ns.len(), BATCHES)?;
    holders.iter().for_each(|holder| drop(holder.stop()));
    // The timers of stopped tasks go with them.
    let _ = group.shutdown();
    Ok(vec![cost("arm", millions, &arm_ns), cost("cancel", millions, &cancel_ns)])
}

fn cost(what: &str, millions: u64, batches_ns: &[f64]) -> TimerRow {
    let case = format!("{what}_{millions}m_pending");
    TimerRow::Cost { case, median_ns: load::rounded(median(batches_ns)) }
}

type Costs = (Vec<f64>, Vec<f64>);

fn measure_costs((arm_ns, cancel_ns): &mut Costs, cx: &mut Context<'_, Costs>) {
    let mut random = Random::new(MILLION);
    let delays: Vec<Duration> = (0..BATCH).map(|_| far(&mut random)).collect();
    let mut timers: Vec<Timer> = Vec::with_capacity(BATCH);
    for _ in 0..BATCHES {
        let begin = Instant::now();
        for delay in &delays {
            timers.extend(cx.after(*delay, |_, _| {}));
        }
        arm_ns.push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
        let begin = Instant::now();
        for timer in &timers {
            let _ = timer.cancel();
        }
        cancel_ns.push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
        timers.clear();
    }
}

/// Arms timers with deadlines spread over a second; each records how late it runs.
fn arm_spread(probe: &mut Probe, cx: &mut Context<'_, Probe>) {
    probe.us.reserve(LATE_TIMERS);
    let mut random = Random::new(7);
    for _ in 0..LATE_TIMERS {
        let delay = Duration::from_nanos(random.below(LATE_SPREAD.as_nanos() as u64));
        // Read before arming, so that lateness is never counted too small.
        let planned = Instant::now() + delay;
        // A timer that was refused is missing in the sample.
        let _ = cx.after(delay, move |probe, _| probe.record(planned));
    }
}

fn gathered(probe: &Task<Probe>) -> Result<Vec<f64>, BenchError> {
    // Longer than the spread: a timer may be late by a second where the bound is broken.
    for _ in 0..40 {
        std::thread::sleep(LATE_SPREAD / 10);
        if load::fetch(probe, |probe| probe.us.len())? == LATE_TIMERS {
            break;
        }
    }
    load::fetch(probe, |probe| std::mem::take(&mut probe.us))
}

fn late(
    name: &str,
    beside: impl FnOnce(&Group, &Task<Probe>) -> Result<(), BenchError>,
) -> Result<Vec<f64>, BenchError> {
    let group = load::group(name, WORKERS)?;
    let probe = load::spawn(&group, Probe::default())?;
    beside(&group, &probe)?;
    let us = gathered(&probe);
    for task in group.handles() {
        drop(task.stop());
    }
    let _ = group.shutdown();
    us
}

fn late_idle() -> Result<Vec<f64>, BenchError> {
    late("timers-idle", |_, probe| load::submit(probe, arm_spread))
}

fn late_saturated() -> Result<Vec<f64>, BenchError> {
    late("timers-saturated", |group, probe| {
        for _ in 0..READY_A_WORKER * WORKERS {
            AlwaysReady::start(group, READY_JOB)?;
        }
        load::submit(probe, arm_spread)
    })
}

/// The task that arms the timers hands its worker to one that blocks it for as long as they run.
fn late_blocked() -> Result<Vec<f64>, BenchError> {
    late("timers-blocked", |group, probe| {
        let blocker = load::spawn(group, ())?;
        load::submit(probe, move |probe: &mut Probe, cx: &mut Context<'_, Probe>| {
            arm_spread(probe, cx);
            // A refused job would leave no worker blocked, which only a closed group does.
            let _ = blocker.submit(|(), _| std::thread::sleep(LATE_SPREAD));
        })
    })
}
