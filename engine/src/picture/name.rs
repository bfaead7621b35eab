//! What actions are called for people.

use super::task_place;
use crate::plan::ActionData;

/// What an action is called where people look at it: its name, but a task of a flow by its place in the
/// definition, such as `do/0/fetch`. It needs no world that knows the action; one that does may call it
/// something else again ([`Shown::name`](crate::Shown::name)).
pub fn name_of(action: &ActionData) -> String {
    task_place(action).unwrap_or_else(|| action.name.clone())
}
