//! Loom models of `turnwheel-runtime`. See `tests/`; this is what they share.
#![cfg(turnwheel_loom)]

use loom::cell::UnsafeCell;
use turnwheel_runtime::model::run_ready;
use turnwheel_runtime::{Group, Task};

/// A state that the model checks for exclusive use: what has run.
#[derive(Debug)]
pub struct Ran(UnsafeCell<Vec<u32>>);

// SAFETY: the model checks each access.
unsafe impl Send for Ran {}

impl Ran {
    /// Spawns a task with this state, from a builder or with none of its own.
    pub fn task(group: &Group) -> Task<Self> {
        group.spawn(Self::new()).expect("the group takes tasks")
    }

    /// A state that has run nothing.
    #[expect(clippy::new_without_default, reason = "a cell of the model is made in a model")]
    pub fn new() -> Self {
        Self(UnsafeCell::new(Vec::new()))
    }

    /// Notes that this job has run.
    pub fn note(&self, number: u32) {
        // SAFETY: one turn at a time; the model checks that.
        self.0.with_mut(|ran| unsafe { (*ran).push(number) });
    }

    fn ran(&self) -> Vec<u32> {
        // SAFETY: as above.
        self.0.with(|ran| unsafe { (*ran).clone() })
    }
}

/// Submits a job and runs what is ready. Whether the job was taken.
pub fn submit(group: &Group, task: &Task<Ran>, number: u32) -> bool {
    let submitted = task.submit(move |ran, _| ran.note(number)).is_ok();
    run_ready(group);
    submitted
}

/// What a task has run, when nobody else uses it any more.
pub fn ran(group: &Group, task: &Task<Ran>) -> Vec<u32> {
    let ran = task.call(|ran, _| ran.ran());
    run_ready(group);
    ran.wait().expect("the task lives")
}
