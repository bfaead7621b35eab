//! Fault runs: a workload whose store, clock or process is in trouble at chosen moments, and goes
//! on.
//!
//! | file | what is there |
//! | --- | --- |
//! | `point` | the kinds of trouble and the moments at which they begin |
//! | `injector` | what counts the moments and makes the trouble |
//! | `life` | the lives of a world with its client, from the first start to the end of all plans |
//! | `report` | how many runs there were, and what was wrong |

mod injector;
mod life;
mod point;
mod report;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;

pub use point::{FaultPoint, Moment, Trouble};
pub use report::{FaultReport, FaultViolation};

use self::life::{judge, Counts};
use crate::fault_store::Twin;
use crate::medium::Kind;
use crate::workload::Workload;

/// Runs workloads with faults at their reads, writes and timers, alone and in pairs.
///
/// Each run begins with an empty store, in memory or in a file, in virtual time. What fails goes on
/// afterwards: the store answers again, a killed process is started again, a clock is set right. At
/// the end of each run the contract is checked:
///
/// * what was acknowledged is in the store, and no outcome is recorded twice,
/// * every plan has come to its end, its row says what its journal says, and no lock is left,
/// * nothing more happens in the hour after that,
/// * what the workload itself expects ([`Workload::client`], [`Workload::verdict`]).
///
/// A run that does not end is a violation. A violation of a pair is told with one point if that is
/// enough.
#[derive(Clone, Debug)]
#[must_use]
pub struct Faults {
    seeds: Vec<u64>,
    points: usize,
    pairs: usize,
    kind: Kind,
    twin: Option<Twin>,
}

impl Default for Faults {
    fn default() -> Self {
        Self::new()
    }
}

impl Faults {
    /// One seed, all points alone, no pairs, in memory.
    pub fn new() -> Self {
        Self { seeds: vec![1], points: usize::MAX, pairs: 0, kind: Kind::Memory, twin: None }
    }

    /// These seeds: each gives the runs another order.
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = u64>) -> Self {
        self.seeds = seeds.into_iter().collect();
        self
    }

    /// At most so many points alone for each seed, chosen by the seed.
    pub fn points(mut self, points: usize) -> Self {
        self.points = points;
        self
    }

    /// So many pairs of points for each seed, chosen by the seed.
    pub fn pairs(mut self, pairs: usize) -> Self {
        self.pairs = pairs;
        self
    }

    /// Takes SQLite files, in folders that are made below this one and removed again, instead of
    /// memory.
    pub fn sqlite_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.kind = Kind::Sqlite(folder.into());
        self
    }

    /// Takes a store that is broken on purpose: the runs have to find it, and end with the first
    /// violation.
    pub fn broken(mut self, twin: Twin) -> Self {
        self.twin = Some(twin);
        self
    }

    /// Tries the points of a workload, which is made anew for each run.
    pub fn run<W: Workload>(&self, workload: impl Fn() -> W) -> FaultReport {
        let mut report = FaultReport::default();
        for seed in &self.seeds {
            let mut runs = Runs { make: &workload, faults: self, seed: *seed, report: &mut report };
            runs.all(self.points, self.pairs);
        }
        report
    }

    /// Tries one run, for instance that of a violation.
    ///
    /// # Errors
    ///
    /// The problem.
    pub fn once<W: Workload>(
        &self,
        workload: &W,
        seed: u64,
        points: &[FaultPoint],
    ) -> Result<(), String> {
        self.tried(workload, seed, points).map(|_| ())
    }

    /// A panic, also that of a simulation that does not come to rest, is a violation.
    fn tried<W: Workload>(
        &self,
        workload: &W,
        seed: u64,
        points: &[FaultPoint],
    ) -> Result<Counts, String> {
        let place = (&self.kind, self.twin);
        let tried = catch_unwind(AssertUnwindSafe(|| judge(workload, place, seed, points)));
        tried.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("a panic: {}", text.unwrap_or("without a text")))
        })
    }
}

/// The runs of one seed.
struct Runs<'a, F> {
    make: &'a F,
    faults: &'a Faults,
    seed: u64,
    report: &'a mut FaultReport,
}

impl<W: Workload, F: Fn() -> W> Runs<'_, F> {
    fn all(&mut self, points: usize, pairs: usize) {
        let counts = match self.tried(&[]) {
            Ok(counts) => counts,
            Err(problem) => return self.wrong(Vec::new(), problem),
        };
        let mut all = point::all(&counts);
        let mut chance = self.seed;
        if points < all.len() {
            // Not each one in so many: those could all be of the same kinds.
            for place in 0..points {
                let other = place + (next(&mut chance) % (all.len() - place) as u64) as usize;
                all.swap(place, other);
            }
        }
        for point in all.iter().take(points) {
            self.one(vec![*point]);
            if self.has_found_defect() {
                return;
            }
        }
        for _ in 0..pairs {
            let mut pick = || all[(next(&mut chance) % all.len() as u64) as usize];
            let pair = vec![pick(), pick()];
            self.one(pair);
        }
    }

    fn has_found_defect(&self) -> bool {
        self.faults.twin.is_some() && self.report.violations > 0
    }

    fn tried(&self, points: &[FaultPoint]) -> Result<Counts, String> {
        self.faults.tried(&(self.make)(), self.seed, points)
    }

    fn one(&mut self, points: Vec<FaultPoint>) {
        self.report.points += 1;
        let Err(problem) = self.tried(&points) else { return };
        // One of a pair may be enough.
        for point in points.iter().filter(|_| points.len() > 1) {
            if let Err(problem) = self.tried(&[*point]) {
                return self.wrong(vec![*point], problem);
            }
        }
        self.wrong(points, problem);
    }

    fn wrong(&mut self, points: Vec<FaultPoint>, problem: String) {
        let (workload, seed) = ((self.make)().name().to_owned(), self.seed);
        self.report.add_violation(FaultViolation { workload, seed, points, problem });
    }
}

/// The next number of a generator of chance (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
