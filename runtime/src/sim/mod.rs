//! Simulation: tasks, timers and completions on one thread, in virtual time, under a seed.
//!
//! A [`Sim`] runs the same tasks as a real group, with the same lanes, phases, timers and
//! completions, but without any thread: nothing happens until the test runs it. A seed makes the
//! choices that are chance on a real machine: which worker comes next, what it steals, which ready
//! task runs, where a turn ends. Equal seeds give equal runs, so a failure under one seed can be
//! repeated at will.
//!
//! ```
//! use std::time::Duration;
//! use turnwheel_runtime::sim::Sim;
//!
//! let sim = Sim::new(42);
//! let group = sim.group("cpu");
//! let ticks = group.spawn(0_u32)?;
//! ticks.submit(|_, cx| {
//!     cx.after(Duration::from_secs(3600), |ticks, _| *ticks += 1).expect("room for a timer");
//! })?;
//! sim.advance(Duration::from_secs(3599));
//! assert_eq!(sim.wait(ticks.call(|ticks, _| *ticks))?, 0);
//! sim.advance(Duration::from_secs(1));
//! assert_eq!(sim.wait(ticks.call(|ticks, _| *ticks))?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod check;
mod drive;
mod end;
mod explore;
mod fault;
mod hub;
mod queues;
mod quiet;
mod random;
mod record;
mod state;
mod time;
mod wait;

pub use builder::SimBuilder;
pub use check::{check, find, FailingSeed};
pub use explore::{explore, Explored};
pub use fault::Fault;
pub use quiet::{Leak, Quiescence};
pub use record::{Event, EventKind, EventTask, Events, FailedJob};
pub use state::Sim;
pub use wait::Stuck;
