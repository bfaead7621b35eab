//! Workers: the threads of a group, the places where they look for work, and the order.

pub(crate) mod assist;
pub(crate) mod hosted;
mod local;
mod pin;
mod run;
mod search;
pub(crate) mod sleep;
mod stats;

pub use self::hosted::HostedWorker;
pub use self::pin::Pinning;
pub(crate) use self::{
    local::{current, with_current, Local, Remote},
    pin::{pin_to, usable_cores, usable_workers},
    run::start,
    stats::Stats,
};
