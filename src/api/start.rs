//! Start of plans.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A plan that is to begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "server", schema(example = json!({
    "action": "flow", "input": { "flow": "shop/mail", "input": { "to": "ann" } },
})))]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The name of its root action.
    pub action: String,
    /// The input of that.
    #[serde(default)]
    pub input: serde_json::Value,
    /// The id of the plan: a UUID, if it is not to be chosen by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Labels, which people see with the plan.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The priority of its steps in queues: higher ones first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// After how long it is cancelled if it still runs, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Not to be planned before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<String>,
    /// Not to be planned after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_before: Option<String>,
    /// Not to be planned before these plans are over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Not to be planned without permission.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_frozen: bool,
}

/// A plan that is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Started {
    /// The plan.
    pub id: String,
    /// Whether it was there already: a request with the same idempotency key has begun it.
    pub is_repeated: bool,
}

/// A plan that is to be run in place of another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Rerun {
    /// Another input than the plan had. Of a retry: another input of the failed task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<serde_json::Value>,
    /// Another version of the flow than the plan had; may be `latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
