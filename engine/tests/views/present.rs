//! What people are shown of plans, and what can be said about one when it is triggered.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use turnwheel_engine::action::MASK;
use turnwheel_engine::{
    output, Action, ActionError, ActionView, Input, Middleware, Next, PlanId, PlanResult,
    PlanState, Planner, Run, Runs, StepContext, TriggerError, TriggerOptions,
};

use crate::common::{part, Play, Theatre};

#[derive(Serialize, Deserialize)]
struct Login {
    user: String,
    password: String,
}

/// Has a secret, and words of its own.
struct Enter;

impl Action for Enter {
    const NAME: &'static str = "enter";
    type Input = Login;
    type Output = Value;
    type Phases = Runs;

    fn present(&self, view: &mut ActionView<'_>) {
        view.mask("/password");
        view.mask("/token");
        if view.shown.state == "suspended" {
            view.state("waiting");
        }
        assert_ne!(view.shown.input["user"], "ghost", "nobody sees it");
        view.summary(format!("{} is in", view.shown.input["user"].as_str().unwrap_or_default()));
    }
}

impl Run for Enter {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = json!({ "token": "t0", "as": step.input.user });
        let waits = step.input.user == "ann" && !step.has_event();
        Ok(if waits { Next::suspend("a word") } else { Next::Done })
    }
}

/// Lets several enter, and shows who has.
struct Party;

impl Action for Party {
    const NAME: &'static str = "party";
    type Input = Vec<String>;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, users: Vec<String>) -> Result<(), ActionError> {
        if let Some((first, rest)) = users.split_first() {
            planner.plan_action::<Enter>(Login { user: first.clone(), password: "p".into() })?;
            planner.plan_action::<Party>(rest.to_vec())?;
        }
        Ok(())
    }

    fn present(&self, view: &mut ActionView<'_>) {
        let outputs = view.all_planned().into_iter().filter(|action| !action.output.is_null());
        let names: BTreeSet<String> = outputs
            .filter_map(|action| action.output.read::<Value>().ok())
            .filter_map(|output| output["as"].as_str().map(str::to_owned))
            .collect();
        view.summary(names.into_iter().collect::<Vec<_>>().join(" and "));
    }
}

fn theatre() -> Theatre {
    Theatre::with(|_| {}, |builder| builder.action(Enter).action(Party))
}

