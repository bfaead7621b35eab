//! Entries that the codec cannot encode: their plans go on without them, or say why they do not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Delay, Next, PlanResult, PlanState, Planner, RunAsync, RunsAsync,
    StepContext, TriggerOptions,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completion;

use super::codec::Picky;
use crate::common::*;

const A_WHILE: Duration = Duration::from_secs(300);

/// Waits for its end from outside; says which attempt it was.
#[derive(Clone)]
struct Held(Arc<Mutex<Option<Completion<()>>>>);

impl Action for Held {
    const NAME: &'static str = "held";
    type Input = ();
    type Output = u32;
    type Phases = RunsAsync;
}

impl RunAsync for Held {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let end = self.0.lock().expect("nothing panics under it").take();
        end.expect("it is called once").await.expect("it is ended");
        step.output = step.attempt();
        Ok(Next::Done)
    }
}

/// Plans a part that cannot be stored.
struct Bomber;

impl Action for Bomber {
    const NAME: &'static str = "planner";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        planner.plan_action::<Play>(part("bomb")).map(|_| ())
    }
}

/// Waits for the end of such a plan.
struct Above;

impl Action for Above {
    const NAME: &'static str = "above";
    type Input = ();
    type Output = u32;
    type Phases = RunsAsync;
}

impl RunAsync for Above {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let found = step.sub_plans();
        if found.total == 0 {
            step.trigger::<Bomber>(&())?;
            return Ok(step.wait_for_sub_plans());
        }
        step.output = found.failed;
        Ok(Next::Done)
    }
}

fn theatre(held: Option<Completion<()>>) -> Theatre {
    let held = Held(Arc::new(Mutex::new(held)));
    let codec = Picky(&["bomb"]);
    Theatre::with(|_| {}, |world| world.action(held).action(Bomber).action(Above).codec(codec))
}

#[test]
fn step_whose_output_cannot_be_encoded_fails_and_is_not_repeated_without_a_word() {
    let theatre = theatre(None);
    theatre.script.on("a", |step| {
        step.output = "a bomb".into();
        Ok(Next::Done)
    });
    let plan = theatre.perform("a b");
    theatre.sim.advance(A_WHILE);
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.errors()[0].kind.as_str()), (PlanState::Paused, "unencodable"));
    assert!(view.errors()[0].message.contains("these words"), "{:?}", view.errors());
    assert_eq!(theatre.script.said(), ["a"]);
    theatre.script.on("a", |_| Ok(Next::Done));
    theatre.done(plan.resume("ann")).expect("it is paused");
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
}

#[test]
fn plan_goes_on_after_an_order_that_cannot_be_encoded() {
    let theatre = theatre(None);
    theatre.script.on("wait", |step| match step.event::<String>()? {
        None => Ok(Next::suspend("a word")),
        Some(word) => {
            step.output = word.into();
            Ok(Next::Done)
        }
    });
    let plan = theatre.perform("wait");
    let step = step_of(&theatre.settle(&plan), "wait");
    let bad = theatre.world.event(plan.id(), step, None, &"bomb");
    let good = theatre.world.event(plan.id(), step, None, &"good");
    theatre.sim.wait(bad).expect("it answers").expect_err("it cannot be stored");
    // It came while the other one was tried: it is taken, or refused too.
    let is_taken = theatre.sim.wait(good).expect("it answers").is_ok();
    theatre.done(plan.label("side", "bomb", "ann")).expect_err("it cannot be stored");
    theatre.done(plan.label("side", "left", "ann")).expect("it can");
    if !is_taken {
        theatre.done(theatre.world.event(plan.id(), step, None, &"good")).expect("it is taken");
    }
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.labels["side"].as_str()), (PlanResult::Success, "left"));
    assert_eq!(view.actions[1].output.as_str(), "\"good\"");
    assert_eq!(theatre.script.said(), ["wait", "wait", "finalize wait"]);
}

#[test]
fn order_that_cannot_be_encoded_does_not_disturb_a_call() {
    let (end, held) = completion();
    let theatre = theatre(Some(held));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Held>(()));
    let plan = plan.expect("it ends").expect("it is taken");
    theatre.settle(&plan);
    theatre.done(plan.label("side", "bomb", "ann")).expect_err("it cannot be stored");
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.labels.len()), (PlanState::Running, 0));
    end.complete(()).expect("it waits");
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.output::<Held>().unwrap()), (PlanResult::Success, 1));
}

#[test]
fn sub_plan_that_cannot_be_encoded_is_not_planned_and_its_parent_is_told() {
    let theatre = theatre(None);
    let plan = theatre.sim.block_on(theatre.world.trigger::<Above>(()));
    let plan = plan.expect("it ends").expect("it is taken");
    theatre.sim.advance(A_WHILE);
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.output::<Above>().unwrap()), (PlanResult::Success, 1));
}

#[test]
fn delayed_plan_that_cannot_be_encoded_when_it_is_due_is_paused_and_says_why() {
    let theatre = theatre(None);
    let delay = Delay::by(Duration::from_secs(10));
    let plan = theatre.world.delay_with::<Bomber>(TriggerOptions::new(), delay, ());
    let plan = theatre.sim.block_on(plan).expect("it ends").expect("it is taken");
    theatre.sim.advance(A_WHILE);
    let view = theatre.finished(&plan);
    assert_eq!(view.state, PlanState::Paused);
    let why = &view.history.last().expect("it has one").text;
    assert!(why.contains("these words"), "{why}");
    theatre.done(plan.cancel("ann")).expect("it can be cancelled");
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Cancelled);
}

#[test]
fn a_dead_letter_is_told_once_when_an_entry_is_taken_back_after_it() {
    let theatre = theatre(None);
    for who in ["ann", "bob"] {
        let ends = |is_done| if is_done { Next::Done } else { Next::suspend("a call") };
        theatre.script.on(who, move |step| Ok(ends(step.has_event())));
    }
    let plan = theatre.perform("ann bob");
    let ann = step_of(&theatre.settle(&plan), "ann");
    let sent = ["one", "two"].map(|id| theatre.world.event(plan.id(), ann, Some(id), &1));
    for sent in sent {
        theatre.done(sent).expect("it is taken");
    }
    theatre.settle(&plan);
    assert_eq!(theatre.world.dead_letters().total, 1);
    theatre.done(plan.label("side", "bomb", "ann")).expect_err("it cannot be stored");
    theatre.done(plan.label("side", "left", "ann")).expect("it can be stored");
    theatre.settle(&plan);
    assert_eq!(theatre.world.dead_letters().total, 1);
}
