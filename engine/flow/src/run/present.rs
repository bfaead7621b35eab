//! Flows and their tasks as people see them.

use serde_json::Value;
use turnwheel_engine::action::ActionView;
use turnwheel_engine::{internal, ActionError, Payload, StepState};

use crate::fault::Fault;

/// Shows a flow or a task: its place, its fault, and the user's values.
pub(super) fn present(view: &mut ActionView<'_>) {
    let action = view.plan().action(view.shown.id);
    if let Some(place) = internal::task_place(action) {
        view.shown.name = place;
    }
    let outcome = view.shown.output.get("outcome").cloned().unwrap_or(Value::Null);
    if let Some(fault) = outcome.get("fault") {
        view.shown.state = "faulted".to_owned();
        let fault: Option<Fault> = serde_json::from_value(fault.clone()).ok();
        view.shown.summary = fault.map(|fault| fault.to_string());
    } else if outcome.get("is_skipped").is_some() {
        view.shown.state = "skipped".to_owned();
    } else if let Some(error) = error_of_dropped(view) {
        view.shown.state = "faulted".to_owned();
        view.shown.summary = Some(error);
    }
    // The user's values, without what the interpreter keeps beside them.
    let own = |value: &mut Value, field: &str| {
        let own = value.get_mut(field).map(Value::take);
        *value = own.unwrap_or(Value::Null);
    };
    let field = field_of(&view.shown.input);
    own(&mut view.shown.input, field);
    own(&mut view.shown.output, "outcome");
    own(&mut view.shown.output, "output");
}

/// Why a task has failed that was dropped because it took too long.
fn error_of_dropped(view: &ActionView<'_>) -> Option<String> {
    let action = view.plan().action(view.shown.id);
    let step = view.plan().find_step(action.run_step?)?;
    let error = step.error.as_ref().filter(|_| step.state == StepState::Dropped)?;
    Some(error.message.clone())
}

/// The field of a stored input, of a flow or of a task, that is the user's.
fn field_of(stored: &Value) -> &'static str {
    if stored.get("definition").is_some() {
        "input"
    } else {
        "raw"
    }
}

/// Puts a value of the user in the place of the one in a stored input.
pub(super) fn edited(stored: &Payload, input: &Payload) -> Result<Payload, ActionError> {
    let mut whole: Value = stored.read().map_err(|error| ActionError::new("input", error))?;
    let field = field_of(&whole);
    whole[field] = input.read().map_err(|error| ActionError::new("input", error))?;
    Payload::of(&whole).map_err(|error| ActionError::new("input", error))
}
