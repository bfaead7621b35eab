//! A `turnwheel serve` of one's own, as a process on a free port.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::failed;
use super::scratch::Scratch;
use crate::cli::exit::Exit;
use crate::cli::paint::tell;
use crate::cli::settings::Settings;

/// Time for a process to end in order.
const END_WITHIN: Duration = Duration::from_secs(60);

/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// This program with arguments, in the scratch folder and with nothing of the environment's settings.
pub(super) fn program(scratch: &Scratch, settings: &Settings) -> Result<Command, Exit> {
    let mut command = Command::new(own()?);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TURNWHEEL_") {
            command.env_remove(name);
        }
    }
    let configuration = scratch.configuration(settings)?;
    command.arg("--config").arg(configuration).current_dir(scratch.path()).stdin(Stdio::null());
    // An interrupt from the terminal goes to the measurement, which ends its processes.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    Ok(command)
}

/// The file of this program.
pub(super) fn own() -> Result<std::path::PathBuf, Exit> {
    std::env::current_exe().map_err(|error| failed(format!("this program's file: {error}")))
}

/// A server that is ended with the value.
#[derive(Debug)]
pub(super) struct Served {
    child: Child,
    url: String,
    /// From its start to its first line, which says where it listens.
    pub(super) listening_after: Duration,
    began: Instant,
}

impl Served {
    /// Starts it over a store.
    pub(super) fn start(
        scratch: &Scratch,
        settings: &Settings,
        store: &Path,
    ) -> Result<Self, Exit> {
        let mut command = program(scratch, settings)?;
        command.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(store);
        // It logs as by default: a line for each change.
        let log = scratch.join("serve.log");
        let written = File::create(&log).map_err(|error| failed(format!("its log: {error}")))?;
        command.stdout(Stdio::piped()).stderr(written);
        let began = Instant::now();
        let mut child = command.spawn().map_err(|error| failed(format!("serve: {error}")))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
        let listening_after = began.elapsed();
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        let (Some(Ok(_)), Some(url)) = (read, url) else {
            let _ = child.kill();
            let ended = child.wait().map_or_else(|error| error.to_string(), |how| how.to_string());
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let said = said.trim();
            return Err(failed(format!("the server did not begin to listen: {ended}\n{said}")));
        };
        Ok(Self { child, url, listening_after, began })
    }

    /// The number of its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Since it was started.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends it in order.
    pub(super) fn end(mut self) -> Result<(), Exit> {
        self.ask_to_end();
        let until = Instant::now() + END_WITHIN;
        loop {
            match self.child.try_wait() {
                Ok(Some(how)) if how.success() => return Ok(()),
                Ok(Some(how)) => return Err(failed(format!("the server ended with {how}"))),
                Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
                Ok(None) => {
                    return Err(failed(format!("the server did not end within {END_WITHIN:?}")));
                }
                Err(error) => return Err(failed(format!("the server: {error}"))),
            }
        }
    }

    #[cfg(unix)]
    fn ask_to_end(&self) {
        use rustix::process::{kill_process, Pid, Signal};
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // If it has ended already, the wait returns its exit.
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
    }

    #[cfg(not(unix))]
    fn ask_to_end(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        match self.child.try_wait() {
            Ok(Some(_)) => {}
            _ => {
                let _ = self.child.kill();
                if let Err(error) = self.child.wait() {
                    tell!("turnwheel: the server that was measured: {error}");
                }
            }
        }
    }
}
