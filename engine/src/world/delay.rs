//! When a plan is planned, if not at once.

use std::time::Duration;

use crate::id::PlanId;
use crate::time::Time;

/// When a plan is planned and run: not before a time, not after one, not before other plans are over,
/// not before somebody allows it. What is not said does not matter.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_engine::Delay;
///
/// let tonight = Delay::by(Duration::from_secs(8 * 3_600)).or_never_after(Duration::from_secs(3_600));
/// # let _ = tonight;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Delay {
    pub(super) start: Start,
    pub(super) window: Option<Duration>,
    pub(super) before: Option<Time>,
    pub(super) after: Vec<PlanId>,
    pub(super) is_frozen: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Start {
    #[default]
    AtOnce,
    At(Time),
    In(Duration),
}

impl Delay {
    /// Not before so much time has passed.
    pub fn by(delay: Duration) -> Self {
        Self { start: Start::In(delay), ..Self::default() }
    }

    /// Not before this time of the wall clock.
    pub fn until(time: impl Into<Time>) -> Self {
        Self { start: Start::At(time.into()), ..Self::default() }
    }

    /// When these plans are stopped. If one of them fails, is cancelled or taken back, this one is not
    /// planned; one that was halted counts as over.
    pub fn after(plans: impl IntoIterator<Item = PlanId>) -> Self {
        Self { after: plans.into_iter().collect(), ..Self::default() }
    }

    /// When somebody allows it, with [`PlanHandle::delay_until`](crate::PlanHandle::delay_until).
    pub fn frozen() -> Self {
        Self { is_frozen: true, ..Self::default() }
    }

    /// If it could not be planned within this time after its start, it never is.
    pub fn or_never_after(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// If it could not be planned before this time, it never is.
    pub fn or_never_after_time(mut self, time: impl Into<Time>) -> Self {
        self.before = Some(time.into());
        self
    }

    /// The same, and not before these plans are over.
    pub fn and_after(mut self, plans: impl IntoIterator<Item = PlanId>) -> Self {
        self.after.extend(plans);
        self
    }

    /// The same, and not before somebody allows it.
    pub fn and_frozen(mut self) -> Self {
        self.is_frozen = true;
        self
    }

    /// The earliest and the latest time.
    pub(super) fn times(&self, now: Time) -> (Option<Time>, Option<Time>) {
        let start = match self.start {
            Start::AtOnce => None,
            Start::At(time) => Some(time),
            Start::In(delay) => Some(now.after(delay)),
        };
        let end = self.window.map(|window| start.unwrap_or(now).after(window));
        (start, self.before.or(end))
    }
}
