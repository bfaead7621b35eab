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
            }
        };
        worlds.iter().map(node).collect()
    }
}
