//! Clocks, real and controlled, and the timing wheel.
//!
//! A group reads time from one [`Clock`]: [`SystemClock`] unless it is built with another one.
//! [`ManualClock`] stands still until a test moves it.

pub(crate) mod clock;
mod entries;
mod manual;
pub(crate) mod wheel;

pub use clock::{Clock, ClockListener, SystemClock};
pub use manual::ManualClock;
