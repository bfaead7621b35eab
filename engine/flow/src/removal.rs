//! Removal of flows: the name goes, the definition stays for the plans that began with it.

use std::fmt;

use turnwheel_actors::entity::StoreError as StateError;
use turnwheel_engine::StoreError;

use crate::flows::{schedule_name, FlowEntry, FlowError, Flows, INDEX, STORED_AS};
use crate::run::FlowStart;

/// Attempts to change the list of definitions while others change it.
const ATTEMPTS: usize = 100;

impl Flows {
    /// Removes a version of a flow, and the schedule that the flow itself has said if that starts this
    /// version. It is durable when this returns. Plans that are over keep their definition: they can
    /// be shown, retried and run again.
    ///
    /// # Errors
    ///
    /// There is no such version, plans of it are not over, or the store failed.
    pub async fn remove(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
    ) -> Result<FlowEntry, FlowError> {
        let id = format!("{namespace}/{name}:{version}");
        let unknown = || FlowError::Unknown(id.clone());
        let entry = self.list().into_iter().find(|it| it.id() == id).ok_or_else(unknown)?;
        let live = self.live(namespace, name).await?;
        let plans: Vec<_> = live.iter().filter(|(_, of)| of == version).collect();
        if let Some((plan, _)) = plans.first() {
            return Err(FlowError::UnderWay { flow: id, plans: plans.len(), plan: *plan });
        }
        self.remove_schedule(&entry).await?;
        let states = self.world.states();
        for _ in 0..ATTEMPTS {
            let stored = states.load(STORED_AS, INDEX).await.map_err(|error| failed(&error))?;
            let bytes = stored.bytes.unwrap_or_else(|| b"[]".to_vec());
            let mut entries: Vec<FlowEntry> =
                serde_json::from_slice(&bytes).map_err(|error| failed(&error))?;
            entries.retain(|it| it.id() != id);
            let bytes = serde_json::to_vec(&entries).map_err(|error| failed(&error))?;
            match states.save(STORED_AS, INDEX, bytes, stored.version, 0).await {
                Ok(_) => {
                    *self.bench.index.lock() = entries;
                    return Ok(entry);
                }
                Err(StateError::Conflict { .. }) => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Err(failed(&"too many definitions are changed at once"))
    }

    async fn remove_schedule(&self, entry: &FlowEntry) -> Result<(), FlowError> {
        let name = schedule_name(&entry.namespace, &entry.name);
        let wrong = |error: &dyn fmt::Display| FlowError::Schedule(error.to_string());
        let found = self.world.schedules().get(&name).await.map_err(|error| wrong(&error))?;
        let start: Option<FlowStart> = found.ok().and_then(|found| found.input.read().ok());
        if start.is_none_or(|start| start.definition != entry.hash) {
            return Ok(());
        }
        let removed = self.world.schedules().remove(&name).await.map_err(|error| wrong(&error))?;
        removed.map_err(|error| wrong(&error))
    }
}

fn failed(error: &dyn fmt::Display) -> FlowError {
    FlowError::Store(StoreError::Failed(error.to_string()))
}
