//! Limits of flows.

/// Tasks of its main list after which a flow that jumps back begins a new run of its plan: few
/// enough that the plan stays small, and many enough that a new run costs little.
pub const FLOW_TASKS_PER_RUN: u32 = 256;
