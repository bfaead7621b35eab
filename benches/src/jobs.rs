//! `jobs`: lateness of fires, bursts, many stored jobs, the cost of a long history, a simulated week.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use indicatif::ProgressBar;
use parking_lot::Mutex;
use serde::Serialize;
use turnwheel_engine::{Retention, Time, World};
use turnwheel_jobs::{
    Call, Done, Executor, Executors, JobSpec, Jobs, JobsOptions, Settings, Verdict, WithJobs, Work,
};
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Group;
use turnwheel_sqlite::{SqliteStore, SqliteSync};

use crate::engine::Place;
use crate::error::BenchError;
use crate::report::{figure, Row};

/// Names of the cases, for `--case`.
pub(crate) const CASES: [&str; 5] = ["steady", "burst", "stored", "history", "week"];

/// The part of `stored` that a process of its own measures: its memory has nothing of the puts.
const REOPENED: &str = "reopened";

/// Jobs of `stored` unless another number is given.
const STORED: usize = 1_000_000;

/// Jobs of `stored` that are due in each second, while that is measured.
const DUE_A_SECOND: usize = 100;

/// Length of that, and of the look at the idle process.
const LOOK: Duration = Duration::from_secs(10);

/// Interval of the steady jobs.
const EVERY: u64 = 5;

/// Jobs that are put at once.
const PUTS: usize = 1_000;

/// Cases and sizes of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) cases: Vec<String>,
    pub(crate) folder: Option<PathBuf>,
    /// Where the jobs of all cases but `stored` and `week` are.
    pub(crate) place: Place,
    /// Jobs of the case; its own number if nothing is said.
    pub(crate) jobs: Option<usize>,
    pub(crate) seconds: u64,
    /// Launches in the history whose cost is measured.
    pub(crate) history: u64,
    pub(crate) days: u64,
    /// Runs that are under way at once.
    pub(crate) runs: u32,
}

impl Options {
    fn in_files(&self) -> Self {
        Self { place: Place::Files(SqliteSync::Full), ..self.clone() }
    }
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JobsRow {
    workload: String,
    metric: &'static str,
    value: f64,
}

impl Row for JobsRow {
    fn heads() -> &'static [&'static str] {
        &["workload", "metric", "value"]
    }

    fn cells(&self) -> Vec<String> {
        vec![self.workload.clone(), self.metric.to_owned(), figure(self.value)]
    }
}

fn failed(error: impl ToString) -> BenchError {
    BenchError::Failed(error.to_string())
}

/// Does nothing, and notes how late it was called.
#[derive(Clone, Debug, Default)]
struct Nothing {
    /// Microseconds of each call, at most an hour: small beside the memory that is measured.
    late_us: Arc<Mutex<Vec<u32>>>,
    /// Microseconds of the wall clock at the last call.
    last: Arc<AtomicU64>,
}

impl Executor for Nothing {
    fn check(&self, _: &Settings) -> Result<(), String> {
        Ok(())
    }

    fn execute(&self, work: &Work, _: &Call<'_>) -> Verdict {
        let now = Time::from(SystemTime::now());
        let late_us = now.0.saturating_sub(work.planned.0);
        self.late_us.lock().push(u32::try_from(late_us).unwrap_or(u32::MAX));
        self.last.fetch_max(now.0, Ordering::Relaxed);
        Verdict::Done(Done::success("done"))
    }
}

impl Nothing {
    fn calls(&self) -> usize {
        self.late_us.lock().len()
    }

    /// A percentile of the lateness so far in milliseconds; 1 is the latest.
    fn late_ms(&self, percentile: f64) -> f64 {
        let mut all = self.late_us.lock();
        percentile_of(&mut all, percentile) / 1e3
    }
}

fn percentile_of<N: Copy + Into<u64> + Ord>(all: &mut [N], percentile: f64) -> f64 {
    all.sort_unstable();
    let place = ((all.len() as f64 * percentile).ceil() as usize).clamp(1, all.len().max(1));
    all.get(place - 1).map_or(0.0, |us| Into::<u64>::into(*us) as f64)
}

/// A server of jobs in this process.
struct Server {
    world: World,
    jobs: Jobs,
    group: Group,
    nothing: Nothing,
}

impl Server {
    fn over(file: &Path, options: &Options) -> Result<Self, BenchError> {
        let nothing = Nothing::default();
        let executors = Executors::new().with("nothing", nothing.clone()).runs_max(options.runs);
        let store = options.place.store(file)?;
        let world = World::builder().jobs(&executors).build(store).map_err(failed)?;
        let group = Group::builder("jobs").workers(1).build().map_err(failed)?;
        let opened = block_on(Jobs::open(&world, &group, JobsOptions::new(&executors)));
        let jobs = opened.map_err(failed)?.map_err(failed)?;
        Ok(Self { world, jobs, group, nothing })
    }

