//! Clocks, real and controlled, and the timing wheel.
//!
//! A group reads time from one [`Clock`]: [`SystemClock`] unless it is built with another one.
//! [`ManualClock`] stands still until a test moves it; [`OffsetClock`] goes on by itself and can be
//! moved forward, pinned and reset, so that a running system can be shown the day after tomorrow.

pub(crate) mod clock;
mod entries;
mod manual;
mod offset;
pub(crate) mod wheel;

#[cfg(test)]
mod wheel_tests;

pub use clock::{Clock, ClockListener, SystemClock};
pub use manual::ManualClock;
pub use offset::OffsetClock;
