//! Names and errors of flows in the words of their authors: as the lists and the console show them.

use turnwheel::api::StepInfo;
pub(crate) use turnwheel_engine::picture::{plain, task_name as task};

/// The number of the root action of a plan, and the name of that of a flow.
const ROOT: u32 = 1;
const FLOW: &str = "flow";

/// Whether a step is one of the flow itself, and of none of its tasks.
pub(crate) fn is_of_flow(step: &StepInfo) -> bool {
    step.action == ROOT && step.name == FLOW
}

/// An error of this task without its name at the begin, for a line that has the name already.
pub(crate) fn of_task<'a>(error: &'a str, task: &str) -> &'a str {
    error.strip_prefix(task).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(error)
}
