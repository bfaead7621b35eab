//! Reminders: durable schedules of entities, which activate them when they are due.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Reminders`] | the settings: a store, the types of entities that take reminders, times |
//! | [`EntityReminders`] | registers, reads and removes the reminders of one entity |
//! | [`Schedule`] | times of a reminder's ticks, and the rule for missed ones |
//! | [`ReminderTick`] | the message to the entity |
//! | [`ReminderStore`] | storage of reminders: versioned rows, listed by due time |
//! | `agenda` | reminders due soon, in memory |
//! | `scheduler` | the actor that delivers ticks |
//!
//! # Guarantees
//!
//! * A tick is never early by the wall clock. It may be late: while the process is down, while more
//!   than [`UNDER_WAY_MAX`] ticks are being delivered, and up to the next look at the store after
//!   the wall clock was moved.
//! * A reminder has at most one tick under way in a process. A tick that fails, by an error, a
//!   panic, a time-out, or an unknown type of entity, is counted and repeated after a growing
//!   pause, also after a restart. If the tick limit passes while the entity still handles a tick,
//!   the next attempt waits behind it.
//! * A delivered tick is written, with the version that was read: so a tick arrives at least once,
//!   and twice only if the process ends in between, or the store has lost the write.
//! * The cadence is kept: occurrences are whole periods after the first, however late a tick was.
//!   Occurrences that fell due while no process ran are skipped unless the schedule says otherwise
//!   ([`MissedTicks`]).
//! * A removed reminder stays removed: neither a look at the store with old rows, nor a tick that
//!   ends later, restores it.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use turnwheel_actors::entity::{MemoryReminders, ReminderTick, Reminders, Schedule};
//! use turnwheel_actors_testkit::Stage;
//! use turnwheel_actors::{Actor, Context, Entities, Entity, Handler};
//!
//! struct Account { interest: u32 }
//! impl Actor for Account {
//!     type Error = std::convert::Infallible;
//! }
//! impl Entity for Account {
//!     type Key = String;
//!     const NAME: &'static str = "account";
//!     fn create(_: &String) -> Self { Account { interest: 0 } }
//! }
//! impl Handler<ReminderTick> for Account {
//!     type Reply = ();
//!     fn handle(&mut self, tick: ReminderTick, _: &mut Context<'_, Self>) {
//!         assert_eq!(&*tick.name, "interest");
//!         self.interest += 1;
//!     }
//! }
//! # struct Interest;
//! # impl Handler<Interest> for Account {
//! #     type Reply = u32;
//! #     fn handle(&mut self, _: Interest, _: &mut Context<'_, Self>) -> u32 { self.interest }
//! # }
//!
//! let stage = Stage::new(1);
//! let reminders = Reminders::builder(Arc::new(MemoryReminders::new())).entity::<Account, _>();
//! let entities = Entities::builder(stage.system()).reminders(&reminders.build()?).build();
//! let account = entities.get::<Account>("42");
//! let hourly = Schedule::every(Duration::from_secs(3600));
//! stage.wait(account.reminders().register("interest", hourly))??;
//! assert!(!account.is_active());
//! stage.advance(Duration::from_secs(3600));
//! assert!(account.is_active());
//! # assert_eq!(stage.answer(account.ask(Interest)), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Duration;

mod agenda;
mod error;
mod handle;
mod schedule;
mod scheduler;
mod service;
mod store;
mod tick;

use agenda::{Agenda, Done, Record, Seen, Work};
pub use error::{ReminderError, RemindersError};
pub use handle::{EntityReminders, Reminder};
use schedule::{has_same_times, next, passed_ms, step, time_of, whole_ms, Step};
pub use schedule::{MissedTicks, Schedule};
pub(crate) use scheduler::start;
use scheduler::{Command, ReminderScheduler};
pub(crate) use service::Service;
pub use service::{ReminderStats, Reminders, RemindersBuilder};
pub use store::{DueRange, MemoryReminders, ReminderId, ReminderRow, ReminderStore};
use tick::Target;
pub use tick::{ReminderTick, TickReply};

/// Bytes of a reminder's name, at most: names go into logs, stores and indexes.
pub const NAME_BYTES_MAX: usize = 256;

/// Reminders of one entity, at most: they are listed together, and are no work queue.
pub const PER_ENTITY_MAX: usize = 1_000;

/// The shortest period by default: more frequent ticks need no durability, and cost a write each.
pub const PERIOD_MIN_DEFAULT: Duration = Duration::from_secs(60);

/// The time between two looks at the store by default.
pub const REFRESH_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// Time ahead for which reminders are loaded by default: reminders that others write during a look
/// are not late.
pub const WINDOW_DEFAULT: Duration = Duration::from_secs(2 * 5 * 60);

/// Time limit of a tick by default, after which it counts as failed.
pub const TICK_LIMIT_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// Reminders in memory, at most: some 300 bytes each. Others that are due soon stay in the store
/// until there is room.
pub const LOADED_MAX: usize = 100_000;

/// Ticks that are under way at once, at most: more would only wait for the same workers.
pub const UNDER_WAY_MAX: usize = 1_024;

/// Rows that are read from the store at once.
const PAGE_ROWS: usize = 1_000;

/// Attempts to write a reminder that others write too; more than one conflict is rare.
const REWRITES_MAX: usize = 16;

/// The pause after the first failure; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause after a failure, and so the longest delay of a tick after its cause is gone.
const RETRY_CAP: Duration = Duration::from_secs(5 * 60);

const _: () = assert!(LOADED_MAX >= PAGE_ROWS);
const _: () = assert!(LOADED_MAX > 2 * UNDER_WAY_MAX);
