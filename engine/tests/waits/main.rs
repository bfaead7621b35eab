//! What waits: for time, for a turn, for a lock, for one another.

#[path = "../common/mod.rs"]
mod common;

mod calendar;
mod left_queues;
mod pauses;
mod polling;
mod polls_together;
mod promises;
mod queues;
mod sends;
mod singletons;
mod timers;
mod wait_circles;