fn party(theatre: &Theatre, users: &[&str]) -> turnwheel_engine::PlanHandle {
    let users = users.iter().map(|user| (*user).to_owned()).collect();
    let triggering = theatre.world.trigger::<Party>(users);
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

// D-031, D-032, D-035, F-021
#[test]
fn actions_show_themselves_and_what_they_have_planned() {
    let theatre = theatre();
    let plan = party(&theatre, &["bob", "ann", "bob"]);
    let view = theatre.settle(&plan);
    let shown = theatre.world.present(&view);
    assert_eq!((shown.label.as_str(), shown.state), ("party", PlanState::Running));
    let root = &shown.actions[0];
    assert_eq!((root.name.as_str(), root.is_known), ("party", true));
    assert_eq!(root.summary.as_deref(), Some("ann and bob"));
    let states: Vec<&str> = shown
        .actions
        .iter()
        .filter(|action| action.name == "enter")
        .map(|action| action.state.as_str())
        .collect();
    assert_eq!(states, ["success", "waiting", "success"]);
    let bob = &shown.actions[1];
    assert_eq!(bob.input, json!({ "user": "bob", "password": MASK }));
    assert_eq!(bob.output, json!({ "token": MASK, "as": "bob" }));
    assert_eq!(bob.summary.as_deref(), Some("bob is in"));
    // What is stored is as it was.
    assert_eq!(view.find::<Enter>().unwrap().input.read::<Login>().unwrap().password, "p");
}

/// Hides all outputs, and all of an action.
struct Hide;

impl Middleware for Hide {
    fn present(&self, view: &mut ActionView<'_>) {
        view.mask("/user");
        if view.shown.name != "party" {
            view.pass();
        }
        view.shown.output = Value::Null;
    }
}

// D-237
#[test]
fn middleware_filters_what_is_shown_and_the_action_too() {
    let theatre =
        Theatre::with(|_| {}, |builder| builder.action(Enter).action(Party).middleware(Hide));
    let plan = party(&theatre, &["bob"]);
    let shown = theatre.world.present(&theatre.settle(&plan));
    assert_eq!(shown.actions[0].summary, None);
    let bob = &shown.actions[1];
    assert_eq!(bob.input, json!({ "user": MASK, "password": MASK }));
    assert_eq!(bob.output, Value::Null);
}

// F-020
#[test]
fn an_action_that_is_gone_is_shown_by_its_name_and_one_that_panics_shows_nothing() {
    let theatre = theatre();
    let plan = party(&theatre, &["ghost"]);
    let view = theatre.settle(&plan);
    let shown = theatre.world.present(&view);
    let ghost = &shown.actions[1];
    assert_eq!((&ghost.input, &ghost.output), (&json!(MASK), &json!(MASK)));
    assert!(ghost.summary.as_ref().unwrap().contains("nobody sees it"), "{ghost:?}");

    let theatre = theatre.crash();
    let shown = theatre.world.present(&theatre.settle(&theatre.world.plan(plan.id())));
    let ghost = &shown.actions[1];
    assert_eq!((ghost.name.as_str(), ghost.is_known), ("enter", false));
    assert_eq!(ghost.input["user"], "ghost");
}

// D-140
#[test]
fn a_plan_is_given_an_id_labels_an_author_and_a_priority() {
    let theatre = theatre();
    let id: PlanId = "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f".parse().unwrap();
    let options = || {
        TriggerOptions::new()
            .id(id)
            .label("room", "1")
            .label("room", "2")
            .by("the stage manager")
            .priority(7)
    };
    let triggering = theatre.world.trigger_with::<Play>(options(), part("ann"));
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    assert_eq!(plan.id(), id);
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(view.created.labels, [("room".to_owned(), "2".to_owned())]);
    assert_eq!(view.created.priority, 7);
    assert_eq!(view.history[0].text, "created by the stage manager");
    assert_eq!(theatre.world.present(&view).labels.len(), 1);

    // The id is taken, also after a restart.
    let theatre = theatre.crash();
    let again = theatre.world.trigger_with::<Play>(options(), part("bob"));
    let refused = theatre.sim.block_on(again).unwrap().unwrap_err();
    assert!(matches!(refused, TriggerError::Exists(taken) if taken == id), "{refused}");
}

#[test]
fn a_plan_with_a_key_is_triggered_once() {
    let theatre = theatre();
    let trigger = || {
        let options = TriggerOptions::new().key("tonight");
        let triggering = theatre.world.trigger_with::<Play>(options, part("ann"));
        theatre.sim.block_on(triggering).unwrap().unwrap().id()
    };
    assert_eq!(trigger(), trigger());
}

#[test]
fn a_plan_that_still_runs_at_its_deadline_is_cancelled() {
    let theatre = theatre();
    theatre.script.on("ann", |_| Ok(Next::suspend("applause")));
    let options = TriggerOptions::new().deadline(Duration::from_secs(60));
    let triggering = theatre.world.trigger_with::<Play>(options, part("ann"));
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    assert_eq!(theatre.settle(&plan).state, PlanState::Running);
    // It sleeps meanwhile, and another world wakes it.
    let theatre = theatre.crash();
    theatre.script.on("ann", |_| Ok(Next::suspend("applause")));
    let plan = theatre.world.plan(plan.id());
    theatre.sim.advance(Duration::from_secs(60));
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Cancelled);
    assert_eq!(view.real_time().as_secs(), 60);
    assert!(view.history.iter().any(|entry| entry.text == "cancel requested by its deadline"));
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Sum {
    sum: u64,
}

/// The sum of numbers; some are made by another action.
struct Number;

impl Action for Number {
    const NAME: &'static str = "number";
    type Input = (Input<u64>, Vec<Input<u64>>);
    type Output = Sum;
    type Phases = Runs;
}

impl Run for Number {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let sum: u64 = step.input.1.iter().map(|number| number.get()).sum::<Result<u64, _>>()?;
        step.output = Sum { sum: step.input.0.get()? + sum };
        Ok(if step.has_event() { Next::Done } else { Next::suspend("a word") })
    }
}

struct Numbers;

impl Action for Numbers {
    const NAME: &'static str = "numbers";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        let first = planner.plan_action::<Number>((1.into(), vec![2.into()]))?;
        let (one, other) = (output!(first => sum)?, output!(first => sum)?);
        planner.plan_action::<Number>((one.into(), vec![5.into(), other.into()]))?;
        Ok(())
    }
}

#[test]
fn references_in_inputs_are_shown_as_the_values_that_the_step_saw() {
    let theatre = Theatre::with(|_| {}, |builder| builder.action(Number).action(Numbers));
    let triggering = theatre.world.trigger::<Numbers>(());
    let plan = theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken");
    let go_on = |number: usize| {
        let step = theatre.settle(&plan).actions[number].run_step.expect("it runs");
        theatre.done(theatre.world.event(plan.id(), step, None, &"go")).expect("it is taken");
        theatre.settle(&plan)
    };
    let shown = |view: &turnwheel_engine::PlanView| {
        theatre.world.present(view).actions[2].input.to_string()
    };
    let view = theatre.settle(&plan);
    assert!(shown(&view).contains("$output"), "its output is not final: {}", shown(&view));
    let view = go_on(1);
    assert_eq!(shown(&view), "[3,[5,3]]");
    assert_eq!(view.input_seen(&view.actions[2]).as_str(), "[3,[5,3]]");
    let view = go_on(2);
    assert_eq!((view.result(), shown(&view)), (PlanResult::Success, "[3,[5,3]]".to_owned()));
    assert!(view.actions[2].input.as_str().contains("$output"), "what was planned is kept");
    // As it is read from the store.
    let view = theatre.crash();
    let seen = view.sim.block_on(view.world.plan(plan.id()).view()).unwrap().unwrap();
    assert_eq!(view.world.present(&seen).actions[2].input.to_string(), "[3,[5,3]]");
}
