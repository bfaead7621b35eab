//! The texts of definitions as they were written, beside the definitions.

use turnwheel_actors::entity::StoreError as StateError;
use turnwheel_engine::StoreError;

use crate::definition::Flow;
use crate::flows::{FlowError, Flows, STORED_AS};

fn key(flow: &Flow) -> String {
    format!("text {}", flow.hash())
}

fn failed(error: &StateError) -> FlowError {
    FlowError::Store(StoreError::Failed(error.to_string()))
}

impl Flows {
    /// The text of an added definition as it was written, with its comments; nothing if it was added
    /// together with others, or before texts were kept.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn text(&self, flow: &Flow) -> Result<Option<String>, FlowError> {
        let stored = self.world.states().load(STORED_AS, &key(flow)).await;
        let bytes = stored.map_err(|error| failed(&error))?.bytes;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Stores the text of a definition, unless there is one already.
    pub(super) async fn keep_text(&self, flow: &Flow) -> Result<(), FlowError> {
        let Some(text) = flow.text() else { return Ok(()) };
        let states = self.world.states();
        let stored = states.load(STORED_AS, &key(flow)).await.map_err(|error| failed(&error))?;
        if stored.bytes.is_some() {
            return Ok(());
        }
        let bytes = text.as_bytes().to_vec();
        match states.save(STORED_AS, &key(flow), bytes, stored.version, 0).await {
            // Somebody else has stored the same content meanwhile, with comments of his own.
            Ok(_) | Err(StateError::Conflict { .. }) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    }
}
