//! What a step costs that takes events for years: the last one as much as the first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_engine::limits::HISTORY_KEPT;
use turnwheel_engine::store::Batch;
use turnwheel_engine::{Action, ActionError, Next, RunAsync, RunsAsync, StepContext, World};
use turnwheel_runtime::sim::Sim;

use crate::common::wrapped::{Beside, Wrapped};

/// Takes events without an end.
struct Meter;

impl Action for Meter {
    const NAME: &'static str = "meter";
    type Input = ();
    type Output = u64;
    type Phases = RunsAsync;
}

impl RunAsync for Meter {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output += u64::from(step.has_event());
        Ok(step.wait_for_event("a reading"))
    }
}

/// Counts the bytes of entries and snapshots.
#[derive(Clone, Debug, Default)]
struct Counting(Arc<AtomicUsize>);

impl Beside for Counting {
    fn commit(&self, batch: &Batch<'_>) {
        let entries: usize = batch.appends.iter().map(|append| append.records.len()).sum();
        let snapshots = batch.rows.iter().filter_map(|write| write.row.snapshot.as_ref());
        let snapshots: usize = snapshots.map(|(_, bytes)| bytes.len()).sum();
        self.0.fetch_add(entries + snapshots, Ordering::Relaxed);
    }
}

#[test]
fn an_event_costs_the_same_after_two_thousand_others() {
    let (store, sim) = (Wrapped::<Counting>::default(), Sim::new(3));
    let builder = World::builder().action(Meter).seed(3);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
    let plan = sim.block_on(world.trigger::<Meter>(())).expect("it ends").expect("it is taken");
    sim.run_until_idle();
    let view = sim.block_on(plan.view()).expect("it ends").expect("it is there");
    let step = view.run_step::<Meter>().expect("it has one").id;
    let mut costs = Vec::new();
    for window in 0..8 {
        let before = store.beside.0.load(Ordering::Relaxed);
        for number in 0..256 {
            let id = format!("reading {}", 10_000 + window * 256 + number);
            let taken = sim.wait(world.event_by(plan.id(), step, Some(&id), &number, "a meter"));
            taken.expect("it answers").expect("it is taken");
            if number % 16 == 0 {
                // It leaves memory now and then.
                sim.advance(Duration::from_secs(5));
            }
        }
        sim.advance(Duration::from_secs(5));
        costs.push(store.beside.0.load(Ordering::Relaxed) - before);
    }
    let (first, last) = (costs[0] + costs[1], costs[6] + costs[7]);
    assert!(last * 2 < first * 3, "512 events cost {first} bytes at first and {last} at last");
    let view = sim.block_on(plan.view()).expect("it ends").expect("it is there");
    assert!(view.history.len() <= 2 * HISTORY_KEPT, "{} lines are kept", view.history.len());
    assert_eq!(view.output::<Meter>().expect("it is a number"), 8 * 256);
    let again = sim.wait(world.event(plan.id(), step, Some("reading 10000"), &0));
    again.expect("it answers").expect("a repetition is taken");
    sim.run_until_idle();
    let view = sim.block_on(plan.view()).expect("it ends").expect("it is there");
    assert_eq!(view.output::<Meter>().expect("it is a number"), 8 * 256, "and dropped");
}
