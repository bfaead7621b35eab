//! The nodes: processes that share a store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Prefix of the labels of a node among what its world says of itself.
pub const LABEL: &str = "label.";

/// The processes that have the store, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Nodes {
    /// The nodes.
    pub nodes: Vec<NodeInfo>,
}

/// A process that has the store, alone or with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// The number of its world: later ones have higher numbers.
    pub id: u64,
    /// Whether it runs plans; other nodes run what this one triggers if it does not.
    pub is_executor: bool,
    /// Its version.
    pub version: String,
    /// The address of its API, if it has said one.
    pub address: Option<String>,
    /// The machine.
    pub host: String,
    /// The process.
    pub process: u32,
    /// When it was registered.
    pub since: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// In how many of 1,024 slots it owns the plans.
    pub slots: u64,
    /// The rest of its lease, in milliseconds; nothing if one process has the store for itself.
    pub lease_left_ms: Option<u64>,
    /// Whether its lease is not over: others get the slots of one whose lease is over.
    pub is_alive: bool,
    /// Whether it gives its slots away, or has done so, and begins no new plans.
    #[serde(default)]
    pub is_draining: bool,
}

/// The owners of the slots, in runs of neighbours with the same owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct SlotMap {
    /// The runs: together they are all 1,024 slots.
    pub runs: Vec<SlotRun>,
}

/// Neighbouring slots with the same owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct SlotRun {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
    /// The number of the owner; nothing if nobody has them.
    pub owner: Option<u64>,
    /// The name of the owner.
    pub node: Option<String>,
    /// The highest of their epochs: each change of owner raises that of a slot.
    pub epoch: u64,
}

impl SlotMap {
    /// The runs of a table of owners.
    #[cfg(any(feature = "cli", feature = "server"))]
    pub fn of(
        owners: &[turnwheel_engine::store::Owner],
        worlds: &[turnwheel_engine::WorldView],
    ) -> Self {
        let mut runs: Vec<SlotRun> = Vec::new();
        for (slot, owner) in (0_u64..).zip(owners) {
            let world = Some(owner.world).filter(|world| *world != 0);
            match runs.last_mut() {
                Some(run) if run.owner == world => {
                    (run.last, run.epoch) = (slot, run.epoch.max(owner.epoch));
                }
                _ => {
                    let row = worlds.iter().find(|row| Some(row.id) == world);
                    let node = row.map(|row| row.name.clone());
                    let (first, epoch) = (slot, owner.epoch);
                    runs.push(SlotRun { first, last: slot, owner: world, node, epoch });
                }
            }
        }
        Self { runs }
    }
}

impl NodeInfo {
    /// The nodes of a table of worlds, with what is left of their leases.
    #[cfg(any(feature = "cli", feature = "server"))]
    pub fn all(
        worlds: &[turnwheel_engine::WorldView],
        left: Option<&[(u64, std::time::Duration)]>,
    ) -> Vec<Self> {
        use turnwheel_engine::store::WorldKind;

        let node = |world: &turnwheel_engine::WorldView| {
            let lease = left.map(|left| {
                let own = left.iter().find(|(id, _)| *id == world.id);
                own.map_or(0, |(_, left)| u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
            });
            let meta = &world.meta;
            let labels = meta.given.iter().filter_map(|(key, value)| {
                Some((key.strip_prefix(LABEL)?.to_owned(), value.clone()))
            });
            Self {
                name: world.name.clone(),
                id: world.id,
                is_executor: world.kind == WorldKind::Executor,
                version: meta.version.clone(),
                address: meta.get("address").map(str::to_owned),
                host: meta.host.clone(),
                process: meta.process,
                since: world.since.to_string(),
                labels: labels.collect(),
                slots: world.slots as u64,
                lease_left_ms: lease,
                is_alive: lease != Some(0),
                is_draining: world.is_draining(),
            }
        };
        worlds.iter().map(node).collect()
    }
}
