//! Workloads whose store, clock and process are in trouble.

#[path = "actions.rs"]
mod actions;
#[path = "flows.rs"]
mod flows;
#[path = "messages.rs"]
mod messages;
#[path = "neighbours.rs"]
mod neighbours;
#[path = "plans.rs"]
mod plans;
#[path = "steps.rs"]
mod steps;

use turnwheel_testkit::Workload;

use flows::{Listening, Looping, Scheduled};
use messages::{Messages, Topic};
use neighbours::Neighbours;
pub(crate) use plans::{Plans, Subject};
pub(crate) use steps::{Promise, Steps};

/// What is done with each workload.
pub(crate) trait Each {
    /// Schedules take minutes of virtual time and a flow in a loop has hundreds of tasks: there may
    /// be fewer points of those that are long.
    fn one<W: Workload>(&mut self, is_long: bool, make: impl Fn() -> W);
}

/// Calls it with all workloads.
pub(crate) fn each(it: &mut impl Each) {
    for subject in Subject::ALL {
        it.one(false, || Plans::new(subject));
    }
    for promise in Promise::ALL {
        it.one(false, || Steps::new(promise));
    }
    for topic in Topic::ALL {
        it.one(false, || Messages::new(topic));
    }
    it.one(false, Neighbours::new);
    it.one(false, || Listening);
    it.one(true, || Looping);
    for overlap in Scheduled::ALL {
        it.one(true, || Scheduled::new(overlap));
    }
}
