//! Schedules: actions that are launched at their times.
//!
//! A schedule says what is launched, when, and what becomes of launches that overlap or were missed.
//! It is stored, and goes on with each world that is started over its store.
//!
//! **Once for each time.** The plan of a launch has the idempotency key
//! `schedule/<name>/<planned time>`: neither a crash at any moment, nor a clock that is set back, nor
//! a second world launches a time twice. A launch is written down before its plan begins, so that a
//! crash does not lose it either.
//!
//! **Clocks.** Schedules follow the wall clock. It is read at least every
//! [`SCHEDULE_CLOCK_CHECK`](crate::limits::SCHEDULE_CLOCK_CHECK); times that it has jumped over are
//! missed ones, for [`CatchUp`]. When it is set back, times that come again and were launched are not
//! launched again, and those that were missed are no longer missed.
//!
//! **Daylight saving.** A pattern of cron with one second, one minute and one hour means a time of
//! day: if a day leaves it out, the launch is planned for the first moment after the gap; if a day has
//! it twice, for the first of both. All other patterns mean an interval: what is left out is left
//! out, and what comes twice is planned twice. A day that a zone leaves out altogether has no launches.
//!
//! | part | what it does |
//! | --- | --- |
//! | `spec` | describes a schedule: [`Schedule`] |
//! | `timing` | its times and policies, as they are stored |
//! | `rule` | the times, computed |
//! | `launch` | one launch: its key, its jitter, its outcome |
//! | `state` | what a schedule remembers |
//! | `decide` | what it does next. Pure. |
//! | `timetable` | the task that keeps all of them: stores them, one timer |
//! | `plans` | begins its plans, and hears of their ends |
//! | `requests` | what people ask for: [`Schedules`] |

mod decide;
mod error;
mod launch;
mod plans;
mod requests;
mod rule;
mod spec;
mod state;
mod timetable;
mod timing;
mod view;

pub use error::ScheduleError;
pub use launch::{Launch, Occasion, Outcome};
pub use requests::Schedules;
pub use spec::Schedule;
pub use state::{Counts, Paused};
pub(crate) use timetable::Timetable;
pub use timing::{CatchUp, Overlap, Timing};
pub use view::ScheduleView;
