//! The world: its actions, queues, locks, and whether it is healthy.

use serde::{Deserialize, Serialize};

/// The actions that plans can begin with, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Actions {
    /// The actions.
    pub actions: Vec<ActionEntry>,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ActionEntry {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Whether its suspended steps are called when their plan is cancelled.
    pub is_cancellable: bool,
}

/// The queues, the default one first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Queues {
    /// The queues.
    pub queues: Vec<QueueInfo>,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// How many steps may run their code in it at once.
    pub size: u32,
    /// How many have a place.
    pub running: u32,
    /// How many wait for one.
    pub waiting: u32,
}

/// The locks that plans have or wait for, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Locks {
    /// The locks.
    pub locks: Vec<LockInfo>,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct LockInfo {
    /// Its name.
    pub name: String,
    /// The plan that has it.
    pub holder: Option<String>,
    /// The plans that wait for it, in their order.
    pub waiting: Vec<String>,
}

/// Whether the server does its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Health {
    /// Whether something was committed to the store within the last seconds.
    pub is_healthy: bool,
    /// Whether it takes new work.
    pub is_taking_work: bool,
    /// When the last probe was committed.
    pub committed_at: Option<String>,
    /// How long that took, in milliseconds.
    pub commit_ms: Option<f64>,
    /// What is wrong, if something is.
    pub problem: Option<String>,
    /// The version of the server.
    pub version: String,
}

/// Which world this is, where it runs, and what has happened to those before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct WorldInfo {
    /// The version of the server.
    pub version: String,
    /// What the world is called.
    pub name: String,
    /// Its store.
    pub store: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub process: u32,
    /// When it began.
    pub started_at: String,
    /// What the time is there.
    pub now: String,
    /// Processes that have ended without closing, the newest first.
    pub incidents: Vec<IncidentInfo>,
    /// How plans that are long over are removed by the clock, if they are.
    pub retention: Option<RetentionInfo>,
}

/// How plans that are long over are removed by the clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct RetentionInfo {
    /// How long ago a plan was stopped that is removed, in milliseconds.
    pub age_ms: u64,
    /// Where plans are written before they are removed.
    pub export: Option<String>,
    /// How often it is looked for such plans, in milliseconds.
    pub every_ms: u64,
    /// Plans that were removed since the world began.
    pub removed: u64,
    /// Plans that could not be exported the last time, and are kept.
    pub kept: u64,
    /// When it was last looked.
    pub last_at: Option<String>,
    /// What went wrong then, if something did; it is tried again the next time.
    pub problem: Option<String>,
}

/// A process that has ended without closing: by `kill -9`, a crash, or a loss of power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct IncidentInfo {
    /// When the next one found that, and went on.
    pub found_at: String,
    /// What its world was called.
    pub name: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub process: u32,
    /// When it had begun.
    pub since: String,
    /// Plans that were under way, and went on.
    pub continued: u64,
    /// Plans that were paused, and waited for somebody as before.
    pub paused: u64,
    /// The same in words.
    pub text: String,
}

/// How the world is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Stats {
    /// The version of the server.
    pub version: String,
    /// When its world began.
    pub started_at: String,
    /// What the time is there.
    pub now: String,
    /// How many plans are alike; groups without plans are left out.
    pub plans: Vec<CountInfo>,
    /// What plans wait for; those that wait for most come first.
    pub waiting: Vec<WaitingInfo>,
    /// The queues.
    pub queues: Vec<QueueInfo>,
    /// Locks that plans have or wait for.
    pub locks: u64,
    /// Events that could not be delivered since the world began.
    pub dead_letters: u64,
    /// Plans, steps and commits since the world began, as the engine counts them; times in microseconds.
    pub figures: serde_json::Value,
}

/// Plans that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CountInfo {
    /// Their state.
    pub state: String,
    /// Their result.
    pub result: String,
    /// What they wait for.
    pub waits: String,
    /// How many there are.
    pub plans: u64,
}

/// Plans that wait for the same kind of thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct WaitingInfo {
    /// What they wait for.
    pub waits: String,
    /// How many there are.
    pub plans: u64,
    /// The one that was created first.
    pub oldest: Option<String>,
    /// When that was created.
    pub oldest_at: Option<String>,
    /// What that one waits for, for people.
    pub waits_for: Option<String>,
}

/// Events that could not be delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct DeadLetterPage {
    /// How many there were in all, since the store was made.
    pub total: u64,
    /// Those that are kept and were not delivered later, the oldest first.
    pub letters: Vec<DeadLetterInfo>,
    /// Where the next page begins, if there is one.
    #[serde(default)]
    pub next: Option<String>,
}

/// An event that no step has taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct DeadLetterInfo {
    /// What tells it from others of its store, counted from 1.
    pub number: u64,
    /// When it was refused, or its step ended without it.
    pub at: String,
    /// The plan that it was for.
    pub plan: String,
    /// The step.
    pub step: u32,
    /// The id that its sender gave.
    pub id: Option<String>,
    /// What it says.
    pub event: serde_json::Value,
    /// Why nobody took it.
    pub reason: String,
}

/// A dead letter is to be delivered again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Redeliver {
    /// To another step of the same plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
}
