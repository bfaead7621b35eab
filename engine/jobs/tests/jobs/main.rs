//! The behaviour of jobs, in simulated time. `CONFORMANCE.md` maps the reference cases to these tests.

mod chains;
mod common;
mod edits;
mod fires;
mod notices;
mod outages;
mod processors;
mod runs;
mod schedules;
mod sqlite;
mod trouble;
mod unknown;
mod week;
