//! The end of a world whose store fails or does not answer: it comes within its limit, says what was not
//! written, and loses nothing that was answered.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use turnwheel_engine::{
    Action, ActionError, BuildError, MemoryStore, Next, PlanId, PlanResult, RunAsync, RunsAsync,
    StepContext, StoreError, Waiting, World,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completion;
use turnwheel_testkit::FaultStore;

/// Much longer than a limit, and than anything takes that is not stuck.
const LONG: Duration = Duration::from_secs(20);

/// Waits in its first call until it may end.
#[derive(Clone, Default)]
struct Gated(Arc<Mutex<Option<Completion<()>>>>);

impl Action for Gated {
    const NAME: &'static str = "gated";
    type Input = u32;
    type Output = u32;
    type Phases = RunsAsync;
}

impl RunAsync for Gated {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let gate = self.0.lock().expect("nothing panics under it").take();
        if let Some(gate) = gate {
            let _opened = gate.await;
        }
        step.output = step.input + 1;
        Ok(Next::Done)
    }
}

fn begin(store: &FaultStore, action: &Gated) -> World {
    World::builder().action(action.clone()).build(store.clone()).expect("it begins")
}

/// The plans of the error; the shutdown took less than a long time.
fn not_written(world: &World) -> (Vec<PlanId>, String) {
    let begun = Instant::now();
    let error = world.shutdown_within(Duration::from_millis(500)).expect_err("it says so");
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    let text = error.to_string();
    assert!(text.contains("not written") && text.contains("next start"), "{text}");
    let BuildError::NotWritten { plans, problem } = error else { panic!("{text}") };
    (plans, problem)
}

/// All plans are there, and come to their end.
fn all_end(store: &FaultStore, action: &Gated, plans: &[PlanId]) {
    let world = begin(store, action);
    for (input, plan) in (0..).zip(plans) {
        let view = world.plan(*plan).finished().wait().expect("it was answered, so it is there");
        assert_eq!(view.result(), PlanResult::Success, "{}", view.waits_for());
        assert_eq!(view.output::<Gated>().expect("it reads"), input + 1);
    }
    world.shutdown().expect("it ends");
}

#[test]
fn a_world_whose_store_fails_ends_in_time_and_names_what_is_not_written() {
    let (store, action) = (FaultStore::new(MemoryStore::new()), Gated::default());
    let world = begin(&store, &action);
    let done = world.trigger::<Gated>(0).wait().expect("it is taken");
    done.finished().wait().expect("it ends");
    let (open, gate) = completion();
    *action.0.lock().unwrap() = Some(gate);
    let runs = world.trigger::<Gated>(1).wait().expect("it is taken");
    while runs.view().wait().expect("it is there").started_at.is_none() {}
    store.fail(StoreError::Failed("the disk is away".to_owned()));
    let _taken = open.complete(());
    while runs.view().wait().expect("it is there").waiting() != Waiting::Store {}
    assert!(world.trigger::<Gated>(7).wait().is_err(), "nothing new is promised");
    let (plans, problem) = not_written(&world);
    assert_eq!(plans, [runs.id()]);
    assert!(problem.contains("the disk is away"), "{problem}");
    store.heal();
    all_end(&store, &action, &[done.id(), runs.id()]);
}

#[test]
fn a_world_whose_store_does_not_answer_ends_in_time() {
    let (store, action) = (FaultStore::new(MemoryStore::new()), Gated::default());
    let world = begin(&store, &action);
    let done = world.trigger::<Gated>(0).wait().expect("it is taken");
    done.finished().wait().expect("it ends");
    store.stall();
    let asked = world.trigger::<Gated>(1);
    let (_, problem) = not_written(&world);
    assert!(problem.contains("did not answer"), "{problem}");
    store.heal();
    // Whether that one was taken is not known: it was not answered.
    drop(asked);
    all_end(&store, &action, &[done.id()]);
}

#[test]
fn a_world_whose_store_neither_reads_nor_writes_names_what_is_not_written() {
    let (store, action) = (FaultStore::new(MemoryStore::new()), Gated::default());
    let world = begin(&store, &action);
    let away = || StoreError::Failed("the disk is away".to_owned());
    let gated = [0, 1].map(|input| {
        let (open, gate) = completion();
        *action.0.lock().unwrap() = Some(gate);
        let plan = world.trigger::<Gated>(input).wait().expect("it is taken");
        while action.0.lock().unwrap().is_some() {}
        (plan, open)
    });
    store.fail(away());
    store.fail_reads(away());
    let _taken = gated[0].1.complete(());
    while gated[0].0.view().wait().expect("it is there").waiting() != Waiting::Store {}
    // Its entry waits for the next look at the store, and the world ends before that.
    let _taken = gated[1].1.complete(());
    let (plans, problem) = not_written(&world);
    let ids = [gated[0].0.id(), gated[1].0.id()];
    assert_eq!(plans, ids, "{problem}");
    assert!(problem.contains("the disk is away"), "{problem}");
    store.heal();
    all_end(&store, &action, &ids);
}
