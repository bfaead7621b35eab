//! Records of processes that ended without closing: by `kill -9`, a crash, a loss of power.
//!
//! A starting world finds the records of earlier worlds that did not end in order. [`note`] stores
//! these findings beside the plans, so that operators can read them later: in the log of the
//! server, at `api/v1/world`, in the console.

use serde::{Deserialize, Serialize};
use turnwheel_actors::entity::StoreError;
use turnwheel_engine::{PlanState, Time, World};

/// Under which name the store keeps them.
const ENTITY: &str = "turnwheel.incidents";
const KEY: &str = "all";

/// Writers of states carry an epoch; these compete by versions alone.
const EPOCH: u64 = 1;

/// Maximum number of incidents kept: the newest ones.
pub const INCIDENTS_MAX: usize = 50;

/// A process that ended without closing, and the state of its plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// When the next world found it, and went on.
    pub found_at: Time,
    /// Name of the world that ended.
    pub name: String,
    /// The machine that it was on.
    pub host: String,
    /// Its process.
    pub process: u32,
    /// When it had begun.
    pub since: Time,
    /// Plans that were under way, and go on with the world that found it.
    pub continued: u64,
    /// Plans that were paused, and wait for an operator as before.
    pub paused: u64,
}

impl std::fmt::Display for Incident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, process, continued, paused, .. } = self;
        let plans = |count: u64, one: &str, many: &str| match count {
            1 => format!("1 plan {one}"),
            count => format!("{count} plans {many}"),
        };
        let (goes_on, is_paused) =
            (plans(*continued, "goes on", "go on"), plans(*paused, "is paused", "are paused"));
        write!(f, "the process before ({process}, «{name}») ended without closing: ")?;
        write!(f, "{goes_on}, {is_paused}")
    }
}

/// Stores the processes that ended without closing, as this world found them; returns the new ones.
///
/// Call it once, after the world was made. Without findings it costs nothing, else a commit.
///
/// # Errors
///
/// The store failed; then the incident is only in the log.
pub async fn note(world: &World) -> Result<Vec<Incident>, StoreError> {
    if world.predecessors().is_empty() {
        return Ok(Vec::new());
    }
    let counts = world.counts().await.map_err(|error| StoreError::Failed(error.to_string()))?;
    let (mut continued, mut paused) = (0, 0);
    for group in counts.groups() {
        match group.state {
            PlanState::Stopped => {}
            PlanState::Paused => paused += group.plans,
            _ => continued += group.plans,
        }
    }
    let found_at = Time::from(std::time::SystemTime::now());
    let of = |before: &turnwheel_engine::WorldView| Incident {
        found_at,
        name: before.name.clone(),
        host: before.meta.host.clone(),
        process: before.meta.process,
        since: before.since,
        continued,
        paused,
    };
    let new: Vec<Incident> = world.predecessors().iter().map(of).collect();
    let states = world.states();
    loop {
        let known = states.load(ENTITY, KEY).await?;
        let mut all = read(known.bytes.as_deref())?;
        all.extend(new.iter().cloned());
        all.drain(..all.len().saturating_sub(INCIDENTS_MAX));
        let bytes = serde_json::to_vec(&all).map_err(|error| {
            StoreError::Failed(format!("the list of incidents cannot be written: {error}"))
        })?;
        match states.save(ENTITY, KEY, bytes, known.version, EPOCH).await {
            Ok(_) => return Ok(new),
            // Another world over the same store has written meanwhile.
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The newest processes that have ended without closing, the oldest first.
///
/// # Errors
///
/// The store failed.
pub async fn all(world: &World) -> Result<Vec<Incident>, StoreError> {
    read(world.states().load(ENTITY, KEY).await?.bytes.as_deref())
}

fn read(bytes: Option<&[u8]>) -> Result<Vec<Incident>, StoreError> {
    let Some(bytes) = bytes else { return Ok(Vec::new()) };
    serde_json::from_slice(bytes)
        .map_err(|error| StoreError::Failed(format!("the list of incidents: {error}")))
}
