//! The worlds of a workload, over one store.

use std::time::Duration;

use turnwheel_engine::connect::Local;
use turnwheel_engine::internal::with_clock_hold;
use turnwheel_engine::{BuildError, SharedStore, World};
use turnwheel_runtime::Group;

use crate::fault_store::{FaultStore, Twin};
use crate::workload::Workload;

/// What is added to the seed of a world for the one after it: ids must not come again.
const NEXT_WORLD: u64 = 0xbf58_476d_1ce4_e5b9;

/// Starts the world with its store, or several that share it.
pub(super) async fn open<W: Workload>(
    workload: &W,
    store: &FaultStore,
    (plans, journal): (&Group, &Group),
    seed: u64,
) -> Result<Vec<World>, BuildError> {
    let count = workload.worlds();
    if count == 1 {
        let mut builder = World::builder().group(plans).io_group(journal).seed(seed);
        if store.twin() == Some(Twin::BelievesClock) {
            builder = with_clock_hold(builder, Duration::ZERO);
        }
        return Ok(vec![workload.world(builder).open(store.clone()).await?]);
    }
    let shared = SharedStore::open_in(store.clone(), journal, Local::new())?;
    let mut worlds = Vec::new();
    for number in 0..count as u64 {
        let seed = seed.wrapping_add(number.wrapping_mul(NEXT_WORLD));
        let builder = World::builder().name(format!("world {number}")).group(plans).seed(seed);
        worlds.push(workload.world(builder).join_later(&shared).await?);
    }
    Ok(worlds)
}
