//! Steps with very many sub-plans, and with none.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_engine::limits::{
    SUB_PLANS_AT_ONCE, SUB_PLANS_IN_MEMORY, SUB_PLANS_KEPT, SUB_PLANS_PAGE,
};
use turnwheel_engine::store::{Filter, Store};
use turnwheel_engine::{
    Action, ActionError, Cause, MemoryStore, Next, PlanHandle, PlanResult, PlanState, RunAsync,
    RunsAsync, StepContext, StoreError, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::common::Theatre;

/// Asks for as many plans of its own as it is told, and waits for them by name.
#[derive(Clone, Default)]
struct Many {
    now: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    calls: Arc<AtomicU32>,
    is_stubborn: bool,
}

impl Action for Many {
    const NAME: &'static str = "many";
    type Input = Option<u32>;
    type Output = (u32, u32);
    type Phases = RunsAsync;

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl RunAsync for Many {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let Some(count) = step.input else {
            // A child: under way for a second.
            if step.cause() == Cause::Turn {
                let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
                self.most.fetch_max(now, Ordering::Relaxed);
                step.event_after(Duration::from_secs(1), &())?;
                return Ok(step.wait_for_event("a second"));
            }
            self.now.fetch_sub(1, Ordering::Relaxed);
            return Ok(Next::Done);
        };
        match step.cause() {
            Cause::Turn => {
                (0..count).try_for_each(|_| step.trigger::<Self>(&None).map(|_| ()))?;
                Ok(step.wait_for_sub_plans())
            }
            Cause::SubPlans if self.is_stubborn => Ok(step.wait_for_sub_plans()),
            _ => {
                step.output = (step.sub_plans().total, step.sub_plans().success);
                Ok(Next::Done)
            }
        }
    }
}

#[test]
fn many_sub_plans_without_a_limit_end_and_few_of_them_are_under_way_at_once() {
    const COUNT: u32 = 12_000;
    let many = Many::default();
    let theatre = Theatre::with(|_| {}, |world| world.action(many.clone()));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Many>(Some(COUNT)));
    let plan = plan.expect("it ends").expect("the plan is taken");
    theatre.sim.advance(Duration::from_secs(20));
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!(view.output::<Many>().unwrap(), (COUNT, COUNT));
    assert_eq!(many.most.load(Ordering::Relaxed), SUB_PLANS_AT_ONCE);
    assert_eq!(view.sub_plans().count(), SUB_PLANS_KEPT, "the others are only counted");
}

#[test]
fn a_plan_with_many_sub_plans_is_cancelled_without_beginning_the_others() {
    const COUNT: u32 = 20_000;
    let many = Many::default();
    let theatre = Theatre::with(|_| {}, |world| world.action(many.clone()));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Many>(Some(COUNT)));
    let plan = plan.expect("it ends").expect("the plan is taken");
    theatre.sim.run_until_idle();
    theatre.done(plan.cancel("ann")).unwrap();
    theatre.sim.run_until_idle();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    assert!(many.most.load(Ordering::Relaxed) <= SUB_PLANS_AT_ONCE);
}

#[test]
fn a_step_that_waits_for_sub_plans_and_has_none_is_called_at_once() {
    let theatre = Theatre::with(|_| {}, |world| world.action(Many::default()));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Many>(Some(0)));
    let view = theatre.finished(&plan.expect("it ends").expect("the plan is taken"));
    assert_eq!((view.result(), view.output::<Many>().unwrap()), (PlanResult::Success, (0, 0)));
}

#[test]
fn a_step_that_waits_for_sub_plans_again_and_asks_for_none_fails() {
    for count in [0, 1] {
        let many = Many { is_stubborn: true, ..Many::default() };
        let theatre = Theatre::with(|_| {}, |world| world.action(many.clone()));
        let plan = theatre.sim.block_on(theatre.world.trigger::<Many>(Some(count)));
        let plan = plan.expect("it ends").expect("the plan is taken");
        theatre.sim.advance(Duration::from_secs(2));
        let view = theatre.finished(&plan);
        let step = view.run_step::<Many>().expect("it runs");
        let kind = step.error.as_ref().map(|error| error.kind.as_str());
        assert_eq!((view.state, kind), (PlanState::Paused, Some("no_sub_plans")));
        assert_eq!(many.calls.load(Ordering::Relaxed), 2 + 2 * count);
    }
}

