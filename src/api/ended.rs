//! Plans that have ended, by time.

use serde::{Deserialize, Serialize};

/// Plans that have ended within the last hours, counted by the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Ended {
    /// From this time on, to the minute.
    pub from: String,
    /// Time of the server.
    pub until: String,
    /// Length of each part.
    pub part_ms: u64,
    /// All of them.
    pub all: EndedPlans,
    /// The same by time, the oldest first; parts without plans have zeros.
    pub parts: Vec<EndedPlans>,
    /// The same by name, the most frequent first; names beyond 1,000 are left out.
    pub names: Vec<EndedName>,
}

/// Numbers of ended plans and their durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct EndedPlans {
    /// Plans that have ended, however.
    pub ended: u64,
    /// Those with the result `error`.
    pub failed: u64,
    /// Median of their durations, from the begin of their planning on; none without plans. It is
    /// estimated from classes of durations: 1, 2, 5, 10 ms and so on.
    pub p50_ms: Option<f64>,
    /// Within which 99 of 100 have ended, likewise.
    pub p99_ms: Option<f64>,
}

/// Ended plans with one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct EndedName {
    /// The label of the plans, for runs of flows `namespace/name:version`; else their action. Empty
    /// for names that came after very many others.
    pub name: String,
    /// Their numbers.
    #[serde(flatten)]
    pub plans: EndedPlans,
}
