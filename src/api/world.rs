//! The world: its actions, queues, locks, and whether it is healthy.

use serde::{Deserialize, Serialize};

/// The actions that plans can begin with, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Actions {
    /// The actions.
    pub actions: Vec<ActionEntry>,
    /// The cursor of the next page, if there is one.
    #[serde(default)]
    pub next: Option<String>,
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
    /// Maximum number of its steps that run at once.
    pub size: u32,
    /// Number of steps with a place.
    pub running: u32,
    /// Number of steps waiting for a place.
    pub waiting: u32,
}

/// The locks that plans have or wait for, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Locks {
    /// The locks.
    pub locks: Vec<LockInfo>,
    /// The cursor of the next page, if there is one.
    #[serde(default)]
    pub next: Option<String>,
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
    /// Duration of that commit, in milliseconds.
    pub commit_ms: Option<f64>,
    /// The problem, if there is one.
    pub problem: Option<String>,
    /// The version of the server.
    pub version: String,
}

/// Identity of the world, its host, and incidents of earlier worlds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct WorldInfo {
    /// The version of the server.
    pub version: String,
    /// Name of the world.
    pub name: String,
    /// Its store.
    pub store: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub process: u32,
    /// When it began.
    pub started_at: String,
    /// Time of the server.
    pub now: String,
    /// Processes that have ended without closing, the newest first.
    pub incidents: Vec<IncidentInfo>,
    /// Removal of old plans by age, if enabled.
    pub retention: Option<RetentionInfo>,
}

/// Removal of old plans by age.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct RetentionInfo {
    /// Age since its stop at which a plan is removed, in milliseconds.
    pub age_ms: u64,
    /// Where plans are exported before their removal.
    pub export: Option<String>,
    /// Interval between looks for such plans, in milliseconds.
    pub every_ms: u64,
    /// Plans that were removed since the world began.
    pub removed: u64,
    /// Plans that could not be exported the last time, and are kept.
    pub kept: u64,
    /// When it was last looked.
    pub last_at: Option<String>,
    /// The error of the last look, if it failed; it is repeated at the next one.
    pub problem: Option<String>,
}

/// A process that has ended without closing: by `kill -9`, a crash, or a loss of power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct IncidentInfo {
    /// When the next one found that, and went on.
    pub found_at: String,
    /// Name of its world.
    pub name: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub process: u32,
    /// When it had begun.
    pub since: String,
    /// Plans that were under way, and went on.
    pub continued: u64,
    /// Plans that were paused, and waited for an operator as before.
    pub paused: u64,
    /// The same in words.
    pub text: String,
}

/// State of the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Stats {
    /// The version of the server.
    pub version: String,
    /// When its world began.
    pub started_at: String,
    /// Time of the server.
    pub now: String,
    /// Numbers of plans by state and result; groups without plans are left out.
    pub plans: Vec<CountInfo>,
    /// Reasons for waiting; the most frequent ones first.
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
    /// The reason for waiting.
    pub waits: String,
    /// Number of plans.
    pub plans: u64,
}

/// Plans that wait for the same kind of thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct WaitingInfo {
    /// The reason for waiting.
    pub waits: String,
    /// Number of plans.
    pub plans: u64,
    /// The oldest plan.
    pub oldest: Option<String>,
    /// When that was created.
    pub oldest_at: Option<String>,
    /// Reason of the oldest plan's wait, in words for people.
    pub waits_for: Option<String>,
}

/// Events that could not be delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct DeadLetterPage {
    /// Total number since the store was made.
    pub total: u64,
    /// Letters that are kept and were not delivered later, the oldest first.
    pub letters: Vec<DeadLetterInfo>,
    /// Position of the next page, if there is one.
    #[serde(default)]
    pub next: Option<String>,
}

/// An event that no step has taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct DeadLetterInfo {
    /// Its number in the store, counted from 1.
    pub number: u64,
    /// When it was refused, or its step ended without it.
    pub at: String,
    /// The plan that it was for.
    pub plan: String,
    /// The step.
    pub step: u32,
    /// The id that its sender gave.
    pub id: Option<String>,
    /// The event.
    pub event: serde_json::Value,
    /// Reason why no step took it.
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

/// Credentials of a browser for its session.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct SignIn {
    /// The token.
    pub token: String,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").finish_non_exhaustive()
    }
}

/// The signed-in principal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct SessionInfo {
    /// The name that is noted with what they do.
    pub name: String,
    /// Role: `read` or `operate`.
    pub role: String,
}