/// Bytes of all entries of a plan, and of the largest one.
fn entries(theatre: &Theatre, plan: &PlanHandle) -> (usize, usize) {
    let mut reader = theatre.store.reader().expect("it reads");
    let all = reader.journal(0, usize::MAX).expect("it reads");
    let sizes = all.iter().filter(|entry| entry.plan == plan.id()).map(|it| it.records.len());
    sizes.fold((0, 0), |(sum, most), size| (sum + size, most.max(size)))
}

#[test]
fn sub_plans_that_have_not_begun_are_in_the_journal_and_not_in_memory() {
    const COUNT: u32 = 20_000;
    let theatre = Theatre::with(|_| {}, |world| world.action(Many::default()));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Many>(Some(COUNT)));
    let plan = plan.expect("it ends").expect("the plan is taken");
    theatre.sim.run_until_idle();
    let view = theatre.sim.block_on(plan.view()).expect("it ends").expect("it is there");
    let step = view.run_step::<Many>().expect("it runs").id;
    assert_eq!(view.sub_plan_counts(step).pending, COUNT);
    let most = SUB_PLANS_AT_ONCE as usize + SUB_PLANS_IN_MEMORY;
    let known = view.sub_plans().count();
    assert!(known <= most, "{known} are in memory, {most} are the limit");
    let (_, largest) = entries(&theatre, &plan);
    assert!(largest < 200 * SUB_PLANS_PAGE, "an entry has {largest} bytes");
}

#[test]
fn each_sub_plan_costs_its_plan_the_same_however_many_there_are() {
    let cost = |count: u32| {
        let theatre = Theatre::with(|_| {}, |world| world.action(Many::default()));
        let plan = theatre.sim.block_on(theatre.world.trigger::<Many>(Some(count)));
        let plan = plan.expect("it ends").expect("the plan is taken");
        theatre.sim.advance(Duration::from_secs(20));
        assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
        entries(&theatre, &plan).0 as f64 / f64::from(count)
    };
    let (few, many) = (cost(1_500), cost(6_000));
    assert!(many < 1.5 * few, "{few} bytes each of 1,500 and {many} of 6,000");
}

#[test]
fn sub_plans_that_wait_begin_once_after_a_crash() {
    const COUNT: u32 = 1_500;
    // Before anything has begun, while the first are under way, and after some are over.
    for seconds in [0, 1, 2] {
        let many = Many::default();
        let theatre = Theatre::with(|_| {}, |world| world.action(many.clone()));
        let plan = theatre.sim.block_on(theatre.world.trigger::<Many>(Some(COUNT)));
        let plan = plan.expect("it ends").expect("the plan is taken");
        theatre.sim.advance(Duration::from_millis(seconds * 1_000 + 1));
        let theatre = theatre.crash_with(|_| {}, |world| world.action(many));
        let plan = theatre.world.plan(plan.id());
        theatre.sim.advance(Duration::from_secs(20));
        let view = theatre.finished(&plan);
        assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
        assert_eq!(view.output::<Many>().unwrap(), (COUNT, COUNT));
        let filter = Filter { limit: usize::MAX, ..Filter::default() };
        let rows = theatre.sim.block_on(theatre.world.list(filter));
        assert_eq!(rows.expect("it ends").expect("it lists").len(), COUNT as usize + 1);
    }
}

#[test]
fn many_sub_plans_are_asked_for_once_while_the_store_fails() {
    const COUNT: u32 = 1_500;
    let store = FaultStore::new(MemoryStore::new());
    let many = Many::default();
    let sim = Sim::new(3);
    let builder = World::builder().action(many.clone()).seed(3);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
    let plan = sim.block_on(world.trigger::<Many>(Some(COUNT))).expect("it ends").expect("taken");
    // Each of the next commits fails once.
    for _ in 0..4 {
        store.fail(StoreError::Failed("the disk is away".to_owned()));
        sim.advance(Duration::from_millis(100));
        store.heal();
        sim.advance(Duration::from_millis(100));
    }
    sim.advance(Duration::from_secs(20));
    let view = sim.block_on(plan.finished()).expect("it ends").expect("it is there");
    assert_eq!(view.output::<Many>().unwrap(), (COUNT, COUNT));
}
