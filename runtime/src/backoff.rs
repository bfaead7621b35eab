//! Delays between attempts. Pure arithmetic: no clock, no thread.

use std::time::Duration;

use crate::limits::{BACKOFF_CAP_DEFAULT, BACKOFF_FIRST_DEFAULT};

/// Delays that grow by a factor up to a cap, shortened at random if wanted.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use turnwheel_runtime::Backoff;
///
/// let backoff = Backoff::exponential(Duration::from_secs(2), Duration::from_secs(10));
/// let seconds: Vec<_> = backoff.delays(0).take(4).map(|delay| delay.as_secs()).collect();
/// assert_eq!(seconds, [2, 4, 8, 10]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    factor: u32,
    jitter_percent: u8,
    seed: Option<u64>,
}

default_value! {
    /// From 100 ms to 30 s, doubling, with a quarter of jitter.
    Backoff => Self::exponential(BACKOFF_FIRST_DEFAULT, BACKOFF_CAP_DEFAULT).jitter_percent(25)
}

impl Backoff {
    /// `first`, then twice as long each time, never longer than `cap`.
    pub fn exponential(first: Duration, cap: Duration) -> Self {
        Self { first, cap, factor: 2, jitter_percent: 0, seed: None }
    }

    /// The same delay each time.
    pub fn constant(delay: Duration) -> Self {
        Self { factor: 1, ..Self::exponential(delay, delay) }
    }

    setters! {
        /// Another factor than two; at least one.
        factor(self, factor: u32) => self.factor = factor.max(1);

        /// Shortens each delay by a random part of it, at most so many percent, so that callers
        /// that failed together do not retry together. At most 100.
        jitter_percent(self, percent: u8) => self.jitter_percent = percent.min(100);

        /// Makes the jitter repeatable; otherwise it depends on the task and the time.
        seed(self, seed: u64) => self.seed = Some(seed);
    }

    /// The delays, without end. `seed` counts only if the back-off has none of its own.
    pub fn delays(&self, seed: u64) -> Delays {
        Delays { backoff: *self, next: self.first.min(self.cap), random: self.seed.unwrap_or(seed) }
    }
}

/// The delays of a [`Backoff`], one after the other, without end.
#[derive(Clone, Debug)]
pub struct Delays {
    backoff: Backoff,
    next: Duration,
    random: u64,
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.next;
        self.next = delay.saturating_mul(self.backoff.factor).min(self.backoff.cap);
        let jitter = u32::from(self.backoff.jitter_percent);
        if jitter == 0 {
            return Some(delay);
        }
        // A random number of thousandths of the jitter.
        let part = (split_mix(&mut self.random) % 1_001) as u32;
        let most = delay / 100 * jitter;
        Some(delay - (most / 1_000 * part).min(delay))
    }
}

/// SplitMix64: a full period, any seed is a good one.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
