//! Middleware is around the phases of actions, in the order that its rules say.

use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    ActionError, Around, AroundDelay, AroundStep, BuildError, Delay, Layer, MemoryStore,
    Middleware, Next, PlanResult, PlanState, TransactionAdapter, TriggerError, World,
};

use crate::common::{error, part, Part, Piece, Play, Script, Theatre};

/// Says when it is entered and left, under a name of its own: `N` tells them apart as types.
struct Say<const N: u32>(Script);

impl<const N: u32> Middleware for Say<N> {
    fn plan(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        self.0.say(format!("{N} plan {}", around.action()));
        let result = around.pass();
        self.0.say(format!("{N} planned {}", around.action()));
        result
    }

    fn plan_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        self.0.say(format!("{N} plan all"));
        around.pass()
    }

    fn finalize_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        self.0.say(format!("{N} finalize all of {}", around.action()));
        if N == 7 {
            return Ok(());
        }
        around.pass()
    }

    async fn run(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
        self.0.say(format!("{N} run"));
        let result = around.pass().await;
        self.0.say(format!("{N} ran"));
        result
    }

    async fn finalize(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
        self.0.say(format!("{N} finalize"));
        around.pass().await
    }
}

/// A theatre whose actions have these layers around them, with one script for all.
fn theatre(
    build: impl FnOnce(turnwheel_engine::WorldBuilder, &Script) -> turnwheel_engine::WorldBuilder,
) -> Theatre {
    let script = Script::default();
    let mut theatre =
        Theatre::with(|play| play.script = script.clone(), |builder| build(builder, &script));
    theatre.script = script;
    theatre
}

