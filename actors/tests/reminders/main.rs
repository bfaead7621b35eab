//! Reminders: in time, and in trouble.

#[path = "../alarms/mod.rs"]
mod alarms;

mod in_time;
mod trouble;
