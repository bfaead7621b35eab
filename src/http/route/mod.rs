//! The operations of the API, by what they are about.

pub(super) mod actions;
pub(super) mod bulk;
pub(super) mod events;
pub(super) mod orders;
pub(super) mod plans;
pub(super) mod schedules;
pub(super) mod start;
pub(super) mod steps;
pub(super) mod system;
