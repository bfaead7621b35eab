//! Inputs and outputs of an older version of an action, made those of the newest.

use std::panic::{catch_unwind, AssertUnwindSafe};

use serde_json::Value;

use super::{panic_message, Action};
use crate::error::ActionError;
use crate::payload::Payload;

/// The input and output, migrated if they are of another version.
pub(super) fn migrated<A: Action>(
    action: &A,
    from: u32,
    input: &Payload,
    output: &Payload,
) -> Result<(Payload, Payload), ActionError> {
    if from == A::VERSION {
        return Ok((input.clone(), output.clone()));
    }
    let (old_input, old_output): (Value, Value) = (input.read()?, output.read()?);
    let migrated = catch_unwind(AssertUnwindSafe(|| action.migrate(from, old_input, old_output)));
    let migrated =
        migrated.unwrap_or_else(|panic| Err(ActionError::new("panic", panic_message(panic))));
    let (input, output) = migrated.map_err(|error| {
        let to = A::VERSION;
        let message =
            format!("«{}» of version {from} does not become version {to}: {error}", A::NAME);
        ActionError::new("migration", message).and_final()
    })?;
    let input = Payload::of(&input).map_err(|error| error.of("the new input", A::NAME))?;
    let output = Payload::of(&output).map_err(|error| error.of("the new output", A::NAME))?;
    Ok((input, output))
}

/// Whether the action understands them.
pub(super) fn check<A: Action>(
    action: &A,
    from: u32,
    input: &Payload,
    output: &Payload,
) -> Result<(), ActionError> {
    let (input, output) = migrated(action, from, input, output)?;
    let unfit = |what: &str, error: &dyn std::fmt::Display| {
        ActionError::new("unfit", format!("the stored {what} of «{}» {error}", A::NAME))
    };
    input.read::<A::Input>().map_err(|error| unfit("input", &error))?;
    if !output.is_null() {
        output.read::<A::Output>().map_err(|error| unfit("output", &error))?;
    }
    Ok(())
}
