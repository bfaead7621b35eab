//! Results of fault runs.

use std::fmt;

use super::point::FaultPoint;

/// Violations that are told in full.
const VIOLATIONS_KEPT: usize = 50;

/// Results of fault runs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FaultReport {
    /// Runs with trouble: one point or a pair each.
    pub points: u64,
    /// Runs in which something was wrong.
    pub violations: u64,
    /// The first of them.
    pub first: Vec<FaultViolation>,
}

/// Something that must not be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FaultViolation {
    /// The workload.
    pub workload: String,
    /// The seed of the run.
    pub seed: u64,
    /// The trouble that is enough for it; none if the run without any is wrong.
    pub points: Vec<FaultPoint>,
    /// The problem.
    pub problem: String,
}

impl FaultReport {
    /// Adds what came of another workload.
    pub fn add(&mut self, other: Self) {
        self.points += other.points;
        self.violations += other.violations;
        let room = VIOLATIONS_KEPT.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
    }

    pub(super) fn add_violation(&mut self, violation: FaultViolation) {
        self.violations += 1;
        if self.first.len() < VIOLATIONS_KEPT {
            self.first.push(violation);
        }
    }

    /// Checks that nothing was wrong.
    ///
    /// # Panics
    ///
    /// Something was; the message tells the first violations.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.violations == 0, "{self}");
        assert!(self.points > 0, "nothing was tried");
    }
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fault points, {} violations", self.points, self.violations)?;
        self.first.iter().try_for_each(|violation| write!(f, "\n{violation}"))
    }
}

impl fmt::Display for FaultViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, seed, points, problem } = self;
        let points: Vec<String> = points.iter().map(ToString::to_string).collect();
        write!(f, "{workload}, seed {seed}, [{}]: {problem}", points.join(" + "))
    }
}
