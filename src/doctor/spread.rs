//! Summary of samples: smallest, middle, and the slow end.

use serde::Serialize;

/// Smallest, median and 99th percentile of a set of samples, in the unit the measurement names.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest sample.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile (nearest rank).
    pub p99: f64,
    /// Number of samples.
    pub samples: usize,
}

impl Spread {
    /// Sums up `samples`; `None` if there are none.
    ///
    /// Cost: sorts the samples.
    #[must_use]
    pub fn of(mut samples: Vec<f64>) -> Option<Self> {
        debug_assert!(samples.iter().all(|sample| sample.is_finite()), "samples are durations");
        samples.sort_by(f64::total_cmp);
        let count = samples.len();
        Some(Self {
            min: *samples.first()?,
            p50: samples[rank(count, 50)],
            p99: samples[rank(count, 99)],
            samples: count,
        })
    }

    /// The same spread in a unit that is `factor` times larger.
    #[must_use]
    pub(crate) fn in_units_of(self, factor: f64) -> Self {
        Self { min: self.min / factor, p50: self.p50 / factor, p99: self.p99 / factor, ..self }
    }
}

/// Index of the nearest-rank percentile in `count` sorted samples.
fn rank(count: usize, percent: usize) -> usize {
    debug_assert!(count > 0, "a rank needs a sample");
    debug_assert!(percent <= 100, "a percentile is at most 100");
    (count * percent).div_ceil(100).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_samples_have_no_spread() {
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn one_sample_is_all_of_its_spread() {
        let spread = Spread::of(vec![3.0]).unwrap();
        assert_eq!((spread.min, spread.p50, spread.p99, spread.samples), (3.0, 3.0, 3.0, 1));
    }

    #[test]
    fn percentiles_are_nearest_rank_whatever_the_order() {
        let spread = Spread::of((1..=100).rev().map(f64::from).collect()).unwrap();
        assert_eq!((spread.min, spread.p50, spread.p99), (1.0, 50.0, 99.0));
    }
}
