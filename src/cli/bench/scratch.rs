//! A folder for measurements, removed at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use turnwheel::doctor::{append_floor_while, DoctorError, Spread};

use super::{failed, Patience};
use crate::cli::exit::{Exit, INTERRUPTED};
use crate::cli::paint::tell;
use crate::cli::settings::Settings;

/// A folder that is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(super) fn new(dir: &Path) -> Result<Self, Exit> {
        let wrong = |error: &std::io::Error| {
            Exit::usage(format!("bench: no folder can be made in {}: {error}", dir.display()))
                .advice("name an existing, writable folder with --dir DIR")
        };
        // Programs started in it need the full path.
        let dir = dir.canonicalize().map_err(|error| wrong(&error))?;
        let path = dir.join(format!(".turnwheel-bench-{}", process::id()));
        fs::create_dir(&path).map_err(|error| wrong(&error))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Exit> {
        let path = self.join(name);
        fs::write(&path, text).map_err(|error| failed(format!("{}: {error}", path.display())))?;
        Ok(path)
    }

    /// A configuration with only the setting `sync`: a measurement must not depend on its folder or
    /// user.
    pub(super) fn configuration(&self, settings: &Settings) -> Result<PathBuf, Exit> {
        let sync = settings.get("sync").0;
        self.write("turnwheel.toml", &format!("sync = \"{sync}\"\n"))
    }

    /// Milliseconds of one append with `fdatasync` here.
    pub(super) fn append_floor(&self, patience: &Patience) -> Result<Spread, Exit> {
        append_floor_while(&self.path, &|| !patience.is_over()).map_err(|error| match error {
            DoctorError::Interrupted => Exit::new(INTERRUPTED, "bench: interrupted"),
            error => failed(error),
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tell!("turnwheel: {} stays: {error}", self.path.display());
        }
    }
}
