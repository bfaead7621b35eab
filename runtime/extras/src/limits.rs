//! Every limit of this crate: unit, reason, and what happens when it is reached.

use std::time::Duration;

/// Workers of the IO group of a [`Runtime`](crate::Runtime) by default: its jobs are short, and a
/// job that the system delays must not delay the others.
pub const IO_WORKERS_DEFAULT: usize = 2;

/// Attempts of a retry that was given no limit of its own: hours with the default back-off, and
/// seconds without one, after which the operation is taken to be hopeless.
pub const RETRY_ATTEMPTS_DEFAULT: u64 = 100_000;

/// Time between two checks of a health monitor by default.
pub const HEALTH_INTERVAL_DEFAULT: Duration = Duration::from_secs(60);

/// The first check of a health monitor is not earlier, so that a service has time to start.
pub const HEALTH_FIRST_CHECK: Duration = Duration::from_secs(5);

/// Monitors below one another, at most: a tree of components is flat, a deeper one is a cycle.
pub const HEALTH_DEPTH_MAX: u32 = 64;