fn layers(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What was said around the run phase only.
fn around_run(theatre: &Theatre) -> String {
    let said = theatre.script.said();
    let runs = said.iter().filter(|line| !line.contains("plan") && !line.contains("finalize"));
    runs.map(String::as_str).collect::<Vec<_>>().join(", ")
}

// D-229, D-230, D-235
#[test]
fn the_worlds_middleware_is_outermost_and_each_phase_is_wrapped() {
    let theatre = theatre(|builder, script| {
        builder.middleware_of::<Play>(Say::<2>(script.clone())).middleware(Say::<1>(script.clone()))
    });
    let plan = theatre.perform("ann");
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    assert_eq!(
        theatre.script.said(),
        layers(&[
            "1 plan all",
            "1 plan piece",
            "1 plan play",
            "2 plan play",
            "2 planned play",
            "1 planned play",
            "1 planned piece",
            "1 run",
            "2 run",
            "ann",
            "2 ran",
            "1 ran",
            "1 finalize",
            "2 finalize",
            "finalize ann",
        ])
    );
}

// D-231
#[test]
fn a_rule_puts_one_outside_of_another() {
    let theatre = theatre(|builder, script| {
        builder
            .middleware_of::<Play>(Say::<1>(script.clone()))
            .middleware_of::<Play>(Layer::new(Say::<2>(script.clone())).before::<Say<1>>())
    });
    theatre.settle(&theatre.perform("ann"));
    assert_eq!(around_run(&theatre), "2 run, 1 run, ann, 1 ran, 2 ran");
}

// D-232
#[test]
fn a_rule_puts_one_of_the_world_inside_of_one_of_the_action() {
    let theatre = theatre(|builder, script| {
        builder
            .middleware(Layer::new(Say::<1>(script.clone())).after::<Say<2>>())
            .middleware_of::<Play>(Say::<2>(script.clone()))
    });
    theatre.settle(&theatre.perform("ann"));
    assert_eq!(around_run(&theatre), "2 run, 1 run, ann, 1 ran, 2 ran");
}

// F-152
#[test]
fn one_takes_the_place_of_another_with_its_rules() {
    let theatre = theatre(|builder, script| {
        builder
            .middleware(Say::<1>(script.clone()))
            .middleware(Layer::new(Say::<2>(script.clone())).before::<Say<1>>())
            .middleware(Layer::new(Say::<4>(script.clone())).after::<Say<9>>())
            .middleware_of::<Play>(Layer::new(Say::<3>(script.clone())).replacing::<Say<2>>())
    });
    theatre.settle(&theatre.perform("ann"));
    assert_eq!(around_run(&theatre), "3 run, 1 run, 4 run, ann, 4 ran, 1 ran, 3 ran");
}

// D-234
#[test]
fn an_action_can_be_left_without_any() {
    let theatre = theatre(|builder, script| {
        builder.middleware(Say::<1>(script.clone())).without_middleware::<Play, Say<1>>()
    });
    theatre.settle(&theatre.perform("ann"));
    assert_eq!(
        theatre.script.said(),
        layers(&["1 plan all", "1 plan piece", "1 planned piece", "ann", "finalize ann"])
    );
}

// F-152
#[test]
fn rules_that_contradict_one_another_are_refused() {
    let script = Script::default();
    let world = World::builder()
        .action(Piece)
        .middleware(Layer::new(Say::<1>(script.clone())).before::<Say<2>>())
        .middleware(Layer::new(Say::<2>(script)).before::<Say<1>>())
        .build(MemoryStore::new());
    let Err(BuildError::MiddlewareCircle { action, names }) = world else { panic!("{world:?}") };
    assert_eq!(action, "piece");
    assert!(names.contains("Say<1>") && names.contains("Say<2>"), "{names}");
}

/// Changes what goes in and what comes out.
struct Change(Script);

impl Middleware for Change {
    fn plan(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        if around.action() == "play" {
            around.set_input(&part("bob"))?;
        }
        around.pass()
    }

    async fn run(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
        let given: Part = around.input().read()?;
        let before = around.output().clone();
        let next = around.pass().await?;
        self.0.say(format!("{} {before} {}", given.who, around.output()));
        around.set_output(&json!({ "masked": true }))?;
        Ok(next)
    }
}

// D-235, F-150
#[test]
fn middleware_sees_and_changes_input_and_output() {
    let theatre = theatre(|builder, script| builder.middleware(Change(script.clone())));
    theatre.script.on("bob", |step| {
        step.output = json!("made");
        Ok(Next::Done)
    });
    let plan = theatre.perform("ann");
    let view = theatre.finished(&plan);
    assert_eq!(theatre.script.said(), layers(&["bob", "bob null \"made\"", "finalize bob"]));
    assert_eq!(view.find::<Play>().unwrap().input.read::<Part>().unwrap().who, "bob");
    let output: Value = view.output::<Play>().unwrap();
    assert_eq!(output, json!({ "masked": true }));
}

/// Rewrites what is delayed, and says what is taken back.
struct Rewrite(Script);

impl Middleware for Rewrite {
    fn delay(&self, around: &mut AroundDelay<'_>) -> Result<(), ActionError> {
        let text: String = around.input().read()?;
        match text.as_str() {
            "stop" => return Ok(()),
            "refuse" => return Err(error("refused")),
            "panic" => panic!("out of ink"),
            "number" => around.set_input(&7)?,
            _ => around.set_input(&format!("{text} z"))?,
        }
        self.0.say(format!("delay {} by {}", around.action(), around.by()));
        let later = around.start_at().map(|at| at.after(Duration::from_secs(60)));
        around.set_start_at(later);
        around.set_label("seen", "yes");
        around.pass()
    }

    async fn revert(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
        let failure = around.failure().map(|error| error.kind.clone());
        let who = around.input().read::<Part>()?.who;
        self.0.say(format!("before revert {who} {failure:?}"));
        if who == "b" {
            // This one needs nothing of what the action does.
            return Ok(Next::Done);
        }
        let next = around.pass().await;
        self.0.say(format!("after revert {who}"));
        next
    }
}

#[test]
fn a_middleware_around_a_delay_changes_what_is_stored() {
    // D-236
    let theatre = theatre(|world, script| world.middleware(Rewrite(script.clone())));
    let delay = |text: &str| {
        let triggering =
            theatre.world.delay::<Piece>(Delay::by(Duration::from_secs(60)), text.to_owned());
        theatre.sim.block_on(triggering).expect("it ends")
    };
    let plan = delay("a b").unwrap();
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.created.input.as_str()), (PlanState::Scheduled, "\"a b z\""));
    assert_eq!(view.created.labels, [("seen".to_owned(), "yes".to_owned())]);
    assert_eq!(theatre.script.said(), ["delay piece by trigger"]);
    theatre.sim.advance(Duration::from_secs(61));
    assert_eq!(theatre.settle(&plan).state, PlanState::Scheduled, "it is a minute later");
    theatre.sim.advance(Duration::from_secs(60));
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    assert_eq!(theatre.script.said()[..3], ["a", "b", "z"], "planning and running see it");
    for (text, kind) in
        [("stop", "not_passed"), ("refuse", "refused"), ("panic", "panic"), ("number", "unfit")]
    {
        let refused = delay(text).unwrap_err();
        let TriggerError::Delay { action, error } = refused else { panic!("{refused}") };
        assert_eq!((action.as_str(), error.kind.as_str()), ("piece", kind));
    }
    let rows = theatre.sim.block_on(theatre.world.list(Filter::default())).unwrap().unwrap();
    assert_eq!(rows.len(), 1, "what was refused is no plan");
}

