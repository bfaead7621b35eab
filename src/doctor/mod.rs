//! Measurements of this machine: the usable processors, and lower bounds for any scheduler.
//!
//! A floor is the cost of one primitive, measured here and now: handing a cache line to another
//! core, one atomic operation, one clock read, waking a parked thread, making 4 KiB durable.
//! Figures of Turnwheel are compared with them, so the command `turnwheel doctor` prints them and
//! the benchmark harness divides by them.
//!
//! Each measurement is a function of its own and can be called alone; [`Report::measure`] runs all.
//! Every one is bounded by a sample count *and* by [`limits::MEASUREMENT_MS_MAX`], whichever ends
//! first. The measuring threads pin themselves where that is allowed; the calling thread is never
//! pinned.
//!
//! # Example
//!
//! ```
//! let wake = turnwheel::doctor::unpark_floor()?;
//! assert!(wake.min > 0.0 && wake.min <= wake.p50 && wake.p50 <= wake.p99);
//! println!("one-way unpark: p50 {:.1} us", wake.p50);
//! # Ok::<(), turnwheel::doctor::DoctorError>(())
//! ```

mod append;
mod error;
mod handover;
pub mod limits;
mod local;
mod pinning;
mod processors;
mod report;
mod spread;
mod unpark;

pub use append::{append_floor, append_floor_while};
pub use error::DoctorError;
pub use handover::handover_floor;
pub use local::{atomic_floor, clock_floor};
pub use pinning::{probe_pinning, Pinning};
pub use processors::Processors;
pub use report::{Floors, Machine, Report, Step};
pub use spread::Spread;
pub use unpark::unpark_floor;
