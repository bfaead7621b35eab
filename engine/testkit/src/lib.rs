//! Tools for tests: one action alone, and what becomes of plans when stores fail and processes end.
//!
//! | tool | what it is for |
//! | --- | --- |
//! | [`ActionKit`] | one action in isolation: what it plans, how it runs, with time under control |
//! | [`crash_points`], [`CrashPoints`] | a workload that is interrupted at each of its writes, and recovers |
//! | [`Faults`] | a workload whose store, clock or process is in trouble, and goes on |
//! | [`FaultStore`] | a store whose reads and commits fail when told to |

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod action_kit;
mod alone;
mod crash;
mod fault;
mod fault_reader;
mod fault_store;
mod faults;
mod life;
mod medium;
mod verify;
mod workload;
mod worlds;

pub use action_kit::{ActionKit, ActionRun, Called};
pub use alone::PlannedAlone;
pub use crash::{crash_points, CrashPoints, CrashReport, Violation};
pub use fault::Fault;
pub use fault_store::{FaultStore, Twin};
pub use faults::{FaultPoint, FaultReport, FaultViolation, Faults, Moment, Trouble};
pub use workload::{Client, Workload};
