//! The definitions in the store of a world.

use turnwheel_engine::store::StateScan;
use turnwheel_engine::TimedStates;

use crate::catalogue::{Catalogue, Kept};
use crate::error::JourneyError;
use crate::limits::LIST_PAGE;

/// Name of the states of definitions.
pub(crate) const JOURNEY: &str = "turnwheel.journey";

/// Reads all definitions.
pub(crate) async fn read_all(states: &TimedStates) -> Result<Catalogue, JourneyError> {
    let (mut catalogue, mut after) = (Catalogue::default(), String::new());
    loop {
        let rows = states.list(JOURNEY, StateScan::After(after), LIST_PAGE).await;
        let rows = rows.map_err(JourneyError::failed)?;
        let Some(last) = rows.last() else { return Ok(catalogue) };
        after = last.key.clone();
        for row in rows {
            let kept: Result<Kept, _> =
                serde_json::from_slice(row.record.bytes.as_deref().unwrap_or_default());
            match kept {
                Ok(kept) => catalogue.set(&row.key, kept, row.record.version),
                Err(problem) => {
                    tracing::error!(journey = row.key, %problem, "a journey is unreadable");
                }
            }
        }
    }
}
