//! Removal of flows: the name goes, the definition stays for the plans that began with it.

use std::fmt;

use turnwheel_actors::entity::StoreError as StateError;
use turnwheel_engine::internal::unanswered;
use turnwheel_engine::schedule::Expected;
use turnwheel_engine::{Action as _, ScheduleError, StoreError};

use crate::flows::{schedule_name, FlowEntry, FlowError, Flows, INDEX, STORED_AS};
use crate::run::{FlowPlan, FlowStart};

/// Attempts to change the list of definitions while others change it.
const ATTEMPTS: usize = 100;

/// Schedules that are read at once.
const SCHEDULES_PAGE: usize = 500;

impl Flows {
    /// Removes a version of a flow, and the schedule that the flow itself has said if that starts this
    /// version. It is durable when this returns. Plans that are over keep their definition: they can
    /// be shown, retried and run again.
    ///
    /// # Errors
    ///
    /// There is no such version, plans of it are not over, schedules start it, or the store failed.
    pub async fn remove(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
    ) -> Result<FlowEntry, FlowError> {
        let id = format!("{namespace}/{name}:{version}");
        let unknown = || FlowError::Unknown(id.clone());
        let entry = self.list().into_iter().find(|it| it.id() == id).ok_or_else(unknown)?;
        self.remove_entry(entry).await
    }

    /// The same for a version with this content alone, whose hash an entry has.
    ///
    /// # Errors
    ///
    /// Those of [`Flows::remove`], and [`FlowError::Changed`] if the version has another content by
    /// then: the store decides between two processes.
    pub async fn remove_entry(&self, entry: FlowEntry) -> Result<FlowEntry, FlowError> {
        let schedules = self.schedules_of(&entry).await?;
        if !schedules.is_empty() {
            let schedules = schedules.join(", ");
            return Err(FlowError::Scheduled { flow: entry.id(), schedules });
        }
        self.remove_scheduled(entry).await
    }

    /// The schedules that start a version of a flow, by name, without the one that the flow itself
    /// has said.
    ///
    /// # Errors
    ///
    /// The schedules cannot be read.
    pub async fn schedules_of(&self, entry: &FlowEntry) -> Result<Vec<String>, FlowError> {
        let own = schedule_name(&entry.namespace, &entry.name);
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.world.schedules().list(&after, SCHEDULES_PAGE).await;
            let page = page.map_err(|failure| FlowError::passing(&unanswered(&failure)))??;
            let starts = |start: FlowStart| start.definition == entry.hash;
            let of_flow = page.iter().filter(|view| view.action == FlowPlan::NAME);
            let these = of_flow.filter(|view| view.input.read().is_ok_and(starts));
            found.extend(these.map(|view| view.name.clone()).filter(|name| *name != own));
            match page.last().filter(|_| page.len() == SCHEDULES_PAGE) {
                Some(last) => after.clone_from(&last.name),
                None => return Ok(found),
            }
        }
    }

    /// Removes a version of a flow although schedules start it: they go on with its definition, which
    /// stays in the store.
    ///
    /// # Errors
    ///
    /// Those of [`Flows::remove_entry`].
    pub async fn remove_scheduled(&self, entry: FlowEntry) -> Result<FlowEntry, FlowError> {
        let (id, FlowEntry { namespace, name, version, .. }) = (entry.id(), &entry);
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
            if entries.iter().any(|it| it.id() == id && it.hash != entry.hash) {
                return Err(FlowError::Changed(id));
            }
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
        let passing = |failure| FlowError::passing(&unanswered(&failure));
        for _ in 0..ATTEMPTS {
            let found = self.world.schedules().get(&name).await.map_err(passing)?;
            let Ok(found) = found else { return Ok(()) };
            let start: Option<FlowStart> = found.input.read().ok();
            if start.is_none_or(|start| start.definition != entry.hash) {
                return Ok(());
            }
            // Only this one: meanwhile a newer version may have said another schedule.
            let this = Expected::Revisions(vec![found.revision()]);
            let removed = self.world.schedules().expecting(this).remove(&name).await;
            match removed.map_err(passing)? {
                Err(ScheduleError::Edited { .. }) => {}
                outcome => return outcome.map_err(FlowError::from),
            }
        }
        Err(FlowError::passing(&"its schedule is changed by others again and again"))
    }
}

fn failed(error: &dyn fmt::Display) -> FlowError {
    FlowError::Store(StoreError::Failed(error.to_string()))
}
