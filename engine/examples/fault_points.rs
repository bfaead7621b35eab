//! Puts the store, the clock or the process of a world in trouble at every moment of some
//! workloads, alone and in pairs, and lets it go on: all points, where the tests try some hundred.
//! It takes some minutes.
//!
//! `cargo run --release -p turnwheel-engine --example fault_points [seeds [pairs [first seed]]]`
//!
//! Seeds are counted from the first one, so that several processes can share the points.
//!
//! A violation is tried again as it was printed:
//! `fault_points once "trees" 1 "write 2: the world is shut down + write 7: the store is slow"`
//!
//! Some points of one workload, in memory: `fault_points some "trees" 500 [pairs [seed]]`
#![expect(clippy::print_stdout, reason = "it tells what it has found")]

#[path = "../tests/faults/workloads.rs"]
mod faults;

#[path = "../tests/faults/runs.rs"]
mod runs;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use turnwheel_testkit::{FaultPoint, FaultReport, Faults, Moment, Trouble, Workload};

/// Points of each workload and seed with files.
const FILES_POINTS: usize = 100;

/// Pairs of each workload and seed with files.
const FILES_PAIRS: usize = 25;

/// Points of each schedule and seed: its plans need minutes of virtual time.
const SCHEDULE_POINTS: usize = 400;

/// One run of one workload.
struct Once {
    name: String,
    seed: u64,
    points: Vec<FaultPoint>,
    result: Option<Result<(), String>>,
}

impl faults::Each for Once {
    fn one<W: Workload>(&mut self, _: bool, make: impl Fn() -> W) {
        let workload = make();
        if workload.name() == self.name {
            self.result = Some(Faults::new().once(&workload, self.seed, &self.points));
        }
    }
}

/// Some points of one workload.
struct Part {
    name: String,
    options: Faults,
    report: Option<FaultReport>,
}

impl faults::Each for Part {
    fn one<W: Workload>(&mut self, _: bool, make: impl Fn() -> W) {
        if make().name() == self.name {
            self.report = Some(self.options.run(make));
        }
    }
}

fn some(mut arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let name = arguments.next().ok_or("some takes a workload and a number of points")?;
    let mut number = |else_it: usize| arguments.next().map_or(Ok(else_it), |text| text.parse());
    let options = Faults::new().points(number(500)?).pairs(number(0)?);
    let options = options.seeds([number(1)? as u64]);
    let mut run = Part { name, options, report: None };
    faults::each(&mut run);
    let report = run.report.ok_or("there is no such workload")?;
    println!("{report}");
    match report.violations {
        0 => Ok(()),
        count => Err(format!("{count} of {} points are wrong", report.points).into()),
    }
}

/// A point as it is printed.
fn point(text: &str) -> Option<FaultPoint> {
    let (moment, trouble) = text.split_once(": ")?;
    let (kind, number) = moment.split_once(' ')?;
    let number = number.parse().ok()?;
    let moment = match kind {
        "read" => Moment::Read(number),
        "write" => Moment::Write(number),
        "timer" => Moment::Timer(number),
        _ => return None,
    };
    let trouble = Trouble::ALL.into_iter().find(|it| it.to_string() == trouble)?;
    Some(FaultPoint { moment, trouble })
}

fn once(mut arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let mut next = || arguments.next().ok_or("once takes a workload, a seed and points");
    let (name, seed) = (next()?, next()?.parse()?);
    let points = next()?.split(" + ").map(point).collect::<Option<Vec<_>>>();
    let points = points.ok_or("a point is «read N», «write N» or «timer N: TROUBLE»")?;
    let mut run = Once { name, seed, points, result: None };
    faults::each(&mut run);
    run.result.ok_or("there is no such workload")??;
    println!("nothing is wrong");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq("once").is_some() {
        return once(arguments);
    }
    if arguments.next_if_eq("some").is_some() {
        return some(arguments);
    }
    let seeds: u64 = arguments.next().map_or(Ok(2), |count| count.parse())?;
    let pairs: usize = arguments.next().map_or(Ok(500), |count| count.parse())?;
    let first: u64 = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let begun = Instant::now();
    // In memory if there is such a place: nothing here has to survive this process.
    let shared = Path::new("/dev/shm");
    let folder = match shared.is_dir() {
        true => tempfile::tempdir_in(shared)?,
        false => tempfile::tempdir()?,
    };
    let memory = Faults::new().seeds(first..first + seeds).pairs(pairs);
    let files = Faults::new().seeds(first..first + seeds).points(FILES_POINTS).pairs(FILES_PAIRS);
    let files = files.sqlite_in(folder.path());
    let mut all = FaultReport::default();
    for (store, options) in [("sqlite", files), ("memory", memory)] {
        let told = |name: &str, report: &FaultReport| {
            println!("{store}, {name}, after {:.1?}: {report}", begun.elapsed());
        };
        let schedules = match store {
            "sqlite" => options.clone().points(FILES_PAIRS),
            _ => options.clone().points(SCHEDULE_POINTS),
        };
        let report = runs::all(options, schedules, told);
        println!("{store}: {report}");
        all.add(report);
    }
    println!("both, in {:.1?}: {all}", begun.elapsed());
    match all.violations {
        0 => Ok(()),
        count => Err(format!("{count} of {} points are wrong", all.points).into()),
    }
}
