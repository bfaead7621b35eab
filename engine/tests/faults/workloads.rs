//! Workloads whose store, clock and process are in trouble.

#[path = "actions.rs"]
mod actions;
#[path = "flows.rs"]
mod flows;
#[path = "plans.rs"]
mod plans;

use turnwheel_engine::testkit::{FaultReport, Faults};

use flows::{Listening, Scheduled};
use plans::{Plans, Subject};

/// Tries all workloads, and tells after each what came of it. Schedules take minutes of virtual time, so that
/// there may be fewer points of them.
pub(crate) fn all(
    options: &Faults,
    schedules: &Faults,
    mut told: impl FnMut(&str, &FaultReport),
) -> FaultReport {
    let mut report = FaultReport::default();
    let mut add = |name: String, tried: FaultReport| {
        told(&name, &tried);
        report.add(tried);
    };
    for subject in Subject::ALL {
        add(format!("{subject:?}"), options.run(|| Plans::new(subject)));
    }
    add("Flows".to_owned(), options.run(|| Listening));
    for overlap in Scheduled::ALL {
        add(format!("Schedules {overlap:?}"), schedules.run(|| Scheduled::new(overlap)));
    }
    report
}
