//! The token bucket of one client.

use std::time::Duration;

use turnwheel_actors::{messages, Actor, Context, Entity};

/// A bucket that is full is passivated after this time without a request.
pub(crate) const IDLE: Duration = Duration::from_millis(500);

/// What a client may do: a request for each `period`, which it can save up for `burst` of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) period: Duration,
    pub(crate) burst: u32,
}

impl Limit {
    /// The time in which an empty bucket gets full.
    pub(crate) fn full(self) -> Duration {
        self.period * self.burst
    }
}

/// The token bucket of one client. It saves time, so that it needs no timer and no fractions.
pub(crate) struct Bucket {
    /// What is saved, and as of when; none before the first request: it is full.
    saved: Option<(Duration, Duration)>,
}

impl Actor for Bucket {
    type Error = std::convert::Infallible;
}

impl Entity for Bucket {
    type Key = String;
    const NAME: &'static str = "bucket";
    const IDLE: Duration = IDLE;

    fn create(_: &String) -> Self {
        Self { saved: None }
    }
}

#[messages(entity)]
impl Bucket {
    /// Takes a request's worth, and answers how many are left; or how long until there is one.
    #[message]
    pub(crate) fn take(
        &mut self,
        limit: Limit,
        cx: &mut Context<'_, Self>,
    ) -> Result<u128, Duration> {
        let (full, now) = (limit.full(), Duration::from_nanos(cx.group().now_ns()));
        let mut saved = match self.saved {
            Some((saved, then)) => full.min(saved + now.saturating_sub(then)),
            None => full,
        };
        let answer = match saved.checked_sub(limit.period) {
            Some(rest) => {
                saved = rest;
                Ok(rest.as_nanos() / limit.period.as_nanos())
            }
            None => Err(limit.period - saved),
        };
        self.saved = Some((saved, now));
        // A bucket that is forgotten comes back full: not before it is.
        cx.keep_for(full - saved);
        answer
    }
}
