//! A browser as a process of its own.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::page::Page;
use crate::wire::Wire;

/// Names that the browser has on different systems.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// It asks nobody else for anything and keeps nothing.
const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "about:blank",
];

/// There is no browser, or it did not begin.
#[derive(Debug)]
pub struct NoBrowser(String);

impl fmt::Display for NoBrowser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoBrowser {}

/// A running Chromium without a window. It ends when this is dropped.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    _folder: TempDir,
}

impl Chromium {
    /// The program: `TURNWHEEL_CHROMIUM`, or the first of the usual names on the path.
    pub fn find() -> Option<PathBuf> {
        if let Some(named) = std::env::var_os("TURNWHEEL_CHROMIUM") {
            return Some(PathBuf::from(named));
        }
        let path = std::env::var_os("PATH")?;
        let mut places =
            std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
        places.find(|place| place.is_file())
    }

    /// Starts it, and answers it with its page.
    ///
    /// # Errors
    ///
    /// There is none, or it ended before it could be spoken to.
    pub fn start() -> Result<(Self, Page), NoBrowser> {
        let none = || {
            NoBrowser(
                "no Chromium was found: install it, or name it in TURNWHEEL_CHROMIUM".to_owned(),
            )
        };
        let program = Self::find().ok_or_else(none)?;
        let failed = |what: &str, error: &dyn fmt::Display| {
            NoBrowser(format!("{}: {what}: {error}", program.display()))
        };
        let folder = tempfile::tempdir().map_err(|error| failed("its folder", &error))?;
        let mut child = Command::new(&program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed("it does not start", &error))?;
        let errors = child.stderr.take().expect("its errors are piped");
        let mut this = Self { child, _folder: folder };
        let mut lines = BufReader::new(errors).lines();
        let mut said = String::new();
        let address = loop {
            match lines.next() {
                Some(Ok(line)) => match line.strip_prefix("DevTools listening on ") {
                    Some(address) => break address.trim().to_owned(),
                    None => said.push_str(&line),
                },
                Some(Err(error)) => return Err(failed("its errors", &error)),
                None => {
                    let status = this.child.wait().map_err(|error| failed("its end", &error))?;
                    return Err(failed("it ended", &format!("{status}: {said}")));
                }
            }
        };
        // What it says later is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let wire = Wire::connect(&address).map_err(|error| failed("it does not answer", &error))?;
        Ok((this, Page::of(wire)))
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
