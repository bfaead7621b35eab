//! What the disk under the store does by itself, and what a process has written and used.

use std::path::Path;

use turnwheel::doctor;

use crate::error::BenchError;

/// The floor of the folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disk {
    pub(crate) sync_us: f64,
}

impl Disk {
    /// Appends 4 KiB and syncs, many times.
    pub(crate) fn measure(folder: &Path) -> Result<Self, BenchError> {
        let spread = doctor::append_floor(folder)
            .map_err(|error| BenchError::Failed(format!("{}: {error}", folder.display())))?;
        Ok(Self { sync_us: spread.p50 * 1_000.0 })
    }
}

/// Work of a process so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(super) written: u64,
    pub(crate) cpu_ms: f64,
}

impl Usage {
    /// Of this process.
    pub(crate) fn now() -> Result<Self, BenchError> {
        Self::of(std::process::id())
    }

    /// Of one of this user, by its id.
    pub(crate) fn of(process: u32) -> Result<Self, BenchError> {
        let io = read(&format!("/proc/{process}/io"))?;
        let written = io.lines().find_map(|line| line.strip_prefix("write_bytes:"));
        let stat = read(&format!("/proc/{process}/stat"))?;
        // After the name in brackets: the 12th and 13th field are ticks of 10 ms in user and system mode.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks: u64 = fields.split_whitespace().skip(11).take(2).map(number).sum();
        Ok(Self { written: written.map_or(0, number), cpu_ms: ticks as f64 * 10.0 })
    }
}

fn read(path: &str) -> Result<String, BenchError> {
    std::fs::read_to_string(path)
        .map_err(|source| BenchError::File { path: path.to_owned(), source })
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

/// The memory of this process that no file stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) anonymous_mib: f64,
}

impl Memory {
    pub(super) fn now() -> Result<Self, BenchError> {
        let anonymous_mib = Self::mib("RssAnon:")?;
        Ok(Self { anonymous_mib })
    }

    /// The most that the process has had, with what files stand for.
    pub(super) fn peak_mib() -> Result<f64, BenchError> {
        Self::mib("VmHWM:")
    }

    fn mib(name: &str) -> Result<f64, BenchError> {
        let status = read("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|text| text.split_whitespace().next()).map_or(0, number);
        Ok(kib as f64 / 1_024.0)
    }
}
