//! All facts and floors of this machine in one value.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    append_floor_while, atomic_floor, clock_floor, handover_floor, probe_pinning, unpark_floor,
    DoctorError, Pinning, Processors, Spread,
};

/// Description of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Machine {
    /// Operating system, as Rust names it.
    pub operating_system: &'static str,
    /// Processor architecture, as Rust names it.
    pub architecture: &'static str,
    /// Model of the processor; `None` where the system does not tell.
    pub processor: Option<String>,
    /// Whether the measuring code is compiled with optimisation; without it the floors inside one
    /// thread (atomic, clock) mean nothing.
    pub is_optimised: bool,
}

impl Machine {
    /// Reads the description of this machine from the operating system.
    #[must_use]
    pub fn read() -> Self {
        let facts = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = facts.lines().find(|line| line.starts_with("model name"));
        Self {
            operating_system: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            processor: model
                .and_then(|line| line.split_once(':'))
                .map(|(_, model)| model.trim().to_owned()),
            is_optimised: !cfg!(debug_assertions),
        }
    }
}

/// The measured floors; the unit is the end of each name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Floors {
    /// Cache line from one core to another, one way; `None` with a single core.
    pub handover_ns: Option<Spread>,
    /// One uncontended atomic read-modify-write.
    pub atomic_ns: Spread,
    /// One monotonic clock read.
    pub clock_ns: Spread,
    /// From `unpark` to the parked thread running.
    pub unpark_us: Spread,
    /// One 4 KiB append with `fdatasync`.
    pub append_sync_ms: Spread,
}

/// The next measurement of [`Report::measure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Cores, cpuset, quota, pinning.
    Processors,
    /// Cache line hand-over.
    Handover,
    /// Atomic operation.
    Atomic,
    /// Clock read.
    Clock,
    /// Wake-up of a parked thread.
    Unpark,
    /// Durable append.
    Append,
}

impl Step {
    /// The steps in the order in which they are taken.
    pub const ALL: [Self; 6] =
        [Self::Processors, Self::Handover, Self::Atomic, Self::Clock, Self::Unpark, Self::Append];
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Processors => "processors and pinning",
            Self::Handover => "cache-line hand-over",
            Self::Atomic => "atomic operation",
            Self::Clock => "clock read",
            Self::Unpark => "unpark to running",
            Self::Append => "4 KiB append and fdatasync",
        })
    }
}

/// All facts and floors of this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Version of Turnwheel that measured.
    pub version: &'static str,
    /// Description of the machine.
    pub machine: Machine,
    /// The processors and our share of them.
    pub processors: Processors,
    /// Whether a thread may choose its core.
    pub pinning: Pinning,
    /// The directory in which the disk was measured.
    pub directory: PathBuf,
    /// The measured floors.
    pub floors: Floors,
}

impl Report {
    /// Measures everything; the disk floor in a scratch file in `directory`, which is removed.
    ///
    /// Calls `progress` before each measurement. Calls `go_on` before each measurement and during
    /// that of the disk, and ends if it returns false.
    ///
    /// Cost: as a rule 2 s, at most six times [`limits::MEASUREMENT_MS_MAX`].
    ///
    /// # Errors
    ///
    /// Any [`DoctorError`]. A directory that cannot be written is reported before any long
    /// measurement.
    ///
    /// [`limits::MEASUREMENT_MS_MAX`]: super::limits::MEASUREMENT_MS_MAX
    pub fn measure(
        directory: &Path,
        progress: &mut dyn FnMut(Step),
        go_on: &dyn Fn() -> bool,
    ) -> Result<Self, DoctorError> {
        super::append::check_directory(directory)?;
        let mut enter = |step| {
            if !go_on() {
                return Err(DoctorError::Interrupted);
            }
            progress(step);
            Ok(())
        };
        enter(Step::Processors)?;
        let machine = Machine::read();
        let processors = Processors::read();
        let pinning = probe_pinning();
        enter(Step::Handover)?;
        let handover_ns = handover_floor()?;
        enter(Step::Atomic)?;
        let atomic_ns = atomic_floor();
        enter(Step::Clock)?;
        let clock_ns = clock_floor();
        enter(Step::Unpark)?;
        let unpark_us = unpark_floor()?;
        enter(Step::Append)?;
        let append_sync_ms = append_floor_while(directory, go_on)?;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            machine,
            processors,
            pinning,
            directory: directory.to_path_buf(),
            floors: Floors { handover_ns, atomic_ns, clock_ns, unpark_us, append_sync_ms },
        })
    }
}
