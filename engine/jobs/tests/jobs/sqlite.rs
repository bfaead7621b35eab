//! The same over a file, in real time: a world ends and another one goes on with its jobs.

use turnwheel_engine::World;
use turnwheel_jobs::{Executors, Jobs, JobsOptions, LaunchState, WithJobs};
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::Group;
use turnwheel_sqlite::SqliteStore;

use super::common::{job, Play};

#[test]
fn jobs_and_their_history_are_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(folder.path().join("plans.db"));
    let executors = Executors::new().with("play", Play::default());
    let group = Group::builder("jobs").workers(1).build().unwrap();
    let open = |world: &World| {
        block_on(Jobs::open(world, &group, JobsOptions::new(&executors))).unwrap().unwrap()
    };
    let world = World::builder().jobs(&executors).build(store.clone()).unwrap();
    let jobs = open(&world);
    let spec = job("once", "@manually", |_| ());
    jobs.put(spec.clone(), None, "ann").wait().unwrap().unwrap();
    let launch = jobs.run("once", "ann", false).wait().unwrap().unwrap();
    // The plan's end is the last news of the launch.
    let plan = loop {
        let found = block_on(jobs.launch("once", launch)).unwrap().unwrap();
        if let Some(plan) = found.runs[0].plan {
            break plan;
        }
    };
    world.plan(plan).finished().wait().unwrap();
    jobs.end();
    world.shutdown().unwrap();
    let world = World::builder().jobs(&executors).build(store).unwrap();
    let jobs = open(&world);
    assert_eq!(jobs.get("once").wait().unwrap().unwrap().spec, spec);
    let found = loop {
        let found = block_on(jobs.launch("once", launch)).unwrap().unwrap();
        if found.state.is_over() {
            break found;
        }
    };
    assert_eq!((found.state, found.runs.len()), (LaunchState::Succeeded, 1));
    jobs.end();
    world.shutdown().unwrap();
    group.shutdown().unwrap();
}
