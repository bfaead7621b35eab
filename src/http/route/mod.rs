//! The operations of the API, by subject.

pub(super) mod actions;
pub(super) mod again;
pub(super) mod bulk;
pub(super) mod callbacks;
pub(super) mod cloudevents;
pub(super) mod dkron;
mod dkron_lists;
pub(super) mod events;
pub(super) mod flows;
pub(super) mod history;
pub(super) mod job_history;
pub(super) mod job_live;
pub(super) mod jobs;
pub(super) mod journeys;
pub(super) mod letters;
pub(super) mod live;
pub(super) mod orders;
pub(super) mod pictures;
pub(super) mod plans;
pub(super) mod runtime;
pub(super) mod schedules;
pub(super) mod session;
pub(super) mod start;
pub(super) mod steps;
pub(super) mod system;
pub(super) mod work;
pub(super) mod world;
