//! The processors `log` and `files`: outputs of jobs on standard output, and in files.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use turnwheel_jobs::{Processed, Processor, Settings};

use crate::io::HostIo;

/// Folder of the files unless a job names one, as of Dkron.
const FOLDER: &str = "/var/log/dkron";

/// Bytes of one write: a pipe that has room takes as many without blocking.
const CHUNK: usize = 4_096;

/// Time limit for a reader of standard output that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// Refuses settings that a processor does not have.
pub(super) fn only(settings: &Settings, known: &[&str]) -> Result<(), String> {
    match settings.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let known = [&["forward", "order"], known].concat().join(", ");
            Err(format!("{name}: there is no such setting; there are: {known}"))
        }
    }
}

/// Writes outputs to standard output, those of failures to standard error.
#[derive(Debug)]
pub(super) struct Log;

impl Processor for Log {
    fn check(&self, settings: &Settings) -> Result<(), String> {
        only(settings, &[])
    }

    fn process(&self, processed: &Processed<'_>, _: &Settings) -> Result<String, String> {
        let (text, is_success) = (framed(processed), processed.done.is_success);
        let written = match is_success {
            true => write_patiently(std::io::stdout().as_fd(), text.as_bytes()),
            false => write_patiently(std::io::stderr().as_fd(), text.as_bytes()),
        };
        written.map_err(|error| format!("the log takes no output: {error}"))?;
        Ok("Output in the log of the server".to_owned())
    }
}

/// An output between lines that name its run.
fn framed(processed: &Processed<'_>) -> String {
    let Processed { work, done, .. } = processed;
    let (job, launch, attempt) = (&work.job, work.launch, work.attempt);
    let outcome = if done.is_success { "succeeded" } else { "failed" };
    let (planned, node) = (work.planned, &work.node);
    let end = if done.output.ends_with('\n') || done.output.is_empty() { "" } else { "\n" };
    format!(
        "--- job {job}, launch {launch} of {planned}, attempt {attempt} on {node}: {outcome}\n\
         {}{end}--- end of job {job}, launch {launch}, attempt {attempt}\n",
        done.output
    )
}

/// Writes in small parts, each when there is room: nobody may read the other end.
fn write_patiently(to: impl AsFd, mut bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::from(to.as_fd().try_clone_to_owned()?);
    let until = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        let wait = Timespec { tv_sec: seconds, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds = [PollFd::from_borrowed_fd(to.as_fd(), PollFlags::OUT)];
        if poll(&mut fds, Some(&wait))? == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::TimedOut));
        }
        let written = file.write(&bytes[..bytes.len().min(CHUNK)])?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Writes each output to a file of its own.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) io: HostIo,
}

impl Processor for Files {
    fn check(&self, settings: &Settings) -> Result<(), String> {
        only(settings, &["log_dir"])?;
        match settings.get("log_dir").filter(|folder| !folder.is_empty()) {
            Some(folder) if !Path::new(folder).is_absolute() => {
                Err(format!("log_dir: «{folder}» does not begin at /: give the whole path"))
            }
            _ => Ok(()),
        }
    }

    fn process(&self, processed: &Processed<'_>, settings: &Settings) -> Result<String, String> {
        self.io.may_run().map_err(|_| {
            "files are not written here, as commands are not run: allow both by the setting \
             io.allow-shell or, without tokens, by turnwheel serve --allow-shell"
        })?;
        let folder = settings.get("log_dir").filter(|folder| !folder.is_empty());
        let folder = PathBuf::from(folder.map_or(FOLDER, String::as_str));
        let work = processed.work;
        // Names of jobs have no slashes, and those of nodes shall have none.
        let node = work.node.replace(['/', '\0'], "_");
        let name = format!("{}-{}-{}-{node}.log", work.job, work.launch, work.attempt);
        let path = folder.join(name);
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&folder).map_err(told)?;
        fs::write(&path, &processed.done.output).map_err(told)?;
        Ok(path.display().to_string())
    }
}
