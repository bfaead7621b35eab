//! Values that a schedule leaves to the system with `~`: from a hash of the job's name.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Hash for the fields of a pattern that are `~`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    /// SHA-256 of the name and the field, reduced to the step of the field: `~/15` fires four times an
    /// hour.
    #[default]
    Even,
    /// The sum of the name's code points, as in Dkron, so that an imported job keeps its times. It
    /// replaces `~` by a number, so a step with it means what the text then says.
    Legacy,
}

/// A number for a field of a job: the same on each node and after each start.
pub(super) fn even(name: &str, field: &str) -> u64 {
    let digest = Sha256::new().chain_update(name).chain_update([0]).chain_update(field).finalize();
    let head: [u8; 8] = digest[..8].try_into().expect("a digest has 32 bytes");
    u64::from_be_bytes(head)
}

/// Dkron's number for a field.
pub(super) fn legacy(name: &str, field: &str) -> u64 {
    let sum: u64 = name.chars().map(u64::from).sum();
    match field {
        "hour" => sum % 24,
        "day of the month" => sum % 28 + 1,
        "month" => sum % 12 + 1,
        "weekday" => sum % 7,
        _ => sum % 60,
    }
}

/// Delay of a launch within `max_us`: the same each time for the same job and planned time.
pub(crate) fn jitter(name: &str, planned_us: u64, max_us: u64) -> u64 {
    match max_us {
        0 => 0,
        max => even(name, &planned_us.to_string()) % max,
    }
}
