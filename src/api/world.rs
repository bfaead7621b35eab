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

/// How the world is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Stats {
    /// The version of the server.
    pub version: String,
    /// When it began.
    pub started_at: String,
    /// What the time is there.
    pub now: String,
    /// The queues.
    pub queues: Vec<QueueInfo>,
    /// How many locks are held.
    pub locks: u32,
}
