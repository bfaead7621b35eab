//! Plans run in the order that their flows and references say, and survive the world.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    output, Action, ActionError, Finalize, Finalizes, Input, MemoryStore, Next, PlanResult,
    PlanState, Planner, Run, RunAsync, Runs, RunsAsync, StepContext, StepState, Store, World,
};
use turnwheel_sqlite::SqliteStore;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Numbers {
    numbers: Vec<Input<u64>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Sum {
    sum: u64,
}

/// Adds numbers, given or made by others.
struct Add;

impl Action for Add {
    const NAME: &'static str = "add";
    type Input = Numbers;
    type Output = Sum;
    type Phases = RunsAsync;
}

impl RunAsync for Add {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        for number in &step.input.numbers {
            step.output.sum += number.get()?;
        }
        Ok(Next::Done)
    }
}

/// Adds many numbers in slices, and the sums of the slices.
struct AddMany {
    finalized: Arc<AtomicU32>,
}

impl Action for AddMany {
    const NAME: &'static str = "add-many";
    type Input = Vec<u64>;
    type Output = Sum;
    type Phases = Finalizes;

    fn plan(&self, planner: &mut Planner<'_, Self>, input: Self::Input) -> Result<(), ActionError> {
        let mut sums = Vec::new();
        for slice in input.chunks(10) {
            let numbers = slice.iter().map(|number| Input::from(*number)).collect();
            let slice = planner.plan_action::<Add>(Numbers { numbers })?;
            sums.push(Input::from(output!(slice => sum)?));
        }
        planner.plan_action::<Add>(Numbers { numbers: sums })?;
        planner.plan_self(input)?;
        Ok(())
    }
}

impl Finalize for AddMany {
    fn finalize(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        self.finalized.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Waits for an event and gives what it says.
struct Approval;

impl Action for Approval {
    const NAME: &'static str = "approval";
    type Input = String;
    type Output = Option<bool>;
    type Phases = Runs;
}

impl Run for Approval {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match step.event::<bool>()? {
            None => {
                step.event_after(Duration::from_secs(3600), &false)?;
                Ok(Next::suspend(format!("approval by {}", step.input)))
            }
            Some(answer) => {
                step.output = Some(answer);
                Ok(Next::Done)
            }
        }
    }
}

fn world(store: impl Store, finalized: &Arc<AtomicU32>) -> World {
    World::builder()
        .action(Add)
        .action(AddMany { finalized: Arc::clone(finalized) })
        .action(Approval)
        .build(store)
        .expect("the world begins")
}

#[test]
fn sums_of_slices_are_added_when_all_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let finalized = Arc::new(AtomicU32::new(0));
    let world = world(SqliteStore::new(folder.path().join("plans.db")), &finalized);
    let plan = world.trigger::<AddMany>((1..=100).collect()).wait().unwrap();
    let view = plan.finished().wait().unwrap();
    assert_eq!(view.state, PlanState::Stopped);
    assert_eq!(view.result(), PlanResult::Success, "{view:?}");
    let last = view.actions.iter().rfind(|action| action.name == "add").unwrap();
    assert_eq!(last.output.read::<Sum>().unwrap().sum, 5050);
    assert_eq!(finalized.load(Ordering::SeqCst), 1);
    assert!((view.progress() - 1.0).abs() < 1e-9);
    world.shutdown().unwrap();
}

#[test]
fn a_plan_waits_for_its_event_also_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let finalized = Arc::new(AtomicU32::new(0));
    let first = world(SqliteStore::new(&path), &finalized);
    let plan = first.trigger::<Approval>("Ann".to_owned()).wait().unwrap();
    let step = loop {
        let view = plan.view().wait().unwrap();
        let step = view.run_step::<Approval>().unwrap();
        if step.state == StepState::Suspended {
            assert_eq!(step.waits_for, "approval by Ann");
            break step.id;
        }
    };
    let id = plan.id();
    drop(plan);
    first.shutdown().unwrap();
    drop(first);

    let second = world(SqliteStore::new(&path), &finalized);
    second.event(id, step, Some("one"), &true).wait().unwrap().unwrap();
    let view = second.plan(id).finished().wait().unwrap();
    assert_eq!(view.output::<Approval>().unwrap(), Some(true));
    assert_eq!(view.result(), PlanResult::Success);
    second.shutdown().unwrap();
}

#[test]
fn a_key_triggers_once() {
    let finalized = Arc::new(AtomicU32::new(0));
    let world = world(MemoryStore::new(), &finalized);
    let numbers = || Numbers { numbers: vec![1.into()] };
    let first = world.trigger_once::<Add>("order 7", numbers()).wait().unwrap();
    let second = world.trigger_once::<Add>("order 7", numbers()).wait().unwrap();
    assert_eq!(first.id(), second.id());
    assert_eq!(second.finished().wait().unwrap().output::<Add>().unwrap().sum, 1);
    world.shutdown().unwrap();
}
