//! `idle`: what a million idle tasks cost while nothing is due.

use std::fs;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::Serialize;

use crate::error::BenchError;
use crate::load;
use crate::report::{figure, Row};

/// Long enough for the workers to have parked.
const SETTLE: Duration = Duration::from_secs(1);

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct IdleRow {
    case: &'static str,
    tasks: u64,
    seconds: f64,
    /// Microseconds of processor time a second, of all threads but the measuring one.
    cpu_us_per_s: f64,
    /// Voluntary context switches a second, of the same threads.
    wakes_per_s: f64,
}

impl Row for IdleRow {
    fn heads() -> &'static [&'static str] {
        &["case", "tasks", "seconds", "cpu us/s", "wakes/s"]
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.case.to_owned(),
            self.tasks.to_string(),
            figure(self.seconds),
            figure(self.cpu_us_per_s),
            figure(self.wakes_per_s),
        ]
    }
}

/// Makes the tasks, lets them handle one message each, and watches the process.
pub(crate) fn run(tasks: u64, seconds: u64, bar: &ProgressBar) -> Result<Vec<IdleRow>, BenchError> {
    if seconds == 0 {
        return Err(BenchError::BadValue("--seconds is at least 1".to_owned()));
    }
    bar.set_length(tasks + seconds);
    bar.set_message("making tasks");
    let group = load::group("idle", 2)?;
    let mut all = Vec::new();
    for made in 0..tasks {
        let task = load::spawn(&group, 0_u64)?;
        load::submit(&task, |count, _| *count += 1)?;
        all.push(task);
        if made % 10_000 == 0 {
            bar.set_position(made);
        }
    }
    for task in all.iter().rev().take(1_000) {
        load::fetch(task, |count| *count)?;
    }
    bar.set_position(tasks);
    bar.set_message("watching");
    std::thread::sleep(SETTLE);
    let before = Usage::now()?;
    let begin = Instant::now();
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        bar.inc(1);
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let after = Usage::now()?;
    // Whatever is left is freed with the process.
    let _ = group.shutdown();
    Ok(vec![IdleRow {
        case: "idle",
        tasks,
        seconds: load::rounded(elapsed),
        cpu_us_per_s: load::rounded((after.cpu_ns - before.cpu_ns) as f64 / 1_000.0 / elapsed),
        wakes_per_s: load::rounded((after.switches - before.switches) as f64 / elapsed),
    }])
}

/// What the threads of the process have used, without the calling one's share.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    cpu_ns: u64,
    switches: u64,
}

impl Usage {
    fn now() -> Result<Self, BenchError> {
        let folder = "/proc/self/task";
        let fail = |source| BenchError::File { path: folder.to_owned(), source };
        let me = fs::read_link("/proc/thread-self").map_err(fail)?;
        let mut sum = Self::default();
        for thread in fs::read_dir(folder).map_err(fail)? {
            let thread = thread.map_err(fail)?.path();
            if thread.file_name() == me.file_name() {
                continue;
            }
            // First figure: nanoseconds on a processor.
            let spent = fs::read_to_string(thread.join("schedstat")).map_err(fail)?;
            sum.cpu_ns += spent.split_whitespace().next().map_or(0, number);
            let status = fs::read_to_string(thread.join("status")).map_err(fail)?;
            let switches = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
            sum.switches += switches.map_or(0, number);
        }
        Ok(sum)
    }
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}
