//! Handles of a task for users: from outside, and the context inside of a job.

pub(super) mod any;
pub(super) mod context;
pub(super) mod continuation;
pub(super) mod task;
pub(super) mod weak;
