//! Workers: the threads of a group, what they look at and in which order.

#[cfg(not(turnwheel_loom))]
mod local;
#[cfg(not(turnwheel_loom))]
mod pin;
#[cfg(not(turnwheel_loom))]
mod run;
#[cfg(not(turnwheel_loom))]
mod search;
pub(crate) mod sleep;
#[cfg(not(turnwheel_loom))]
mod stats;

#[cfg(not(turnwheel_loom))]
pub use self::pin::Pinning;
#[cfg(not(turnwheel_loom))]
pub(crate) use self::{
    local::{with_current, Local, Remote},
    pin::{pin_to, usable_cores, usable_workers},
    run::start,
    stats::Stats,
};
