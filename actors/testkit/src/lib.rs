#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod check;
mod history;
mod linearize;
mod probe;
mod reminders;
mod stage;
mod states;

pub use check::{check, explore, find};
pub use history::{Call, History, Recorded};
pub use linearize::{
    linearize, NotLinearizable, Operation, Unexplained, OPERATIONS_MAX, STATES_MAX,
};
pub use probe::{Probe, Probing};
pub use reminders::check_reminder_store;
pub use stage::{Stage, PATIENCE};
pub use states::check_state_store;