    /// Puts many jobs, some at a time.
    fn put_all(&self, specs: impl Iterator<Item = JobSpec>) -> Result<(), BenchError> {
        let specs: Vec<JobSpec> = specs.collect();
        for some in specs.chunks(PUTS) {
            let asked: Vec<_> =
                some.iter().map(|spec| self.jobs.put(spec.clone(), None, "bench")).collect();
            for asked in asked {
                asked.wait().map_err(failed)?.map_err(failed)?;
            }
        }
        Ok(())
    }

    fn end(self) -> Result<(), BenchError> {
        self.jobs.end();
        self.world.shutdown().map_err(failed)?;
        self.group.shutdown().map(drop).map_err(failed)
    }
}

fn job(name: String, schedule: &str) -> JobSpec {
    let (schedule, executor) = (schedule.to_owned(), "nothing".to_owned());
    JobSpec { name, schedule, executor, timezone: "UTC".to_owned(), ..JobSpec::default() }
}

/// A value of `/proc/self/status` in MiB.
fn memory_mib(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    kib.and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1_024.0
}

/// Processor time of this process in seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let mut sum = text.split_whitespace().next().map_or(0.0, |ns| ns.parse().unwrap_or(0.0));
    if let Ok(threads) = std::fs::read_dir("/proc/self/task") {
        let spent = threads.flatten().map(|thread| thread.path().join("schedstat"));
        let spent = spent.filter_map(|path| std::fs::read_to_string(path).ok());
        let ns = |text: String| text.split_whitespace().next()?.parse::<f64>().ok();
        sum = spent.filter_map(ns).sum();
    }
    sum / 1e9
}

/// Measures the cases.
pub(crate) fn run(options: &Options, bar: &ProgressBar) -> Result<Vec<JobsRow>, BenchError> {
    let mut rows = Vec::new();
    for case in &options.cases {
        bar.set_message(case.clone());
        let folder = match &options.folder {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        };
        let folder = folder.map_err(failed)?;
        let file = folder.path().join("jobs.db");
        let figures = match case.as_str() {
            "steady" => steady(options, &file)?,
            "burst" => burst(options, &file)?,
            "stored" => stored(options, &file)?,
            "history" => history(options, &file)?,
            "week" => week(options, &file)?,
            REOPENED => reopened(options)?,
            name => {
                let (what, known) = ("case of jobs", CASES.join(", "));
                return Err(BenchError::UnknownName { what, name: name.to_owned(), known });
            }
        };
        let row = |(metric, value)| JobsRow { workload: case.clone(), metric, value };
        rows.extend(figures.into_iter().map(row));
    }
    Ok(rows)
}

