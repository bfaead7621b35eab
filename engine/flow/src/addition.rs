//! Additions of flows: a definition is stored under its hash, and named in a list.

use std::fmt;

use turnwheel_actors::entity::StoreError as StateError;
use turnwheel_engine::internal::unanswered;
use turnwheel_engine::StoreError;

use crate::definition::Flow;
use crate::flows::{schedule_name, FlowEntry, FlowError, Flows, INDEX, STORED_AS};
use crate::run::FlowStart;
use crate::text::Problem;

/// Attempts to change the list of definitions while others change it.
const ATTEMPTS: usize = 100;

impl Flows {
    /// Adds a definition, so that it can be started; an existing one stays unchanged. It is durable
    /// when this returns, and stays for the plans that began with it, regardless of later versions.
    ///
    /// # Errors
    ///
    /// Another content, an unfit host, a failed store, or a resource not [read](Flows::resolve).
    pub async fn add(&self, flow: &Flow) -> Result<FlowEntry, FlowError> {
        self.add_if_new(flow).await.map(|(entry, _)| entry)
    }

    /// The same, for callers who want to know whether this call has added it.
    ///
    /// # Errors
    ///
    /// As those of [`Flows::add`].
    pub async fn add_if_new(&self, flow: &Flow) -> Result<(FlowEntry, bool), FlowError> {
        self.check(flow)?;
        let entry = FlowEntry {
            namespace: flow.namespace().to_owned(),
            name: flow.name().to_owned(),
            version: flow.version().to_owned(),
            hash: flow.hash().to_owned(),
        };
        let is_same = |it: &FlowEntry| it.id() == entry.id();
        if let Some(known) = self.bench.index.lock().iter().find(|it| is_same(it)) {
            return match known.hash == entry.hash {
                true => Ok((entry, false)),
                false => Err(FlowError::Exists(entry.id())),
            };
        }
        let states = self.world.states();
        let failed = |error: StateError| FlowError::Store(StoreError::Failed(error.to_string()));
        let text = flow.source().to_string();
        let stored = states.load(STORED_AS, &entry.hash).await.map_err(failed)?;
        match stored.bytes {
            Some(bytes) if bytes != text.as_bytes() => return Err(FlowError::Exists(entry.hash)),
            Some(_) => {}
            None => {
                let bytes = text.into_bytes();
                let saved = states.save(STORED_AS, &entry.hash, bytes, stored.version, 0);
                match saved.await {
                    Ok(_) => {}
                    // Its key is its hash: somebody else has stored the same meanwhile.
                    Err(error @ StateError::Conflict { .. }) => {
                        tracing::debug!(%error, "a definition was stored by somebody else");
                    }
                    // The index must not name what is not there.
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        self.keep_text(flow).await?;
        let is_new = self.add_to_index(&entry).await?;
        self.bench.flows.lock().insert(entry.hash.clone(), flow.clone());
        Ok((entry, is_new))
    }

    /// Things that go on beside a flow that was added: the schedule that another version of it has
    /// begun, for people. Nothing if there is none, as when this version's own schedule has taken
    /// its place.
    ///
    /// # Errors
    ///
    /// The schedules cannot be read.
    pub async fn other_schedule(&self, flow: &Flow) -> Result<Option<String>, FlowError> {
        let name = schedule_name(flow.namespace(), flow.name());
        let found = self.world.schedules().get(&name).await;
        let found = found.map_err(|failure| FlowError::passing(&unanswered(&failure)))?;
        let Ok(found) = found else { return Ok(None) };
        let start: Option<FlowStart> = found.input.read().ok();
        let other = start.filter(|start| start.definition != flow.hash());
        Ok(other.map(|start| {
            format!(
                "the schedule of {} goes on and starts that version: {} has begun none in its place; \
                 «turnwheel schedule rm {name}» ends it",
                start.flow,
                flow.id()
            )
        }))
    }

    /// Whether it was not there.
    async fn add_to_index(&self, entry: &FlowEntry) -> Result<bool, FlowError> {
        let states = self.world.states();
        let failed =
            |error: &dyn fmt::Display| FlowError::Store(StoreError::Failed(error.to_string()));
        for _ in 0..ATTEMPTS {
            let stored = states.load(STORED_AS, INDEX).await.map_err(|error| failed(&error))?;
            let mut entries: Vec<FlowEntry> = match stored.bytes {
                Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(&error))?,
                None => Vec::new(),
            };
            let known = entries.iter().find(|it| it.id() == entry.id());
            let is_new = known.is_none();
            if known.is_some_and(|known| known.hash != entry.hash) {
                return Err(FlowError::Exists(entry.id()));
            }
            if is_new {
                entries.push(entry.clone());
            }
            let bytes = serde_json::to_vec(&entries).map_err(|error| failed(&error))?;
            match states.save(STORED_AS, INDEX, bytes, stored.version, 0).await {
                Ok(_) => {
                    *self.bench.index.lock() = entries;
                    return Ok(is_new);
                }
                Err(StateError::Conflict { .. }) => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Err(failed(&"too many definitions are added at once"))
    }

    /// Whether this host has what a flow needs.
    fn check(&self, flow: &Flow) -> Result<(), FlowError> {
        if let Some(uri) = flow.missing().next() {
            let (flow, why) = (flow.id(), "was not read: call Flows::resolve first");
            return Err(FlowError::Unable { flow, problem: format!("{uri} {why}") });
        }
        let unmet = flow.unmet(&*self.bench.io, "");
        match unmet.and_then(|unmet| unmet.all.into_iter().next()) {
            Some(Problem { message: problem, .. }) => {
                Err(FlowError::Unable { flow: flow.id(), problem })
            }
            None => Ok(()),
        }
    }
}
