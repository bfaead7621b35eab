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

/// Tries all workloads, and tells after each how many points there were.
pub(crate) fn all(options: &Faults, mut told: impl FnMut(&str, &FaultReport)) -> FaultReport {
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
        add(format!("Schedules {overlap:?}"), options.run(|| Scheduled::new(overlap)));
    }
    report
}
