//! Messages at a time: after a delay, or again and again.

mod delayed;
mod repeating;

pub use delayed::Delayed;
pub use repeating::{ActorTimer, TimerError, Timing};
