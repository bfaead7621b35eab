//! The runtime below a world: workers, actors by class; and entities.

use serde::{Deserialize, Serialize};

/// The groups of threads that a world runs in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct RuntimeInfo {
    /// Time of the server.
    pub now: String,
    /// The groups: the world's first.
    pub groups: Vec<GroupInfo>,
}

/// A group of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// Its workers.
    pub workers: Vec<WorkerInfo>,
    /// Live tasks, which are actors.
    pub tasks: u64,
    /// Tasks that wait in the queue that all workers share.
    pub injected: u64,
    /// Timers that are armed.
    pub timers: u64,
    /// Bytes queued in all mailboxes, about.
    pub mailbox_bytes: u64,
    /// Threads for code that blocks.
    pub blocking_threads: u64,
    /// Workers without work.
    pub parked: u32,
    /// Turns that lasted too long since the begin.
    pub long_turns: u64,
    /// Tasks with a long turn now.
    pub running: Vec<TurnInfo>,
    /// Tasks by class, the largest class first.
    pub classes: Vec<ClassInfo>,
}

/// A worker, counted since its begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct WorkerInfo {
    /// Turns begun.
    pub turns: u64,
    /// Jobs run.
    pub jobs: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Number of steals from other workers.
    pub steals: u64,
    /// Number of times it parked.
    pub parks: u64,
    /// Turns that used up their budget.
    pub requeues: u64,
    /// Tasks that wait for it now.
    pub queued: u64,
    /// Time without work, in milliseconds.
    pub idle_ms: f64,
    /// Duration of its current turn in milliseconds, if it is a long one.
    pub running_ms: Option<f64>,
}

/// A task with a long turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TurnInfo {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// The worker, counted from 0.
    pub worker: Option<u32>,
    /// Duration in milliseconds.
    pub running_ms: f64,
    /// Messages that wait for it.
    pub queued: u64,
}

/// Tasks of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ClassInfo {
    /// The name of the class.
    pub class: String,
    /// Live tasks.
    pub tasks: u64,
    /// Turns that were sampled: about one in 256.
    pub sampled: u64,
    /// Jobs in these turns.
    pub jobs: u64,
    /// Time between readiness of tasks and begin of their turn.
    pub waited: LatencyInfo,
    /// Duration of turns.
    pub ran: LatencyInfo,
}

/// A latency in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct LatencyInfo {
    /// Half are faster.
    pub p50_us: f64,
    /// Nine of ten are faster.
    pub p90_us: f64,
    /// 99 of 100 are faster.
    pub p99_us: f64,
    /// The slowest.
    pub max_us: f64,
    /// Distribution: the limit of each bucket is twice the previous one.
    pub buckets: Vec<BucketInfo>,
}

/// A bucket of a latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct BucketInfo {
    /// The longest in it, in microseconds.
    pub upto_us: f64,
    /// Number of turns.
    pub turns: u64,
}

/// The types of entities that have been used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct EntityTypes {
    /// Time of the server.
    pub now: String,
    /// The types; that of plans first.
    pub types: Vec<EntityTypeInfo>,
}

/// The entities of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct EntityTypeInfo {
    /// Its name.
    pub name: String,
    /// Activations that exist.
    pub active: u64,
    /// Keys that wait for room.
    pub waiting: u64,
    /// Activations since the begin.
    pub activations: u64,
    /// Bytes that they take, as far as they say so.
    pub bytes: u64,
    /// Activations that had to make room.
    pub shed: u64,
    /// Keys whose messages were refused for lack of room.
    pub refused: u64,
    /// Activations that were stuck and replaced.
    pub replaced: u64,
    /// Time since the last message of the least recently used entity, in milliseconds.
    pub oldest_idle_ms: Option<f64>,
    /// After how long without a message one leaves memory, in milliseconds; nothing if none does.
    pub idle_limit_ms: Option<f64>,
    /// Whether their state can be stored.
    pub is_stored: bool,
    /// Whether they are the plans of the world.
    pub is_plan: bool,
}

/// One entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct EntityInfo {
    /// Its type.
    pub name: String,
    /// Its key.
    pub key: String,
    /// State of its key for messages: `none` (a message activates it), `active`, `leaving`,
    /// `waiting` or `held` (messages are refused).
    pub state: String,
    /// The number of its activation.
    pub activation: Option<u64>,
    /// The phase of its actor.
    pub phase: Option<String>,
    /// Messages that wait for it.
    pub queued: u64,
    /// Time since its last message, in milliseconds.
    pub idle_ms: Option<f64>,
    /// Bytes that it takes, as far as it says so.
    pub bytes: u64,
    /// Why its last activation failed.
    pub failure: Option<String>,
    /// Time for which messages are still refused because of that, in milliseconds.
    pub held_ms: Option<f64>,
    /// Its state in the store.
    pub stored: Option<StoredInfo>,
}

/// A stored state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct StoredInfo {
    /// Rises with each write.
    pub version: u64,
    /// Number of bytes; none if it was removed.
    pub bytes: Option<u64>,
    /// The value, if it is JSON of no more than 100,000 bytes.
    pub value: serde_json::Value,
}
