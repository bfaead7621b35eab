//! Floor of durability: a 4 KiB append followed by `fdatasync`.
//!
//! The scratch file stays linked while it is measured, because some file systems skip the sync of an
//! unlinked file; a guard removes it however the measurement ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::limits::{APPEND_BYTES, APPEND_ROUNDS, APPEND_WARM_UP_ROUNDS, MEASUREMENT_MS_MAX};
use super::{DoctorError, Spread};

/// Number for the names of a process's scratch files.
static SCRATCH_NUMBER: AtomicU32 = AtomicU32::new(0);

/// Milliseconds of one 4 KiB append with `fdatasync`, in a scratch file in `directory`.
///
/// Cost: at most [`MEASUREMENT_MS_MAX`] and 8 MiB of disk, given back at the end.
///
/// # Errors
///
/// [`DoctorError::Directory`] if no file can be created there, [`DoctorError::Disk`] if writing,
/// syncing or removing it fails.
///
/// # Example
///
/// ```
/// let floor = turnwheel::doctor::append_floor(&std::env::temp_dir())?;
/// assert!(floor.p50 <= floor.p99);
/// # Ok::<(), turnwheel::doctor::DoctorError>(())
/// ```
pub fn append_floor(directory: &Path) -> Result<Spread, DoctorError> {
    append_floor_while(directory, &|| true)
}

/// Like [`append_floor`], and calls `go_on` before each append; the scratch file is always removed.
///
/// # Errors
///
/// As [`append_floor`], and [`DoctorError::Interrupted`] once `go_on` answers false.
pub fn append_floor_while(
    directory: &Path,
    go_on: &dyn Fn() -> bool,
) -> Result<Spread, DoctorError> {
    let mut scratch = Scratch::create(directory)?;
    let limit = Duration::from_millis(MEASUREMENT_MS_MAX);
    let page = [0x5A_u8; APPEND_BYTES];
    let begin = Instant::now();
    let mut samples = Vec::with_capacity(APPEND_ROUNDS);
    for round in 0..APPEND_ROUNDS {
        if !go_on() {
            return Err(DoctorError::Interrupted);
        }
        let before = Instant::now();
        scratch.append(&page)?;
        if round >= APPEND_WARM_UP_ROUNDS || begin.elapsed() >= limit {
            samples.push(before.elapsed().as_secs_f64() * 1_000.0);
        }
        if begin.elapsed() >= limit {
            break;
        }
    }
    scratch.remove()?;
    Ok(Spread::of(samples).expect("the loop takes at least one sample"))
}

/// Answers whether a scratch file can be created in `directory`, and leaves none.
pub(super) fn check_directory(directory: &Path) -> Result<(), DoctorError> {
    Scratch::create(directory)?.remove()
}

/// A file that is removed when the value is dropped.
struct Scratch {
    file: File,
    path: PathBuf,
    is_removed: bool,
}

impl Scratch {
    fn create(directory: &Path) -> Result<Self, DoctorError> {
        let number = SCRATCH_NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".turnwheel-doctor-{}-{number}.tmp", process::id()));
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Ok(file) => Ok(Self { file, path, is_removed: false }),
            Err(source) => {
                Err(DoctorError::Directory { directory: directory.to_path_buf(), source })
            }
        }
    }

    /// Appends one page and makes it durable.
    fn append(&mut self, page: &[u8]) -> Result<(), DoctorError> {
        self.file.write_all(page).map_err(|source| self.failed("append to", source))?;
        self.file.sync_data().map_err(|source| self.failed("sync", source))
    }

    /// Removes the file and says so if that fails.
    fn remove(mut self) -> Result<(), DoctorError> {
        self.is_removed = true;
        fs::remove_file(&self.path).map_err(|source| self.failed("remove", source))
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> DoctorError {
        DoctorError::Disk { operation, path: self.path.clone(), source }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_removed {
            // The measurement has already failed with a better reason than this one.
            let _ = fs::remove_file(&self.path);
        }
    }
}
