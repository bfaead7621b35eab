//! Limits of flows.

/// Tasks of one namespace that do something outside at once: three quarters of the places of the
/// default queue, so that slow calls of one namespace leave some to others.
pub const NAMESPACE_TASKS_MAX: u32 = 48;

/// Tasks of its main list after which a flow that jumps back begins a new run of its plan: few
/// enough that the plan stays small, and many enough that a new run costs little.
pub const FLOW_TASKS_PER_RUN: u32 = 256;
