//! `turnwheel bench`: speed of flows on this machine, beside the targets and the limit of the disk.

mod cold;
mod crowd;
mod figures;
mod load;
mod pages;
mod scratch;
mod served;
mod starts;
mod steps;
mod work;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::exit::Exit;
use super::settings::Settings;

/// Text after the options in `turnwheel help bench`.
const AFTER_HELP: &str = "\
Every figure stands beside what is wanted of it, met or missed, and beside the cost of one append with
fdatasync in the same folder: nothing durable can be faster than that allows. A figure means something
only on a machine that does nothing else, and only from an optimized build; the load of the machine is
printed with it.

What is measured lies in a folder of its own in --dir, which is removed at the end, also after Ctrl-C:
that ends the measurement early and prints what was measured. Do not measure in a file system that lies in
memory (/tmp on many systems): it makes nothing durable.

Examples:
  turnwheel bench starts                       starts of a flow a second over HTTP, each durable
  turnwheel bench cold --runs 51               from the start of the process to the end of a flow
  turnwheel bench steps                        durable steps a second in this process
  turnwheel bench pages                        what the console asks for, with 100,000 plans
  turnwheel bench starts --json > starts.json

Exit codes: 0 measured, whether met or missed; 1 a measurement failed; 2 wrong usage;
130 interrupted, with what was measured.";

/// Measure how fast flows start and run here.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Starts(starts::Arguments),
    Cold(cold::Arguments),
    Steps(steps::Arguments),
    Pages(pages::Arguments),
}

/// Arguments of all measurements.
#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// The folder in which the measured files lie: the disk that is measured.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let patience = Patience::new();
    match &arguments.what {
        What::Starts(arguments) => starts::run(settings, arguments, &patience),
        What::Cold(arguments) => cold::run(settings, arguments, &patience),
        What::Steps(arguments) => steps::run(settings, arguments, &patience),
        What::Pages(arguments) => pages::run(settings, arguments, &patience),
    }
}

/// Whether the user has not interrupted.
#[derive(Clone, Debug)]
struct Patience(Arc<AtomicBool>);

impl Patience {
    fn new() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        // Without a handler an interrupt ends the process, and the scratch folder stays.
        let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
        Self(is_over)
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn failed(problem: impl std::fmt::Display) -> Exit {
    Exit::failed(format!("bench: {problem}"))
}
