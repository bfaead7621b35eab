//! Names of actions for people.

use super::task_place;
use crate::plan::ActionData;

/// Display name of an action: its name; for a task of a flow its place in the definition, such as
/// `do/0/fetch`. It needs no world that knows the action; a world that does may use another name
/// ([`Shown::name`](crate::Shown::name)).
pub fn name_of(action: &ActionData) -> String {
    task_place(action).unwrap_or_else(|| action.name.clone())
}
