//! Executors: they do the work of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{Time, World};

use crate::live::LiveOutput;
use crate::schedule::Span;
use crate::spec::Settings;

/// One attempt, as an executor gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Work {
    /// The job.
    pub job: String,
    /// Its launch.
    pub launch: u64,
    /// The planned time of the launch.
    pub planned: Time,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The node.
    pub node: String,
    /// The executor.
    pub executor: String,
    /// Its settings.
    pub config: Settings,
    /// Time limit of the attempt.
    pub timeout: Option<Span>,
    /// Bytes of output to keep.
    pub output_max: u64,
    /// Runs with the same key run one at a time.
    pub(crate) concurrency_key: String,
    /// Key of the attempt, for services that recognise requests by it.
    pub key: String,
    /// Processors of its output.
    #[serde(default)]
    pub(crate) processors: BTreeMap<String, Settings>,
    /// Labels of the nodes that may run it.
    #[serde(default)]
    pub(crate) targets: BTreeMap<String, String>,
}

/// Outcome of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Whether it succeeded.
    pub is_success: bool,
    /// Why it did not; empty if it did.
    pub reason: String,
    /// The end of its output.
    pub output: String,
    /// Bytes that it has written.
    pub output_bytes: u64,
}

impl Done {
    /// A success with an output.
    pub fn success(output: impl Into<String>) -> Self {
        let output = output.into();
        Self { is_success: true, output_bytes: output.len() as u64, output, ..Self::default() }
    }

    /// A failure with its reason and the output so far.
    pub fn failure(reason: impl Into<String>, output: impl Into<String>) -> Self {
        let output = output.into();
        let output_bytes = output.len() as u64;
        Self { is_success: false, reason: reason.into(), output, output_bytes }
    }
}

/// Answer of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The attempt is over.
    Done(Done),
    /// It goes on elsewhere: ask again after this time. No thread is held meanwhile.
    Later(Duration),
}

/// One call of an executor.
pub struct Call<'a> {
    /// Whether the attempt was asked about before.
    pub is_again: bool,
    /// When it was called first.
    pub began: Time,
    pub(crate) is_cancelled: &'a (dyn Fn() -> bool + Sync),
    pub(crate) live: &'a LiveOutput,
    pub(crate) world: Option<World>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("is_again", &self.is_again).finish_non_exhaustive()
    }
}

impl<'a> Call<'a> {
    /// The same as a function, for code that looks from time to time.
    pub fn cancelled(&self) -> &'a (dyn Fn() -> bool + Sync) {
        self.is_cancelled
    }

    /// The world that the attempt runs in, for executors that begin plans of their own; nothing while
    /// it ends.
    pub fn world(&self) -> Option<&World> {
        self.world.as_ref()
    }

    /// Tells those that follow the run what it has just written.
    pub fn wrote(&self, bytes: &[u8]) {
        self.live.write(bytes);
    }

    /// Whether the attempt is to end: nobody waits for its result.
    pub fn is_cancelled(&self) -> bool {
        (self.is_cancelled)()
    }
}

/// A way to do the work of a job: a command, a request. Calls may block; they come from the blocking
/// pool.
pub trait Executor: Send + Sync + fmt::Debug + 'static {
    /// Checks settings before a job with them is stored.
    ///
    /// # Errors
    ///
    /// The settings cannot work: which one, what is wrong, and what to do.
    fn check(&self, config: &Settings) -> Result<(), String>;

    /// Checks settings against the world that runs the job, also before it is stored, and never
    /// waits. Settings that may work once more is known there are taken.
    ///
    /// # Errors
    ///
    /// Each run could only fail: which setting, what is wrong, and what to do.
    fn check_in(&self, world: &World, config: &Settings) -> Result<(), String> {
        let _any = (world, config);
        Ok(())
    }

    /// Looks whether it can work, in seconds at most. Answers what it is, for people.
    ///
    /// # Errors
    ///
    /// It cannot: why.
    fn health(&self) -> Result<String, String> {
        Ok("built in".to_owned())
    }

    /// Whether that look starts a process or asks another machine.
    fn looks_outside(&self) -> bool {
        false
    }

    /// Whether a call finds what an earlier call of the same attempt has begun, by [`Work::key`]: then it is
    /// called again after its process was killed, and else the outcome of the attempt is unknown.
    fn finds_its_own(&self) -> bool {
        false
    }

    /// Does an attempt, or asks about one that goes on.
    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict;
}
