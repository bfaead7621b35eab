//! Schedules: launches of actions at given times.
//!
//! A schedule has an action, its times, and policies for launches that overlap or were missed. It
//! is stored, and continues with each world that is started over its store.
//!
//! **Once for each time.** The plan of a launch has the idempotency key `schedule/<name>/<planned
//! time>`: neither a crash at any moment, nor a clock that is set back, nor a second world launches
//! a time twice. A launch is recorded before its plan begins, so that a crash does not lose it
//! either.
//!
//! **Clocks.** Schedules follow the wall clock. It is read at least every
//! [`SCHEDULE_CLOCK_CHECK`](crate::limits::SCHEDULE_CLOCK_CHECK); times that it has jumped over
//! count as missed, for [`CatchUp`]. When it is set back, times that come again are not launched
//! twice, and missed times are no longer missed.
//!
//! **Daylight saving.** A pattern of cron with one second, one minute and one hour means a time of
//! day: if a day leaves it out, the launch is planned for the first moment after the gap; if a day
//! has it twice, for the first of both. All other patterns mean an interval: a time in a gap has no
//! launch, and a time that comes twice has two. A day that a zone leaves out altogether has no
//! launches.
//!
//! | part | task |
//! | --- | --- |
//! | `spec` | describes a schedule: [`Schedule`] |
//! | `timing` | its times and policies, as they are stored |
//! | `rule` | the times, computed |
//! | `launch` | one launch: its key, its jitter, its outcome |
//! | `state` | the stored state of a schedule |
//! | `entry` | a schedule in memory, damaged ones too |
//! | `decide` | its next launches. Pure. |
//! | `timetable` | the task of all schedules: stores them, has one timer |
//! | `plans` | starts its plans, and takes their ends |
//! | `serving` | the slots whose schedules this world serves |
//! | `requests` | requests: [`Schedules`] |
//! | `expected` | the state that a change is for |
//! | `elsewhere` | requests about schedules that other worlds serve |

mod decide;
mod elsewhere;
mod entry;
mod error;
mod expected;
mod launch;
mod plans;
mod requests;
mod rule;
mod serving;
mod spec;
mod state;
mod timetable;
mod timing;
mod unsure;
mod view;

pub(crate) use elsewhere::{ScheduleAnswer, ScheduleRequest};
pub use error::ScheduleError;
pub use expected::Expected;
pub use launch::{Launch, Occasion, Outcome};
pub use requests::Schedules;
pub use spec::Schedule;
pub use state::{Counts, Paused};
pub(crate) use timetable::Timetable;
pub use timing::{CatchUp, Overlap, Timing};
pub use view::ScheduleView;
