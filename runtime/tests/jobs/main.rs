//! Jobs, their order, conditions and timers: the reference's functional cases, in simulation where
//! order is the point and on 1, 2 and 4 workers where threads are.

mod asked_in_polls;
mod assists;
mod backoff;
mod clocks;
mod conditions;
mod hosted;
mod order;
mod rounds;
mod tasks;
mod threads;
mod timers;
mod urgent;
mod wakers;
mod weak;
mod wheel;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_runtime::{Group, Pinning};

type Log = Arc<Mutex<Vec<&'static str>>>;

fn note(log: &Log, what: &'static str) {
    log.lock().expect("nobody panics while writing").push(what);
}

fn noted(log: &Log) -> Vec<&'static str> {
    log.lock().expect("nobody panics while writing").clone()
}

fn count(log: &Log, what: &str) -> usize {
    noted(log).iter().filter(|noted| **noted == what).count()
}

fn on_workers(test: impl Fn(&Group)) {
    for workers in [1, 2, 4] {
        let group = Group::builder("jobs").workers(workers).pinning(Pinning::None).build();
        let group = group.expect("a group with few workers");
        test(&group);
        assert!(group.shutdown().expect("not on a worker").is_clean(), "{workers} workers");
    }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}
