//! Steps of plans that an older version of their action has planned.

use super::decide::Decisions;
use crate::action::AnyAction;
use crate::error::ActionError;
use crate::id::StepId;
use crate::plan::{ActionData, Record};

impl Decisions<'_> {
    /// Before the code of a step is called: its input and output become those of the action's version.
    /// If that fails, so does the call.
    pub(super) fn migrate(&mut self, step: StepId) {
        let data = self.plan.action(self.plan.step(step).action);
        let Some(known) = self.registry.find(&data.name) else { return };
        let (action, version) = (data.id, known.version());
        if data.version == version {
            return;
        }
        if let Ok((input, output)) = known.migrated(data.version, &data.input, &data.output) {
            self.record(Record::Migrated { at: self.now, action, version, input, output });
        }
    }
}

/// The error of a step whose action could not be migrated.
pub(super) fn check_version(action: &dyn AnyAction, data: &ActionData) -> Result<(), ActionError> {
    if data.version == action.version() {
        return Ok(());
    }
    action.migrated(data.version, &data.input, &data.output)?;
    let message = "the action was migrated in between: it is called again";
    Err(ActionError::new("migration", message))
}
