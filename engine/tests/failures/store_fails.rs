//! Commits that fail while the world goes on: plans keep what was decided and write it again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Cause, Delay, MemoryStore, Next, PlanHandle, PlanResult, PlanState,
    PlanView, RunAsync, RunsAsync, StepContext, Store, StoreError, Waiting, World,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Completer, Completion};
use turnwheel_sqlite::{SqliteStore, SqliteSync};
use turnwheel_testkit::FaultStore;

/// Code that does not end before it may, in its first call; with children if it is told to.
#[derive(Clone, Default)]
struct Work {
    gate: Arc<Mutex<Option<Completion<()>>>>,
    calls: Arc<Mutex<Vec<Cause>>>,
}

impl Work {
    fn shut(&self) -> Completer<()> {
        let (open, gate) = completion();
        *self.gate.lock().expect("nothing panics under it") = Some(gate);
        open
    }

    fn calls(&self) -> usize {
        self.calls.lock().expect("nothing panics under it").len()
    }
}

impl Action for Work {
    const NAME: &'static str = "work";
    type Input = u32;
    type Output = u32;
    type Phases = RunsAsync;
}

impl RunAsync for Work {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.calls.lock().expect("nothing panics under it").push(step.cause());
        let gate = self.gate.lock().expect("nothing panics under it").take();
        if let Some(gate) = gate {
            let _opened = gate.await;
        }
        if step.cause() == Cause::Turn && step.input > 0 {
            for _ in 0..step.input {
                step.trigger::<Self>(&0)?;
            }
            return Ok(Next::suspend("its sub-plans"));
        }
        step.output += 1;
        Ok(Next::Done)
    }
}

struct Place {
    sim: Sim,
    world: World,
    work: Work,
}

impl Place {
    fn new(store: impl Store) -> Self {
        let (sim, work) = (Sim::new(5), Work::default());
        let builder = World::builder().action(work.clone()).seed(5);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store)).expect("it ends").expect("the world begins");
        Self { sim, world, work }
    }

    fn trigger(&self, children: u32) -> PlanHandle {
        let plan = self.sim.block_on(self.world.trigger::<Work>(children));
        let plan = plan.expect("it ends").expect("the plan is taken");
        self.sim.run_until_idle();
        plan
    }

    fn view(&self, plan: &PlanHandle) -> PlanView {
        self.sim.block_on(plan.view()).expect("it answers").expect("the plan is there")
    }
}

fn broken() -> StoreError {
    StoreError::Failed("the disk is away".to_owned())
}