#[test]
fn a_middleware_around_a_compensation_comes_before_and_after_it_or_in_its_place() {
    let theatre = theatre(|world, script| world.middleware(Rewrite(script.clone())));
    theatre.script.on("c", |_| Err(error("revert")));
    let plan = theatre.perform("a b c");
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Reverted);
    let expected = [
        "a",
        "b",
        "c",
        "before revert c Some(\"revert\")",
        "revert c",
        "after revert c",
        "before revert b None",
        "before revert a None",
        "revert a",
        "after revert a",
    ];
    assert_eq!(theatre.script.said(), expected);
}

/// Stops what it is told to stop.
struct Stop(&'static str);

impl Middleware for Stop {
    fn plan(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        match self.0 {
            "plan" if around.action() == "play" => Ok(()),
            "refuse" => Err(error("refused")),
            _ => around.pass(),
        }
    }

    fn plan_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        if self.0 == "all" {
            Ok(())
        } else {
            around.pass()
        }
    }

    async fn run(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
        match self.0 {
            "run" => Ok(Next::Done),
            "panic" => panic!("in the middle"),
            _ => around.pass().await,
        }
    }
}

// S-20, F-150
#[test]
fn one_that_does_not_pass_stops_the_chain_and_the_action() {
    for (what, said) in [
        ("plan", layers(&["1 plan all", "1 plan piece", "1 planned piece"])),
        ("run", layers(&["finalize ann"])),
    ] {
        let theatre = theatre(|builder, script| {
            let inner = Layer::new(Say::<1>(script.clone()));
            match what {
                "run" => builder.middleware(Stop(what)),
                _ => builder.middleware(Stop(what)).middleware(inner),
            }
        });
        let plan = theatre.perform("ann");
        let view = theatre.finished(&plan);
        assert_eq!(view.result(), PlanResult::Success, "{what}");
        assert_eq!(theatre.script.said(), said, "{what}");
    }
}

#[test]
fn failures_of_middleware_are_those_of_the_phase() {
    for (what, kind) in [("refuse", "refused"), ("all", "not_passed")] {
        let theatre = theatre(|builder, _| builder.middleware(Stop(what)));
        let refused = theatre.world.trigger::<Piece>("ann".to_owned());
        let refused = theatre.sim.block_on(refused).unwrap().unwrap_err();
        let TriggerError::Planning { error, .. } = refused else { panic!("{refused}") };
        assert_eq!(error.kind, kind);
    }
    let theatre = theatre(|builder, _| builder.middleware(Stop("panic")));
    let plan = theatre.perform("ann");
    let view = theatre.finished(&plan);
    assert_eq!(view.state, PlanState::Paused);
    assert_eq!(view.errors()[0].message, "in the middle");
}

/// Transactions of a database that has none.
struct Together;

impl TransactionAdapter for Together {
    fn transaction(
        &self,
        work: &mut dyn FnMut() -> Result<(), ActionError>,
    ) -> Result<(), ActionError> {
        work()
    }
}

#[test]
fn one_is_once_around_a_finalize_phase_that_is_one_piece_of_work() {
    let theatre = theatre(|builder, script| {
        builder.transactions(Together).middleware_of::<Play>(Say::<1>(script.clone()))
    });
    let plan = theatre.perform("ann bob");
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    let said = theatre.script.said();
    let from = said.iter().position(|said| said.starts_with("1 finalize all"));
    assert_eq!(
        said[from.expect("it is around the phase")..],
        layers(&[
            "1 finalize all of play",
            "1 finalize",
            "finalize ann",
            "1 finalize",
            "finalize bob",
        ])
    );
}

#[test]
fn a_finalize_phase_that_is_not_passed_fails_and_nothing_of_it_is_called() {
    let theatre = theatre(|builder, script| {
        builder.transactions(Together).middleware_of::<Play>(Say::<7>(script.clone()))
    });
    let view = theatre.finished(&theatre.perform("ann"));
    assert_eq!(view.state, PlanState::Paused);
    let error = view.steps.iter().find_map(|step| step.error.as_ref()).expect("it has failed");
    assert_eq!(error.kind, "not_passed");
    assert!(!theatre.script.said().contains(&"finalize ann".to_owned()));
}
