//! A schedule as it is described.

use std::time::Duration;

use super::error::{micros, ScheduleError};
use super::rule::{parse, Rule};
use super::state::Spec;
use super::timing::{CatchUp, Overlap, Timing};
use crate::action::Action;
use crate::error::TextTooLong;
use crate::limits::{NAME_BYTES_MAX, SCHEDULE_NAME_BYTES_MAX};
use crate::payload::Payload;
use crate::time::Time;

/// An action, the times of its launches, and policies for launches that overlap or were missed.
///
/// A world takes it with [`Schedules::put`](crate::schedule::Schedules::put).
///
/// ```
/// use std::time::Duration;
/// use turnwheel_engine::schedule::{Overlap, Schedule};
/// use turnwheel_engine::Time;
///
/// let nightly = Schedule::cron("nightly", "0 3 * * *")?.zone("Europe/Berlin");
/// let nightly = nightly.overlap(Overlap::Forbid).jitter(Duration::from_secs(300));
/// // The first three hours of the clock after the begin of 1970.
/// let hourly = Schedule::every("hourly", Duration::from_secs(3_600));
/// let hours = hourly.times(Time(0), 3)?;
/// assert_eq!(hours, [3_600, 7_200, 10_800].map(|second| Time(second * 1_000_000)));
/// // An error names its place.
/// let error = Schedule::cron("late", "0 25 * * *").unwrap_err().to_string();
/// assert!(error.contains("field 2, the hour, «25»"), "{error}");
/// # Ok::<(), turnwheel_engine::schedule::ScheduleError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a schedule does nothing before a world has it"]
pub struct Schedule {
    name: String,
    timing: Timing,
    overlap: Overlap,
    catch_up: CatchUp,
    jitter: Duration,
    action: Option<(String, Payload)>,
    /// The first problem of its description; returned when it is used.
    problem: Option<ScheduleError>,
}

impl Schedule {
    /// Launches at the times of a pattern of cron, in UTC unless a [zone](Schedule::zone) is given.
    ///
    /// A pattern has five fields (minute, hour, day of the month, month, day of the week), or six with
    /// a second before them, or seven with a year behind them; or it is a name such as `@daily`. Lists,
    /// ranges, steps, names of months and days, `L`, `W` and `#` are understood. If both days are
    /// restricted, one of them has to fit.
    ///
    /// # Errors
    ///
    /// The pattern cannot be understood; the error says which field is wrong.
    pub fn cron(name: impl Into<String>, pattern: &str) -> Result<Self, ScheduleError> {
        parse(pattern)?;
        let timing = Timing::Cron { pattern: pattern.trim().to_owned(), zone: "UTC".to_owned() };
        Ok(Self::new(name, timing))
    }

    /// Launches after each period, which is counted from the begin of 1970: hours are full hours (UTC),
    /// whenever the schedule was made.
    pub fn every(name: impl Into<String>, period: Duration) -> Self {
        let period_us = micros(period);
        let timing = Timing::Every { period_us: period_us.unwrap_or(0), offset_us: 0 };
        Self::new(name, timing)
    }

    /// Launches once. A time that has passed is refused when a world takes the schedule for the first
    /// time.
    pub fn at(name: impl Into<String>, time: impl Into<Time>) -> Self {
        Self::new(name, Timing::At(time.into()))
    }

    /// Launches at once, and again so long after each end of its plan, whatever that end was: one plan at a
    /// time. A pause that a crash has interrupted begins anew.
    pub fn after(name: impl Into<String>, pause: Duration) -> Self {
        Self::new(name, Timing::After { pause_us: micros(pause).unwrap_or(0) })
    }

    /// Launches when somebody says so.
    pub fn manual(name: impl Into<String>) -> Self {
        Self::new(name, Timing::Manual)
    }

    fn new(name: impl Into<String>, timing: Timing) -> Self {
        Self {
            name: name.into(),
            timing,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            jitter: Duration::ZERO,
            action: None,
            problem: None,
        }
    }

    /// The zone whose clocks show the times of the pattern, by its name in the IANA database.
    ///
    /// A pattern with one second, one minute and one hour means a time of day. On a day that leaves
    /// it out, the launch is planned for the first moment after the gap; on a day that has it
    /// twice, for the first of both. All other patterns mean an interval: a time in a gap has no
    /// launch, and a time that comes twice has two.
    pub fn zone(mut self, zone: &str) -> Self {
        match &mut self.timing {
            Timing::Cron { zone: known, .. } => zone.clone_into(known),
            _ => {
                let name = self.name.clone();
                self.problem.get_or_insert(ScheduleError::NeedlessZone { name });
            }
        }
        self
    }

    /// Moves the times of [`Schedule::every`] by so much.
    pub fn offset(mut self, offset: Duration) -> Self {
        if let Timing::Every { offset_us, .. } = &mut self.timing {
            *offset_us = micros(offset).unwrap_or(0);
        }
        self
    }

    /// Policy for a launch while a plan of the same schedule is running; by default it is skipped.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Policy for missed times; by default one launch makes up for all.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Maximum delay of launches, so that many schedules of the same time do not begin at once. The
    /// delay depends only on the name and the planned time.
    pub fn jitter(mut self, max: Duration) -> Self {
        self.jitter = max;
        self
    }

    /// The launched action.
    ///
    /// # Errors
    ///
    /// The input cannot be stored.
    pub fn action<A: Action>(mut self, input: &A::Input) -> Result<Self, ScheduleError> {
        let payload =
            Payload::of(input).map_err(|e| ScheduleError::input(&self.name, A::NAME, &e))?;
        self.action = Some((A::NAME.to_owned(), payload));
        Ok(self)
    }

    /// The launched action, if its type is not known here. A world that knows the action checks the
    /// input when it takes the schedule ([`Action::scheduled`]).
    pub fn action_named(mut self, action: impl Into<String>, input: Payload) -> Self {
        self.action = Some((action.into(), input));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first times after `after`, at most so many, and no more than
    /// [`SCHEDULE_TIMES_MAX`](crate::limits::SCHEDULE_TIMES_MAX), without jitter: a preview.
    ///
    /// # Errors
    ///
    /// The zone is unknown, or the period too short.
    pub fn times(&self, after: Time, limit: usize) -> Result<Vec<Time>, ScheduleError> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let rule = Rule::of(&self.timing)?;
        Ok(rule.preview(after, limit))
    }

    /// Checks all that does not need a world.
    pub(crate) fn checked(self) -> Result<(String, Spec, Rule), ScheduleError> {
        let Self { name, timing, overlap, catch_up, jitter, action, problem } = self;
        if let Some(problem) = problem {
            return Err(problem);
        }
        let is_long = name.len() > SCHEDULE_NAME_BYTES_MAX;
        if name.is_empty() || is_long || name.chars().any(char::is_control) {
            return Err(ScheduleError::Name { name: name.chars().take(50).collect() });
        }
        let rule = Rule::of(&timing)?;
        let Some((action, input)) = action else {
            return Err(ScheduleError::NoAction { name });
        };
        if let Err(problem) = TextTooLong::check("name of its action", &action, NAME_BYTES_MAX) {
            return Err(ScheduleError::Input {
                name,
                problem: format!("has no action: {problem}"),
            });
        }
        let jitter_us = micros(jitter).ok_or(ScheduleError::NoPeriod)?;
        Ok((name, Spec { timing, overlap, catch_up, jitter_us, action, input }, rule))
    }
}