#[test]
fn a_commit_that_fails_while_code_runs_leaves_the_plan_answering_and_the_code_is_called_once() {
    let store = FaultStore::new(MemoryStore::new());
    let place = Place::new(store.clone());
    let open = place.work.shut();
    let plan = place.trigger(0);
    store.fail(broken());
    let label = place.sim.block_on(plan.label("city", "Rome", "ann")).expect("it answers");
    assert!(label.expect("the world is there").is_err(), "it is not durable");
    let view = place.view(&plan);
    assert_eq!((view.state, view.waiting()), (PlanState::Running, Waiting::Store));
    assert!(view.waits_for().contains("the disk is away"), "{}", view.waits_for());
    place.sim.advance(Duration::from_secs(1_900));
    assert_eq!(place.view(&plan).state, PlanState::Running);
    store.heal();
    place.sim.advance(Duration::from_secs(2));
    assert_eq!(place.view(&plan).waiting(), Waiting::Nothing);
    let _taken = open.complete(());
    place.sim.run_until_idle();
    let view = place.view(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!(place.work.calls(), 1);
}

#[test]
fn what_code_has_returned_while_the_store_failed_is_written_later_and_not_done_again() {
    let store = FaultStore::new(MemoryStore::new());
    let place = Place::new(store.clone());
    let open = place.work.shut();
    let plan = place.trigger(0);
    store.fail(broken());
    let _taken = open.complete(());
    place.sim.run_until_idle();
    place.sim.advance(Duration::from_secs(60));
    let tries = store.commits();
    place.sim.advance(Duration::from_secs(60));
    assert!(store.commits() - tries < 200, "it does not storm: {}", store.commits() - tries);
    store.heal();
    place.sim.advance(Duration::from_secs(2));
    let view = place.sim.block_on(plan.finished()).expect("it ends").expect("it is there");
    assert_eq!((view.result(), view.output::<Work>().unwrap()), (PlanResult::Success, 1));
    assert_eq!(place.work.calls(), 1);
}

/// Each commit of a plan with two sub-plans fails in one run, and some after it.
fn each_commit_fails(times: u64) {
    for number in 1.. {
        let store = FaultStore::new(MemoryStore::new());
        let place = Place::new(store.clone());
        let plans = [place.trigger(0), place.trigger(2)];
        let first = store.commits();
        let again = place.work.calls();
        (number..number + times).for_each(|commit| store.fail_at(first + commit, broken()));
        let last = place.sim.block_on(place.world.trigger::<Work>(2)).expect("it ends");
        let calls = if last.is_ok() { 4 } else { 0 };
        place.sim.advance(Duration::from_secs(5));
        for plan in plans.iter().chain(&last) {
            let view = place.view(plan);
            assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
        }
        assert_eq!(place.work.calls() - again, calls, "commit {number}");
        if store.commits() < first + number {
            assert!(number > 5, "there were some");
            return;
        }
    }
}

#[test]
fn a_commit_that_fails_once_harms_nobody() {
    each_commit_fails(1);
}

#[test]
fn commits_that_fail_for_a_while_harm_nobody() {
    each_commit_fails(6);
}

#[test]
fn cancel_is_answered_and_done_when_the_store_is_well_again() {
    let store = FaultStore::new(MemoryStore::new());
    let place = Place::new(store.clone());
    let _never = place.work.shut();
    let plan = place.trigger(0);
    store.fail(broken());
    assert!(place.sim.block_on(plan.cancel_now("ann")).expect("it answers").unwrap().is_err());
    store.heal();
    place.sim.advance(Duration::from_secs(2));
    let view = place.view(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
}

#[test]
fn a_sub_plan_that_finds_no_room_begins_when_there_is_some() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
    store.set_reserve(0);
    let place = Place::new(store.clone());
    let open = place.work.shut();
    let plan = place.trigger(2);
    // No new plans: those that are under way have room.
    store.set_reserve(1 << 30);
    store.set_bytes_max(1 << 29);
    let _taken = open.complete(());
    place.sim.run_until_idle();
    place.sim.advance(Duration::from_secs(60));
    let view = place.view(&plan);
    assert_eq!((view.state, view.waiting()), (PlanState::Running, Waiting::SubPlans));
    store.set_reserve(0);
    place.sim.advance(Duration::from_secs(3));
    let view = place.view(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
}

#[test]
fn a_chained_plan_whose_start_cannot_be_stored_waits_for_the_store_and_does_not_spin() {
    let store = FaultStore::new(MemoryStore::new());
    let place = Place::new(store.clone());
    let open = place.work.shut();
    let first = place.trigger(0);
    let chained = place.world.delay::<Work>(Delay::after([first.id()]), 0);
    let chained = place.sim.block_on(chained).expect("it ends").expect("the plan is taken");
    place.sim.run_until_idle();
    // The end of the first plan is stored, and nothing after it.
    let ended = store.commits() + 1;
    (ended + 1..ended + 1_000).for_each(|commit| store.fail_at(commit, broken()));
    let halted = place.sim.block_on(first.halt("ann")).expect("it answers");
    halted.expect("the world is there").expect("it is halted");
    // A plan that decides the same again and again never lets the simulation rest.
    place.sim.advance(Duration::from_secs(60));
    assert_eq!(place.view(&chained).waiting(), Waiting::Store);
    store.heal();
    place.sim.advance(Duration::from_secs(60));
    let _taken = open.complete(());
    place.sim.run_until_idle();
    let view = place.view(&chained);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
}

/// A store that neither reads nor writes.
fn is_away(store: &FaultStore) {
    store.fail(broken());
    store.fail_reads(broken());
}

#[test]
fn a_plan_says_that_the_store_fails_when_nobody_knows_whether_its_entry_is_written() {
    let store = FaultStore::new(MemoryStore::new());
    let place = Place::new(store.clone());
    let open = place.work.shut();
    let plan = place.trigger(0);
    is_away(&store);
    let _taken = open.complete(());
    place.sim.run_until_idle();
    for _ in 0..3 {
        let view = place.view(&plan);
        assert_eq!(view.waiting(), Waiting::Store, "«{}»", view.waits_for());
        assert!(view.waits_for().contains("the disk is away"), "{}", view.waits_for());
        place.sim.advance(Duration::from_secs(60));
    }
    store.heal();
    place.sim.advance(Duration::from_secs(2));
    let view = place.view(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!((view.waiting(), place.work.calls()), (Waiting::Nothing, 1));
}

#[test]
fn orders_and_triggers_are_answered_while_a_store_neither_reads_nor_writes() {
    let store = FaultStore::new(MemoryStore::new());
    let place = Place::new(store.clone());
    let _open = place.work.shut();
    let plan = place.trigger(0);
    is_away(&store);
    let mut triggers = Vec::new();
    for round in 0..3 {
        let mut label = plan.label("city", format!("Rome {round}"), "ann");
        let (told, mut trigger) = completion();
        let triggering = place.world.trigger::<Work>(0);
        let task = place.sim.group("callers").task(()).spawn().expect("it is made");
        let asked = task.submit(move |(), cx| {
            cx.await_interleaved(triggering, move |(), _, outcome| drop(told.complete(outcome)));
        });
        asked.expect("it is taken");
        place.sim.run_until_idle();
        place.sim.advance(Duration::from_secs(10));
        assert!(label.is_done() && trigger.is_done(), "they hang, round {round}");
        let told = place.sim.block_on(&mut label).expect("it ends").expect("it is answered");
        assert!(told.expect_err("it is not written").to_string().contains("the disk is away"));
        triggers.push(place.sim.block_on(&mut trigger).expect("it ends").expect("it is answered"));
    }
    for refused in triggers {
        let refused = refused.map(|plan| plan.id()).expect_err("nothing is promised");
        assert!(refused.to_string().contains("the disk is away"), "{refused}");
    }
    store.heal();
    place.sim.advance(Duration::from_secs(5));
    let label = place.sim.block_on(plan.label("city", "Oslo", "ann")).expect("it ends");
    label.expect("it is answered").expect("the store is well");
    assert_eq!(place.view(&plan).labels["city"], "Oslo");
}

#[test]
fn an_entry_whose_answer_is_lost_while_reads_fail_is_found_later_and_not_written_twice() {
    let store = FaultStore::new(MemoryStore::new());
    let place = Place::new(store.clone());
    let open = place.work.shut();
    let plan = place.trigger(0);
    store.lose_answer_at(store.commits() + 1);
    store.fail_reads(broken());
    let _taken = open.complete(());
    place.sim.run_until_idle();
    assert_eq!(place.view(&plan).waiting(), Waiting::Store);
    place.sim.advance(Duration::from_secs(60));
    store.heal();
    place.sim.advance(Duration::from_secs(2));
    let view = place.view(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!(place.work.calls(), 1);
}
