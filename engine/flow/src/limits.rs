//! Limits of flows.

use std::time::Duration;

/// Tasks of one namespace that run processes and containers at once: three quarters of the places of the
/// default queue, so that slow calls of one namespace leave some to others.
pub const NAMESPACE_TASKS_MAX: u32 = 48;

/// Tasks of flows that ask a service at once.
pub const REQUESTS_MAX: u32 = 64;

/// Those of one namespace, likewise.
pub const NAMESPACE_REQUESTS_MAX: u32 = 48;

/// Bytes of the last lines that a running process has written, as its step shows them.
pub const LIVE_OUTPUT_BYTES: usize = 4 * 1_024;

/// Tasks of a list after which a flow that jumps back in it begins a new run of its plan: few
/// enough that the plan stays small, and many enough that a new run costs little.
pub const FLOW_TASKS_PER_RUN: u32 = 256;

/// Messages of one subscription of a flow: they are one output, and each condition looks at all of
/// them.
pub const SUBSCRIPTION_MESSAGES_MAX: u64 = 10_000;

/// Published events that a world keeps in memory for people who look: the newest ones.
pub const RECENT_EVENTS: usize = 500;

/// Tasks that got an event which are kept with it: the first ones.
pub const RECENT_TAKERS: usize = 20;

/// Bytes of an attribute of such an event.
pub const RECENT_ATTRIBUTE_BYTES: usize = 200;

/// Pause before a listener for life-cycle events asks a store again that has failed.
pub const LIFE_AGAIN: Duration = Duration::from_secs(1);
