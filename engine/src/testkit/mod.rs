//! Tools that show what becomes of plans when stores fail and processes end.
//!
//! | tool | what it is for |
//! | --- | --- |
//! | [`crash_points`], [`CrashPoints`] | a workload that is interrupted at each of its writes, and recovers |
//! | [`FaultStore`] | a store whose commits fail when told to |

mod crash;
mod fault;
mod fault_store;
mod life;
mod medium;
mod verify;
mod workload;

pub use crash::{crash_points, CrashPoints, CrashReport, Violation};
pub use fault::Fault;
pub use fault_store::FaultStore;
pub use workload::{Client, Workload};
