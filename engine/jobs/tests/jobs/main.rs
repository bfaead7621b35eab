//! The behaviour of jobs, in simulated time. `CONFORMANCE.md` maps the reference cases to these
//! tests.

mod chains;
mod common;
mod edits;
mod fires;
mod nodes;
mod notices;
mod outages;
mod processors;
mod receivers;
mod resting;
mod runs;
mod schedules;
mod sqlite;
mod trouble;
mod unknown;
mod week;
