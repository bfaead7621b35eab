//! Plans that a step asks for in batches: one batch after the other, again after a failure, and what
//! cancel with force does to them.

mod common;

use std::sync::{Arc, Mutex};

use common::{part, Play, Theatre};
use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Next, PlanHandle, PlanResult, PlanState, PlanView, Planner, RunAsync,
    RunsAsync, StepContext,
};

/// A plan that cannot be planned while its number is among the broken ones.
struct Item {
    broken: Arc<Mutex<Vec<u32>>>,
}

impl Action for Item {
    const NAME: &'static str = "item";
    type Input = u32;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, number: u32) -> Result<(), ActionError> {
        if self.broken.lock().expect("no panic while it is held").contains(&number) {
            return Err(ActionError::new("broken", format!("item {number} is broken")));
        }
        planner.plan_action::<Play>(part(&number.to_string()))?;
        Ok(())
    }
}

/// Asks for a plan of each item, some at a time.
struct Tour;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Items {
    total: u32,
    batch: u32,
    /// Whether it goes on when a batch has failed.
    bears_failures: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Done {
    /// Items whose plans were asked for and did not fail, unless failures are borne.
    planned: u32,
    rounds: u32,
    /// Failures that are known.
    failed: u32,
}

impl Action for Tour {
    const NAME: &'static str = "tour";
    type Input = Items;
    type Output = Done;
    type Phases = RunsAsync;
}

impl RunAsync for Tour {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let (items, counts) = (step.input, step.sub_plans());
        assert_eq!(counts.pending, 0, "it is called when all of a batch are over");
        let failed = counts.failed - step.output.failed;
        step.output.failed = counts.failed;
        if failed > 0 && !items.bears_failures {
            step.output.planned -= failed;
            return Err(ActionError::new("batch", format!("{failed} items have failed")));
        }
        let from = step.output.planned;
        let to = items.total.min(from + items.batch);
        if from == to {
            return Ok(Next::Done);
        }
        for number in from..to {
            step.trigger::<Item>(&number)?;
        }
        step.output.planned = to;
        step.output.rounds += 1;
        Ok(Next::suspend("a batch"))
    }
}

struct Fixture {
    theatre: Theatre,
    broken: Arc<Mutex<Vec<u32>>>,
}

impl Fixture {
    fn new(broken: impl IntoIterator<Item = u32>) -> Self {
        let broken = Arc::new(Mutex::new(broken.into_iter().collect()));
        let item = Item { broken: Arc::clone(&broken) };
        let cancellable = |play: &mut Play| play.is_cancellable = true;
        let theatre = Theatre::with(cancellable, |world| world.action(Tour).action(item));
        Self { theatre, broken }
    }

    fn tour(&self, items: Items) -> PlanHandle {
        let triggering = self.theatre.world.trigger::<Tour>(items);
        self.theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
    }

    fn repair(&self) {
        self.broken.lock().expect("no panic while it is held").clear();
    }
}

fn done(view: &PlanView) -> Done {
    view.output::<Tour>().expect("it has one")
}

#[test]
fn plans_that_could_not_be_planned_are_made_again_when_the_step_is_resumed() {
    // D-050
    let fixture = Fixture::new(0..3);
    let plan = fixture.tour(Items { total: 3, batch: 10, bears_failures: false });
    let view = fixture.theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    assert!(fixture.theatre.script.said().is_empty());
    fixture.repair();
    fixture.theatre.done(plan.resume("ann")).unwrap();
    let view = fixture.theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    let counts = view.sub_plan_counts(view.run_step::<Tour>().unwrap().id);
    // Those of the first time are not forgotten.
    assert_eq!((counts.total, counts.failed, counts.success), (6, 3, 3));
}

#[test]
fn a_batch_that_failed_is_asked_for_again_and_then_all_others() {
    // D-069
    let fixture = Fixture::new(0..5);
    let plan = fixture.tour(Items { total: 20, batch: 5, bears_failures: false });
    let view = fixture.theatre.finished(&plan);
    assert_eq!((view.state, done(&view).rounds), (PlanState::Paused, 1));
    assert_eq!(view.sub_plans().count(), 5, "no other batch was asked for");
    fixture.repair();
    fixture.theatre.done(plan.resume("ann")).unwrap();
    let view = fixture.theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!(done(&view), Done { planned: 20, rounds: 5, failed: 5 });
    let counts = view.sub_plan_counts(view.run_step::<Tour>().unwrap().id);
    assert_eq!((counts.success, counts.failed, counts.pending), (20, 5, 0));
}

#[test]
fn whether_there_is_another_batch_depends_on_what_was_asked_for_and_not_on_what_became_of_it() {
    // D-070
    let fixture = Fixture::new([0, 1, 6]);
    let plan = fixture.tour(Items { total: 7, batch: 3, bears_failures: true });
    let view = fixture.theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!(done(&view), Done { planned: 7, rounds: 3, failed: 3 });
    let counts = view.sub_plan_counts(view.run_step::<Tour>().unwrap().id);
    assert_eq!((counts.total, counts.success, counts.failed, counts.pending), (7, 4, 3, 0));
}

#[test]
fn the_root_of_a_plan_is_told_from_what_it_has_planned_also_in_a_plan_below_another() {
    // D-046
    let fixture = Fixture::new([]);
    let plan = fixture.tour(Items { total: 2, batch: 2, bears_failures: false });
    let view = fixture.theatre.finished(&plan);
    assert!(view.created.caller.is_none());
    let roots = |view: &PlanView| -> Vec<String> {
        let roots = view.actions.iter().filter(|action| action.parent.is_none());
        roots.map(|action| action.name.clone()).collect()
    };
    assert_eq!(roots(&view), ["tour"]);
    let step = view.run_step::<Tour>().unwrap().id;
    for (child, _) in view.sub_plans() {
        let view = fixture.theatre.settle(&fixture.theatre.world.plan(child));
        assert_eq!(view.created.caller, Some((plan.id(), step)));
        assert_eq!((view.actions.len(), roots(&view)), (2, vec!["item".to_owned()]));
    }
}

#[test]
fn cancel_with_force_reaches_the_plans_below_and_their_steps_know_it() {
    // D-055
    let fixture = Fixture::new([]);
    let theatre = &fixture.theatre;
    for who in ["0", "1"] {
        theatre.script.on(who, |_| Ok(Next::suspend("the end of time")));
        // The friendly word is not enough for it.
        theatre.script.on(&format!("cancel {who}"), |_| Ok(Next::suspend("the end of time")));
    }
    let plan = fixture.tour(Items { total: 2, batch: 2, bears_failures: false });
    theatre.settle(&plan);
    theatre.script.said();
    theatre.done(plan.cancel("ann")).unwrap();
    assert_eq!(theatre.settle(&plan).state, PlanState::Running);
    let mut said = theatre.script.said();
    said.sort();
    assert_eq!(said, ["cancel 0", "cancel 1"]);
    theatre.done(plan.cancel_now("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    let mut said = theatre.script.said();
    said.sort();
    assert_eq!(said, ["abort 0", "abort 1"]);
    assert!(view.sub_plans().all(|(_, child)| child.result == Some(PlanResult::Cancelled)));
}
