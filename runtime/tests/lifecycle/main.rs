//! Operations of a task in each phase: the reference's lifecycle cases. One body a case, run in
//! simulation and on 1, 2 and 4 workers.

mod conditions;
mod continuations;
mod end;
mod failures;
mod handles;
mod held;
mod hooks;
mod phases;
mod submissions;
mod timers;
mod world;
