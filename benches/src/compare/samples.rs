//! The measurements of the processes of a comparison, and the figures made of them.

use std::collections::BTreeMap;

use super::plan::{Impl, Pattern};
use crate::error::BenchError;
use crate::report::median;

/// The samples of one pattern on one contender.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Nanoseconds a message, for memory bytes: of each process, in the order taken.
    values: BTreeMap<usize, Vec<f64>>,
    pub(super) allocations: Vec<f64>,
    pub(super) wakes: Vec<f64>,
}

/// The median over all, and the smallest and the largest median of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Samples {
    /// All samples, whatever their process.
    pub(super) fn all(&self) -> Vec<f64> {
        self.values.values().flatten().copied().collect()
    }

    /// The medians of the processes.
    pub(super) fn spread(&self) -> Option<Spread> {
        Spread::of(self.values.values(), median(&self.all()))
    }

    /// Ratios to the samples of another contender that were taken side by side: in the same process,
    /// with the same number.
    pub(super) fn against(&self, other: &Self) -> Option<Spread> {
        let pairs = |(process, mine): (&usize, &Vec<f64>)| {
            let theirs = other.values.get(process)?;
            Some(mine.iter().zip(theirs).map(|(mine, theirs)| mine / theirs).collect())
        };
        let ratios: Vec<Vec<f64>> = self.values.iter().filter_map(pairs).collect();
        let all: Vec<f64> = ratios.iter().flatten().copied().collect();
        (!all.is_empty()).then(|| Spread::of(ratios.iter(), median(&all)))?
    }

    /// Ratios to the samples of another binary: of the medians, and of those of each process to the
    /// one that ran beside it.
    pub(super) fn beside(&self, other: &Self) -> Option<Spread> {
        let medians = |(process, mine): (&usize, &Vec<f64>)| {
            Some(median(mine) / median(other.values.get(process)?))
        };
        let ratios: Vec<Vec<f64>> =
            self.values.iter().filter_map(medians).map(|one| vec![one]).collect();
        (!ratios.is_empty())
            .then(|| Spread::of(ratios.iter(), median(&self.all()) / median(&other.all())))?
    }
}

impl Spread {
    fn of<'a>(processes: impl Iterator<Item = &'a Vec<f64>>, whole: f64) -> Option<Self> {
        let medians: Vec<f64> = processes
            .filter(|samples| !samples.is_empty())
            .map(|samples| median(samples))
            .collect();
        let min = medians.iter().copied().reduce(f64::min)?;
        let max = medians.iter().copied().reduce(f64::max)?;
        Some(Self { median: whole, min, max })
    }
}

/// The measurements of all processes so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    samples: BTreeMap<(Pattern, Impl), Samples>,
    /// The case that the present process has reached.
    pub(super) reached: Option<(Pattern, Option<Impl>)>,
    pub(super) failures: Vec<BenchError>,
}

impl Gathered {
    /// The measurements of a pattern on a contender.
    pub(super) fn samples(&self, pattern: Pattern, contender: Impl) -> Option<&Samples> {
        self.samples.get(&(pattern, contender))
    }

    /// Takes a sample of a process.
    pub(super) fn take(
        &mut self,
        process: usize,
        (pattern, contender): (Pattern, Impl),
        value: f64,
    ) -> &mut Samples {
        let samples = self.samples.entry((pattern, contender)).or_default();
        samples.values.entry(process).or_default().push(value);
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(processes: &[(usize, &[f64])]) -> Samples {
        let values = processes.iter().map(|(at, values)| (*at, values.to_vec())).collect();
        Samples { values, ..Samples::default() }
    }

    #[test]
    fn ratios_are_taken_inside_a_process_also_when_another_has_failed_half_way() {
        let mine = samples(&[(1, &[1.0]), (2, &[2.0, 2.0, 2.0])]);
        let theirs = samples(&[(1, &[2.0, 2.0]), (2, &[8.0, 4.0, 8.0]), (3, &[1.0])]);
        let ratio = mine.against(&theirs).unwrap();
        // 0.5 in the first; 0.25, 0.5 and 0.25 in the second.
        assert_eq!(ratio, Spread { median: 0.375, min: 0.25, max: 0.5 });
        assert_eq!(mine.against(&samples(&[(7, &[1.0])])), None);
    }

    #[test]
    fn another_binary_is_compared_by_medians() {
        let new = samples(&[(1, &[1.0, 1.0]), (2, &[3.0])]);
        let old = samples(&[(1, &[2.0]), (2, &[2.0])]);
        assert_eq!(new.beside(&old).unwrap(), Spread { median: 0.5, min: 0.5, max: 1.5 });
    }

    #[test]
    fn spread_names_the_best_and_the_worst_process() {
        let own = samples(&[(1, &[4.0, 5.0, 6.0]), (2, &[9.0])]);
        assert_eq!(own.spread().unwrap(), Spread { median: 5.5, min: 5.0, max: 9.0 });
    }
}
