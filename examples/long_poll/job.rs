//! The job outside: a process of its own that needs some seconds, and the action that polls it.

use std::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Poll, Polled, Polling, Polls, RetryPolicy, StepContext,
};

/// How often the job says how far it is.
const TICK: Duration = Duration::from_millis(50);
/// A job that has said nothing for so long is dead.
const DEAD: Duration = Duration::from_secs(10);

/// Writes a file as a whole: who reads it sees the old text or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, path)
}

/// The process outside: says how far it is, from 0 to 100, until it is done or there is a stop file.
/// It runs once for each file, which is made by the first: a later one has nothing to do.
pub(crate) fn work(state: &Path, time: Duration) -> Result<(), Box<dyn Error>> {
    match File::create_new(state) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    };
    let mut starts = File::options().append(true).create(true).open(starts(state)?)?;
    starts.write_all(format!("{}\n", state.display()).as_bytes())?;
    let stop = state.with_extension("stop");
    let ticks = (time.as_millis() / TICK.as_millis()).max(1);
    for tick in 0..=ticks {
        if stop.exists() {
            replace(state, "stopped")?;
            return Ok(());
        }
        replace(state, &(tick * 100 / ticks).to_string())?;
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// The file of the jobs that have begun, one line each.
pub(crate) fn starts(state: &Path) -> Result<PathBuf, Box<dyn Error>> {
    Ok(state.parent().ok_or("a job's file lies in a folder")?.join("starts"))
}

/// Runs a job outside and waits for it.
pub(crate) struct RunJob {
    pub(crate) folder: PathBuf,
}

/// What is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) time_ms: u64,
}

/// How it stands.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) polled: Polled<PathBuf>,
}

impl Action for RunJob {
    const NAME: &'static str = "run job";
    type Input = Job;
    type Output = Seen;
    type Phases = Polls;

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::attempts(3)
    }

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl Polling for RunJob {
    type Task = PathBuf;

    fn polled(output: &mut Seen) -> &mut Polled<PathBuf> {
        &mut output.polled
    }

    /// The job's file is called by the idempotency key: if the engine is killed right after the start,
    /// the next one starts a job that finds the file, and has nothing to do.
    fn start(&self, step: &mut StepContext<Self>) -> Result<PathBuf, ActionError> {
        let state = self.folder.join(step.idempotency_key().replace('/', "-"));
        let mut job = Command::new(std::env::current_exe()?);
        job.args(["--job-ms", &step.input.time_ms.to_string(), "--folder"]).arg(&state);
        job.stdin(Stdio::null()).stdout(Stdio::null());
        // Ctrl-C in the terminal is not for the job.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut job, 0);
        let mut job = job.spawn()?;
        // Nothing but the file counts; only the system wants to be asked how the process has ended.
        std::thread::spawn(move || job.wait());
        Ok(state)
    }

    fn poll(&self, state: &mut PathBuf, _: &mut StepContext<Self>) -> Result<Poll, ActionError> {
        let text = std::fs::read_to_string(&*state)?;
        if text == "100" {
            return Ok(Poll::Done);
        }
        let silent = SystemTime::now().duration_since(state.metadata()?.modified()?);
        if silent.is_ok_and(|silent| silent > DEAD) {
            // Nothing is in the way of a new start.
            std::fs::remove_file(&*state)?;
            let message = format!("the job has said nothing for {DEAD:?}, the last was «{text}»");
            return Err(ActionError::new("dead", message));
        }
        let percent = text.parse::<f64>().ok();
        Ok(Poll::Pending(percent.map(|percent| percent / 100.0)))
    }

    fn failures_max(&self) -> u32 {
        // A process that was just started may not have made its file.
        50
    }

    fn cancel(&self, state: &mut PathBuf, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        File::create(state.with_extension("stop"))?;
        Ok(())
    }

    fn pause(&self, polls: u32) -> Duration {
        // Often in the beginning, then less.
        Duration::from_millis(100) * (1 + polls / 5).min(10)
    }
}
