//! `turnwheel doctor`: the floors of this machine as a table or as JSON.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use turnwheel::doctor::{DoctorError, Floors, Pinning, Report, Spread, Step};

use super::exit::{Exit, FAILED, INTERRUPTED, WRONG_USAGE};
use super::paint::print;

/// Text after the options in `turnwheel help doctor`.
const AFTER_HELP: &str = "\
What the figures are:
  cache-line hand-over   one way between two cores; the least that two threads pay per message
  atomic operation       one uncontended read-modify-write
  clock read             one read of the monotonic clock
  unpark to running      from waking a parked thread to it running; the unit for wake-up latencies
  append + fdatasync     4 KiB made durable; the unit for durable steps

The smallest value is the floor; a p99 far above the p50 means a busy or virtual machine. The run
takes about 2 seconds and wants an otherwise idle machine. The scratch file (at most 8 MiB) is
removed afterwards, also when you interrupt.

Examples:
  turnwheel doctor
  turnwheel doctor --dir /var/lib/my-service      measure the disk that the data will live on
  turnwheel doctor --json > floors.json

Exit codes: 0 measured, 1 a measurement failed, 2 wrong usage or unusable directory,
130 interrupted.";

/// Show the processors, pinning and floors of this machine.
///
/// A floor is the current cost of one primitive on this machine. No code built on it can be faster,
/// so compare other figures of this machine with it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,

    /// Directory whose disk is measured; it must exist and be writable.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Exit> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    // Without a handler the command still works; an interrupt would leave the scratch file.
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));

    let mut progress = Progress { is_shown: io::stderr().is_terminal() };
    let report = Report::measure(&arguments.dir, &mut |step| progress.show(step), &|| {
        !is_interrupted.load(Ordering::Relaxed)
    });
    progress.clear();
    let report = report.map_err(explain)?;
    let text = if arguments.json { json(&report)? } else { table(&report) };
    print(&text)
}

/// One line on a terminal that names the current measurement.
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn show(&mut self, step: Step) {
        if self.is_shown {
            let number = Step::ALL.iter().position(|other| *other == step).unwrap_or(0) + 1;
            // Carriage return and «erase to the end of the line».
            eprint!("\r\x1b[Kmeasuring {number}/{}: {step} …", Step::ALL.len());
        }
    }

    fn clear(&mut self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// Turns a failed measurement into a message, advice and an exit code.
fn explain(error: DoctorError) -> Exit {
    let (code, advice) = match &error {
        DoctorError::Directory { .. } => {
            (WRONG_USAGE, "give an existing, writable directory with --dir DIR")
        }
        DoctorError::Interrupted => (INTERRUPTED, ""),
        DoctorError::Disk { .. } => (
            FAILED,
            "check that the disk has 8 MiB to spare, or measure another one with --dir DIR",
        ),
        _ => (FAILED, "check the limits on threads and memory of this process"),
    };
    Exit::new(code, format!("doctor: {error}")).advice(advice)
}

/// The report for machines.
fn json(report: &Report) -> Result<String, Exit> {
    let mut text = serde_json::to_string_pretty(report).map_err(|error| {
        Exit::failed(format!("doctor: cannot write the report as JSON: {error}"))
    })?;
    text.push('\n');
    Ok(text)
}

/// The report for people.
fn table(report: &Report) -> String {
    let mut text = String::new();
    let machine = &report.machine;
    let processors = &report.processors;
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<24}{value}");
    };
    let model = machine.processor.as_deref().unwrap_or("unknown processor");
    line("machine", &format!("{model}, {} {}", machine.operating_system, machine.architecture));
    let online = processors.online.map_or("unknown".into(), |count| count.to_string());
    line("cores online", &online);
    line("cores allowed (cpuset)", &list(&processors.allowed));
    let quota = processors.quota.map_or("none".into(), |cores| format!("{cores:.2} cores"));
    line("cgroup CPU quota", &quota);
    line("workers by default", &processors.workers.to_string());
    line("pinning", &pinning(&report.pinning));
    line("disk measured in", &report.directory.display().to_string());
    text.push('\n');
    text.push_str(&floors(&report.floors));
    if !machine.is_optimised {
        text.push_str("\nbuilt without optimisation: run it with --release for true figures\n");
    }
    text
}

/// The rows of the floors, smallest first in each.
fn floors(floors: &Floors) -> String {
    let mut text = format!("{:<24}{:>10}{:>10}{:>10}\n", "floor", "min", "p50", "p99");
    let mut row = |name: &str, unit: &str, spread: Option<Spread>| {
        let _ = match spread {
            Some(spread) => writeln!(
                text,
                "{name:<24}{:>10}{:>10}{:>10}  {unit}",
                figure(spread.min),
                figure(spread.p50),
                figure(spread.p99)
            ),
            None => writeln!(text, "{name:<24}{:>10}{:>10}{:>10}  needs two cores", "-", "-", "-"),
        };
    };
    row("cache-line hand-over", "ns", floors.handover_ns);
    row("atomic operation", "ns", Some(floors.atomic_ns));
    row("clock read", "ns", Some(floors.clock_ns));
    row("unpark to running", "us", Some(floors.unpark_us));
    row("append + fdatasync", "ms", Some(floors.append_sync_ms));
    text
}

/// Three significant digits: a repeated run confirms no more.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// Cores as a list with their number, or «unknown».
fn list(cores: &[usize]) -> String {
    if cores.is_empty() {
        return "unknown".into();
    }
    let names: Vec<String> = cores.iter().map(usize::to_string).collect();
    format!("{} ({})", cores.len(), names.join(","))
}

fn pinning(pinning: &Pinning) -> String {
    match pinning {
        Pinning::Works => "works on every allowed core".into(),
        Pinning::Refused { cores } => format!("refused on cores {}", list(cores)),
        _ => "unknown on this platform".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(figure(1234.5), "1234");
        assert_eq!(figure(38.04), "38.0");
        assert_eq!(figure(2.756), "2.76");
        assert_eq!(figure(0.2046), "0.205");
    }

    #[test]
    fn core_lists_say_how_many_and_which() {
        assert_eq!(list(&[0, 2]), "2 (0,2)");
        assert_eq!(list(&[]), "unknown");
    }
}