type Figures = Vec<(&'static str, f64)>;

/// Jobs each five seconds, spread over them.
fn steady(options: &Options, file: &Path) -> Result<Figures, BenchError> {
    let (jobs, server) = (options.jobs.unwrap_or(4_000), Server::over(file, options)?);
    let spec =
        |n: usize| job(format!("job-{n}"), &format!("{}/{EVERY} * * * * *", n as u64 % EVERY));
    server.put_all((0..jobs).map(spec))?;
    let warm = Instant::now() + Duration::from_secs(EVERY);
    while Instant::now() < warm {
        std::thread::sleep(Duration::from_millis(100));
    }
    server.nothing.late_us.lock().clear();
    let (begin, spent) = (Instant::now(), cpu());
    let mut answers = Vec::new();
    let mut number = 0;
    while begin.elapsed() < Duration::from_secs(options.seconds) {
        number = (number + 7) % jobs;
        let asked = Instant::now();
        let answer = server.jobs.get(&format!("job-{number}")).wait().map_err(failed)?;
        answer.map_err(failed)?;
        answers.push(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
        std::thread::sleep(Duration::from_millis(10));
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let (spent, memory) = (cpu() - spent, memory_mib("VmRSS"));
    let nothing = &server.nothing;
    let figures = vec![
        ("jobs", jobs as f64),
        ("seconds", elapsed),
        ("fires_per_s", nothing.calls() as f64 / elapsed),
        ("late_p50_ms", nothing.late_ms(0.5)),
        ("late_p99_ms", nothing.late_ms(0.99)),
        ("late_max_ms", nothing.late_ms(1.0)),
        ("get_p99_ms", percentile_of(&mut answers, 0.99) / 1e3),
        ("cpu_percent", spent / elapsed * 100.0),
        ("memory_mib", memory),
    ];
    server.end()?;
    Ok(figures)
}

/// All jobs in one second.
fn burst(options: &Options, file: &Path) -> Result<Figures, BenchError> {
    let (jobs, server) = (options.jobs.unwrap_or(20_000), Server::over(file, options)?);
    // Later than the puts take, by a wide margin.
    let put = Instant::now();
    server.put_all((0..jobs / 20).map(|n| job(format!("probe-{n}"), "@manually")))?;
    let margin = put.elapsed().mul_f64(40.0).as_secs() + 5;
    let at = Time::from(SystemTime::now()).after(Duration::from_secs(margin));
    let at = Time(at.0 / 1_000_000 * 1_000_000);
    server.put_all((0..jobs).map(|n| job(format!("job-{n}"), &format!("@at {at}"))))?;
    let limit = at.after(Duration::from_secs(120));
    while server.nothing.calls() < jobs && Time::from(SystemTime::now()) < limit {
        std::thread::sleep(Duration::from_millis(50));
    }
    let last = server.nothing.last.load(Ordering::Relaxed);
    let figures = vec![
        ("jobs", jobs as f64),
        ("begun", server.nothing.calls() as f64),
        ("late_p50_ms", server.nothing.late_ms(0.5)),
        ("all_begun_s", last.saturating_sub(at.0) as f64 / 1e6),
        ("memory_mib", memory_mib("VmRSS")),
    ];
    server.end()?;
    Ok(figures)
}

/// Many jobs that fire seldom: put here, and read by a process of its own.
fn stored(options: &Options, file: &Path) -> Result<Figures, BenchError> {
    let jobs = options.jobs.unwrap_or(STORED);
    let options = &options.in_files();
    let server = Server::over(file, options)?;
    let put = Instant::now();
    server.put_all((0..jobs).map(|n| job(format!("job-{n}"), "@yearly")))?;
    let put = put.elapsed().as_secs_f64();
    server.end()?;
    let mut figures = vec![("jobs", jobs as f64), ("put_per_s", jobs as f64 / put)];
    let folder = file.parent().unwrap_or(file);
    let rows = folder.join("rows.json");
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = std::process::Command::new(program);
    child.args(["jobs", "--case", REOPENED, "--folder"]).arg(folder);
    child.arg("--runs").arg(options.runs.to_string()).arg("--json").arg(&rows);
    let ended = child.stdout(std::process::Stdio::null()).status().map_err(failed)?;
    if !ended.success() {
        return Err(failed(format!("the process that reads the jobs has failed: {ended}")));
    }
    let rows: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(&rows).map_err(failed)?).map_err(failed)?;
    for name in READ {
        let row = rows.iter().find(|row| row["metric"] == name);
        figures.push((name, row.and_then(|row| row["value"].as_f64()).unwrap_or(f64::NAN)));
    }
    Ok(figures)
}

/// The figures of the process that reads the jobs.
const READ: [&str; 8] = [
    "start_s",
    "memory_mib",
    "memory_peak_mib",
    "idle_cpu_percent",
    "page_of_50_ms",
    "due_per_s",
    "due_cpu_percent",
    "due_late_p99_ms",
];

/// Reads the jobs that `stored` has put into the folder, and lets some of them be due.
fn reopened(options: &Options) -> Result<Figures, BenchError> {
    let file = options.folder.as_ref().map(|folder| folder.join("jobs.db"));
    let file = file.ok_or_else(|| failed("the case needs --folder"))?;
    let begin = Instant::now();
    let server = Server::over(&file, &options.in_files())?;
    let start = begin.elapsed().as_secs_f64();
    let (memory, peak) = (memory_mib("VmRSS"), memory_mib("VmHWM"));
    let idle = cpu_of(LOOK);
    let page = Instant::now();
    let views = server.jobs.page("job-5", 50).wait().map_err(failed)?.map_err(failed)?;
    let page_ms = page.elapsed().as_secs_f64() * 1e3;
    if views.is_empty() {
        return Err(failed("there are no jobs"));
    }
    let due = |n: usize| job(format!("due-{n}"), &format!("{} * * * * *", n % 60));
    server.put_all((0..60 * DUE_A_SECOND).map(due))?;
    std::thread::sleep(Duration::from_secs(2));
    server.nothing.late_us.lock().clear();
    let due_cpu = cpu_of(LOOK);
    Ok(READ
        .into_iter()
        .zip([
            start,
            memory,
            peak,
            idle,
            page_ms,
            server.nothing.calls() as f64 / LOOK.as_secs_f64(),
            due_cpu,
            server.nothing.late_ms(0.99),
        ])
        .collect())
}

/// Processor time of this process over a while, in percent of one core.
fn cpu_of(time: Duration) -> f64 {
    let (begin, spent) = (Instant::now(), cpu());
    std::thread::sleep(time);
    (cpu() - spent) / begin.elapsed().as_secs_f64() * 100.0
}

/// Launches whose runs have not begun, while a history is filled.
const WAITING_MAX: u64 = 1_024;

/// Launches by hand that are under way at once.
const UNDER_WAY: u64 = 16;

/// Milliseconds of processor time for a launch, over so many of one job.
fn launches(server: &Server, name: &str, count: u64) -> Result<f64, BenchError> {
    let (before, spent) = (server.nothing.calls(), cpu());
    let begin = Instant::now();
    for number in 1..=count {
        server.jobs.run(name, "bench", true).wait().map_err(failed)?.map_err(failed)?;
        // At most a few are under way at once.
        while (server.nothing.calls() - before) as u64 + UNDER_WAY < number {
            std::thread::sleep(Duration::from_micros(200));
            if begin.elapsed() > Duration::from_secs(3_600) {
                return Err(failed("launches do not end"));
            }
        }
    }
    Ok((cpu() - spent) * 1e3 / count as f64)
}

/// Launches of one job, without a look at what they cost; as many jobs at once as there are.
fn fill(server: &Server, name: &str, count: u64, begun: &AtomicU64) -> Result<(), BenchError> {
    for _ in 0..count {
        let number = begun.fetch_add(1, Ordering::Relaxed);
        while server.nothing.calls() as u64 + WAITING_MAX < number {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.jobs.run(name, "bench", true).wait().map_err(failed)?.map_err(failed)?;
    }
    Ok(())
}

/// A launch when the history is empty, and when it is long.
fn history(options: &Options, file: &Path) -> Result<Figures, BenchError> {
    const PROBE: u64 = 1_000;
    let server = Server::over(file, options)?;
    let keep = |name: &str| {
        let spec = job(name.to_owned(), "@manually");
        JobSpec { keep: turnwheel_jobs::limits::KEEP_MAX, ..spec }
    };
    // Of one job so many are kept at most.
    let most = u64::from(turnwheel_jobs::limits::KEEP_MAX);
    let busy: Vec<(String, u64)> = (0..options.history.div_ceil(most))
        .map(|n| (format!("busy-{n}"), (options.history - n * most).min(most)))
        .collect();
    server.put_all(busy.iter().map(|(name, _)| keep(name)).chain([keep("probe")]))?;
    launches(&server, "probe", 200)?;
    let empty = launches(&server, "probe", PROBE)?;
    let begun = AtomicU64::new(server.nothing.calls() as u64);
    std::thread::scope(|scope| {
        let fill = |(name, count): &(String, u64)| fill(&server, name, *count, &begun);
        let all: Vec<_> = busy.iter().map(|it| scope.spawn(move || fill(it))).collect();
        let mut ended = all.into_iter().map(|one| one.join().expect("it does not panic"));
        ended.try_for_each(|end| end)
    })?;
    let first = busy.first().map_or("probe", |(name, _)| name.as_str());
    let full = launches(&server, first, PROBE)?;
    let other = launches(&server, "probe", PROBE)?;
    let figures = vec![
        ("history", options.history as f64),
        ("cpu_ms_empty", empty),
        ("cpu_ms_full", full),
        ("cpu_ms_other_job", other),
        ("ratio", full / empty),
    ];
    server.end()?;
    Ok(figures)
}

/// Five jobs each thirty seconds in simulated time.
fn week(options: &Options, file: &Path) -> Result<Figures, BenchError> {
    let sim = Sim::builder().seed(1).wall(SystemTime::now()).build();
    let nothing = Nothing::default();
    let executors = Executors::new().with("nothing", nothing.clone());
    let keep = Retention::older_than(Duration::from_secs(3_600));
    let builder = World::builder().jobs(&executors).keep(keep);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let store = SqliteStore::new(file);
    let world = sim.block_on(builder.open(store)).map_err(failed)?.map_err(failed)?;
    let group = sim.group("jobs");
    let opened = sim.block_on(Jobs::open(&world, &group, JobsOptions::new(&executors)));
    let jobs = opened.map_err(failed)?.map_err(failed)?;
    for number in 0..5 {
        let asked = jobs.put(job(format!("job-{number}"), "*/30 * * * * *"), None, "bench");
        sim.block_on(asked).map_err(failed)?.map_err(failed)?.map_err(failed)?;
    }
    let begin = Instant::now();
    for _ in 0..options.days * 24 * 60 {
        sim.advance(Duration::from_secs(60));
    }
    let size = |suffix: &str| {
        let path = PathBuf::from(format!("{}{suffix}", file.display()));
        std::fs::metadata(path).map_or(0.0, |data| data.len() as f64 / 1_048_576.0)
    };
    Ok(vec![
        ("days", options.days as f64),
        ("runs", nothing.calls() as f64),
        ("seconds", begin.elapsed().as_secs_f64()),
        ("memory_mib", memory_mib("VmRSS")),
        ("file_mib", size("")),
        ("log_mib", size("-wal")),
    ])
}
