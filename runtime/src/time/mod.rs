//! Clocks and the timer wheel.

pub(crate) mod clock;
pub(crate) mod wheel;

pub use clock::{Clock, ManualClock, SystemClock};
