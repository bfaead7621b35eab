//! The kinds of trouble, and the moments at which they begin.

use std::fmt;

use super::life::Counts;

/// The trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Trouble {
    /// The store fails once.
    Once,
    /// The store fails for a minute.
    Minute,
    /// The store fails until the process is started again.
    Forever,
    /// The write is made, and its answer is lost.
    AnswerLost,
    /// The answer comes after five seconds.
    Slow,
    /// The disk is full for a minute.
    Full,
    /// The process is killed.
    Killed,
    /// The world is shut down in order.
    Shutdown,
    /// Another world takes the store while this one still runs.
    TakenOver,
    /// The wall clock is an hour behind for four seconds.
    ClockBack,
    /// The wall clock is an hour ahead for four seconds.
    ClockForth,
}

/// Where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Moment {
    /// A read of the store, by its number in the run.
    Read(u64),
    /// A write, by its number.
    Write(u64),
    /// The time of a timer, by its number.
    Timer(u64),
}

/// Some trouble at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultPoint {
    /// When.
    pub moment: Moment,
    /// What.
    pub trouble: Trouble,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Once,
        Self::Minute,
        Self::Forever,
        Self::AnswerLost,
        Self::Slow,
        Self::Full,
        Self::Killed,
        Self::Shutdown,
        Self::TakenOver,
        Self::ClockBack,
        Self::ClockForth,
    ];

    fn can_begin_at(self, moment: Moment) -> bool {
        match moment {
            Moment::Write(_) => true,
            Moment::Read(_) => !matches!(self, Self::AnswerLost | Self::Full),
            // No call of the store has an answer then.
            Moment::Timer(_) => !matches!(self, Self::Once | Self::AnswerLost | Self::Slow),
        }
    }
}

/// All points of a run in which so much happened.
pub(super) fn all(counts: &Counts) -> Vec<FaultPoint> {
    let writes = (1..=counts.writes).map(Moment::Write);
    let reads = (1..=counts.reads).map(Moment::Read);
    let timers = (1..=counts.timers).map(Moment::Timer);
    let moments = writes.chain(reads).chain(timers);
    let at = |moment: Moment| {
        let troubles = Trouble::ALL.into_iter().filter(move |it| it.can_begin_at(moment));
        troubles.map(move |trouble| FaultPoint { moment, trouble })
    };
    moments.flat_map(at).collect()
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { moment, trouble } = self;
        match moment {
            Moment::Read(number) => write!(f, "read {number}: {trouble}"),
            Moment::Write(number) => write!(f, "write {number}: {trouble}"),
            Moment::Timer(number) => write!(f, "timer {number}: {trouble}"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Once => "the store fails once",
            Self::Minute => "the store fails for a minute",
            Self::Forever => "the store fails for ever",
            Self::AnswerLost => "the answer is lost",
            Self::Slow => "the store is slow",
            Self::Full => "the disk is full for a minute",
            Self::Killed => "the process is killed",
            Self::Shutdown => "the world is shut down",
            Self::TakenOver => "the world is taken over",
            Self::ClockBack => "the clock is back an hour for 4 s",
            Self::ClockForth => "the clock is ahead an hour for 4 s",
        })
    }
}
