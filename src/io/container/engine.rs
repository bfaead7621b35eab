//! The command line of a container engine: `docker`, `podman`, or a compatible one.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use turnwheel_flow::{IoError, IoErrorKind, ProcessResult};

use crate::io::command::installed;
use crate::io::options::IoOptions;
use crate::io::process::{supervise, Limits};

/// Command lines to look for; the first one found is used.
const KNOWN: [&str; 2] = ["docker", "podman"];

/// Value of the setting that disables containers.
const NONE: &str = "none";

/// Time limit of an engine's answer; the daemon may hang.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// Time between SIGTERM and SIGKILL of its command line.
const GRACE: Duration = Duration::from_secs(1);

/// Maximum bytes of an answer: a list of containers, or the details of some.
const SAID_MAX: usize = 16 * 1_024 * 1_024;

/// Characters of its output that go into an error.
const SHOWN_MAX: usize = 1_000;

/// The engine of containers of this host.
pub(crate) struct Engine<'a> {
    pub(super) options: &'a IoOptions,
    are_over: &'a AtomicBool,
    program: PathBuf,
}

impl<'a> Engine<'a> {
    /// The engine named by the options, else the first one that is installed.
    pub(crate) fn find(options: &'a IoOptions, are_over: &'a AtomicBool) -> Result<Self, IoError> {
        let wrong = |problem: String| IoError::new(IoErrorKind::Unsupported, problem);
        let program = match options.container_engine.as_deref() {
            Some(NONE) => {
                let problem = "containers are not run here: io.container-engine is «none»";
                return Err(IoError::new(IoErrorKind::Forbidden, problem));
            }
            Some(path) if path.contains('/') => {
                let path = PathBuf::from(path);
                path.is_file().then_some(path)
            }
            Some(name) => installed(&[name]),
            None => KNOWN.iter().find_map(|name| installed(&[name])),
        };
        let program = program.ok_or_else(|| match &options.container_engine {
            Some(name) => wrong(format!(
                "containers cannot be run here: io.container-engine names «{name}», which is not installed"
            )),
            None => wrong(format!(
                "containers cannot be run here: no {} is installed; install one of them, or let io.container-engine name one",
                KNOWN.join(" or ")
            )),
        })?;
        Ok(Self { options, are_over, program })
    }

    /// The same, for a thread of its own.
    pub(super) fn program(&self) -> PathBuf {
        self.program.clone()
    }

    pub(super) fn with(program: PathBuf, options: &'a IoOptions, are_over: &'a AtomicBool) -> Self {
        Self { options, are_over, program }
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Whether this process is about to end.
    pub(super) fn is_over(&self) -> bool {
        self.are_over.load(Ordering::Relaxed)
    }

    /// A command of it. It has the environment of this process, which may name its daemon, except
    /// variables that are meant for this process alone, such as secrets.
    pub(super) fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear();
        let own = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("TURNWHEEL_");
        command.envs(env::vars_os().filter(|(name, _)| !own(name)));
        command
    }

    /// Runs a query, and returns its output if it succeeded.
    pub(super) fn ask(
        &self,
        arguments: &[&str],
        time: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<String, IoError> {
        let list: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        self.run(self.command(&list), arguments[0], time, is_over)
    }

    /// The same with a command that was made already.
    pub(super) fn run(
        &self,
        command: Command,
        verb: &str,
        time: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<String, IoError> {
        let name = format!("{} {verb}", self.name());
        let limits = Limits { time, grace: GRACE, output: SAID_MAX };
        let ended = supervise(command, &name, None, limits, is_over)?;
        if ended.code == 0 {
            return Ok(ended.stdout);
        }
        let message = format!("{name} failed with code {}: {}", ended.code, shown(&ended));
        Err(IoError::new(IoErrorKind::Communication, message))
    }

    /// Details of containers; missing ones are left out.
    pub(super) fn inspect(&self, ids: &[&str]) -> Result<Vec<Value>, IoError> {
        let mut arguments = vec!["container", "inspect", "--format", "{{json .}}"];
        arguments.extend(ids);
        let list: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let limits = Limits { time: ANSWER, grace: GRACE, output: SAID_MAX };
        let name = format!("{} inspect", self.name());
        let ended = supervise(self.command(&list), &name, None, limits, &|| false)?;
        let lines = ended.stdout.lines().filter(|line| !line.trim().is_empty());
        let known: Result<Vec<Value>, _> = lines.map(serde_json::from_str).collect();
        known.map_err(|error| {
            let message = format!("{name} says what is no JSON: {error}");
            IoError::new(IoErrorKind::Communication, message)
        })
    }
}

/// The engine's output, for people: the first whole lines of a long one, because a part of a line
/// may be a part of a secret, which is not found to be masked.
pub(super) fn shown(ended: &ProcessResult) -> String {
    let said = if ended.stderr.trim().is_empty() { &ended.stdout } else { &ended.stderr };
    let said = said.trim();
    let Some((cut, _)) = said.char_indices().nth(SHOWN_MAX) else { return said.to_owned() };
    let end = said[..cut].rfind('\n').unwrap_or(0);
    format!("{}…", &said[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_cut_between_its_lines() {
        let shown = |stderr: String| shown(&ProcessResult { stderr, ..ProcessResult::default() });
        assert_eq!(shown(" short\nlines \n".to_owned()), "short\nlines");
        let line = format!("first line\n{} s3cret", "x".repeat(SHOWN_MAX - 14));
        assert_eq!(shown(line.clone()), "first line…");
        assert_eq!(shown(line[11..].repeat(2)), "…");
    }
}
