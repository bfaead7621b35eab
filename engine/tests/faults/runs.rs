//! Fault runs of all workloads.

use turnwheel_testkit::{FaultReport, Faults, Workload};

use super::faults::{each, Each};

/// Fault runs.
#[derive(Debug)]
struct FaultRuns<T> {
    options: Faults,
    schedules: Faults,
    /// Is told what came of a workload.
    told: T,
    report: FaultReport,
}

impl<T: FnMut(&str, &FaultReport)> Each for FaultRuns<T> {
    fn one<W: Workload>(&mut self, is_long: bool, make: impl Fn() -> W) {
        let name = make().name().to_owned();
        let tried = if is_long { &self.schedules } else { &self.options }.run(make);
        (self.told)(&name, &tried);
        self.report.add(tried);
    }
}

/// Tries all workloads, those of schedules with options of their own.
pub(crate) fn all(
    options: Faults,
    schedules: Faults,
    told: impl FnMut(&str, &FaultReport),
) -> FaultReport {
    let mut runs = FaultRuns { options, schedules, told, report: FaultReport::default() };
    each(&mut runs);
    runs.report
}
