//! Plans that a step asks for in batches: one batch after the other, again after a failure, and what
//! cancel with force does to them; and what is said to one while it is being planned.

use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Cause, Delay, MemoryStore, Next, PlanError, PlanHandle, PlanId,
    PlanResult, PlanState, PlanView, Planner, RunAsync, RunsAsync, StepContext, World,
};

use crate::common::{part, Play, Theatre};

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
        let failed = counts.failed;
        step.output.failed += failed;
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

/// Its planning takes until it is told to go on.
struct Thinks {
    began: Mutex<mpsc::Sender<()>>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Action for Thinks {
    const NAME: &'static str = "thinks";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        let gone = |_| ActionError::new("gone", "the test has ended");
        self.began.lock().expect("nothing panics under it").send(()).map_err(|_| gone(()))?;
        let go_on = self.go_on.lock().expect("nothing panics under it");
        go_on.recv().map_err(|_| gone(()))?;
        planner.plan_self(())?;
        Ok(())
    }
}

impl RunAsync for Thinks {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.has_event() {
            return Ok(Next::Done);
        }
        step.event_after(Duration::ZERO, &1)?;
        Ok(Next::suspend("a moment"))
    }
}

struct Plain;

impl Action for Plain {
    const NAME: &'static str = "plain";
    type Input = ();
    type Output = ();
    type Phases = ();
}

/// Asks for one plan that is long in planning.
struct Asks;

impl Action for Asks {
    const NAME: &'static str = "asks";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Asks {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            return Ok(Next::Done);
        }
        step.trigger::<Thinks>(&())?;
        Ok(Next::suspend("the plan"))
    }
}

/// The end of a plan whose sub-plan is being planned while something is done.
fn while_it_is_planned(
    act: impl FnOnce(&World, &PlanHandle, PlanId) -> Option<PlanHandle>,
) -> (PlanView, PlanView) {
    let ((began, is_planning), (go, go_on)) = (mpsc::channel(), mpsc::channel());
    let thinks = Thinks { began: Mutex::new(began), go_on: Mutex::new(go_on) };
    let world =
        World::builder().action(Asks).action(thinks).action(Plain).build(MemoryStore::new());
    let world = world.expect("it begins");
    let plan = world.trigger::<Asks>(()).wait().expect("it is taken");
    is_planning.recv().expect("it is planned");
    let view = plan.view().wait().expect("it is there");
    let child = view.sub_plans().next().expect("it has one").0;
    let chained = act(&world, &plan, child);
    go.send(()).expect("it waits for that");
    let view = plan.finished().wait().expect("it ends");
    let child = world.plan(child).finished().wait().expect("it ends");
    if let Some(chained) = chained {
        let view = chained.finished().wait().expect("it ends");
        assert_eq!(view.result(), PlanResult::Success, "{:?}", view.planning_error);
    }
    world.shutdown().expect("it ends");
    (view, child)
}

#[test]
fn what_is_said_to_a_sub_plan_while_it_is_planned_is_heard_and_does_no_harm() {
    // D-045 D-054 D-220
    let (view, child) = while_it_is_planned(|world, _, child| {
        let not_yet = world.plan(child).view().wait().unwrap_err();
        assert!(matches!(not_yet, PlanError::Unknown(id) if id == child), "{not_yet}");
        None
    });
    assert_eq!((view.result(), child.result()), (PlanResult::Success, PlanResult::Success));

    let (view, child) = while_it_is_planned(|_, plan, _| {
        plan.cancel("ann").wait().unwrap().unwrap();
        None
    });
    assert_eq!((view.result(), child.result()), (PlanResult::Cancelled, PlanResult::Cancelled));

    let (view, child) = while_it_is_planned(|world, _, child| {
        let chained = world.delay::<Plain>(Delay::after([child]), ()).wait().unwrap();
        assert_eq!(chained.view().wait().unwrap().state, PlanState::Scheduled);
        Some(chained)
    });
    assert_eq!((view.result(), child.result()), (PlanResult::Success, PlanResult::Success));
}

#[test]
fn a_delayed_plan_that_is_being_planned_can_be_ended_and_not_delayed_anew() {
    // D-209
    for is_ended in [true, false] {
        let ((began, is_planning), (go, go_on)) = (mpsc::channel(), mpsc::channel());
        let thinks = Thinks { began: Mutex::new(began), go_on: Mutex::new(go_on) };
        let world = World::builder().action(thinks).build(MemoryStore::new()).unwrap();
        let plan = world.delay::<Thinks>(Delay::by(Duration::from_millis(1)), ()).wait().unwrap();
        is_planning.recv().unwrap();
        for late in [plan.freeze("ann"), plan.delay_until(None, "ann")] {
            let refused = late.wait().unwrap().unwrap_err().to_string();
            assert!(refused.contains("it is being planned already"), "{refused}");
        }
        if is_ended {
            plan.cancel("ann").wait().unwrap().unwrap();
        }
        go.send(()).unwrap();
        let expected = if is_ended { PlanResult::Cancelled } else { PlanResult::Success };
        assert_eq!(plan.finished().wait().unwrap().result(), expected);
        world.shutdown().unwrap();
    }
}
