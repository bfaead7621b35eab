//! Actions join the planning of others, which know nothing of them.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use turnwheel_engine::{
    Action, ActionError, BuildError, Flow, Input, MemoryStore, Next, PlanResult, PlanView, Planner,
    Run, Runs, StepContext, TriggerError, World,
};

use crate::common::{error, Part, Piece, Play, Theatre};

/// What a plugin is given.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Remark {
    about: String,
    output: Option<Input<Value>>,
}

/// Remarks on something; says in whose planning it has joined.
#[derive(Default)]
struct Critic {
    fails: AtomicBool,
}

impl Action for Critic {
    const NAME: &'static str = "critic";
    type Input = Remark;
    type Output = String;
    type Phases = Runs;

    fn plan(&self, planner: &mut Planner<'_, Self>, mut input: Remark) -> Result<(), ActionError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(error("ill"));
        }
        input.about = format!("{} in {:?}", input.about, planner.extended());
        planner.plan_self(input)?;
        Ok(())
    }
}

impl Run for Critic {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let heard = match &step.input.output {
            Some(output) => output.get()?.to_string(),
            None => "nothing".to_owned(),
        };
        step.output = format!("{}: {heard}", step.input.about);
        Ok(Next::Done)
    }
}

/// Reads what critics say.
struct Reader;

impl Action for Reader {
    const NAME: &'static str = "reader";
    type Input = Input<String>;
    type Output = String;
    type Phases = Runs;
}

impl Run for Reader {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = format!("read «{}»", step.input.get()?);
        Ok(Next::Done)
    }
}

fn outputs(view: &PlanView, name: &str) -> Vec<String> {
    let named = view.actions.iter().filter(|action| action.name == name);
    named.map(|action| action.output.read().expect("it has said something")).collect()
}

// D-145, S-15, F-090
#[test]
fn a_plugin_runs_at_the_same_time_as_what_it_joins() {
    let theatre = Theatre::with(
        |_| {},
        |builder| {
            builder
                .action(Critic::default())
                .extend::<Critic, Play>(|part, _| Ok(Remark { about: part.who, output: None }))
        },
    );
    let plan = theatre.perform("ann bob");
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(
        outputs(&view, "critic"),
        [r#"ann in Some("play"): nothing"#, r#"bob in Some("play"): nothing"#]
    );
    for critic in view.actions.iter().filter(|action| action.name == "critic") {
        assert_eq!(view.action(critic.parent.unwrap()).name, "play");
    }
    // Each pair is one part of the sequence: bob waits for the critic of ann.
    let Flow::Sequence(parts) = &view.run else { panic!("{:?}", view.run) };
    assert!(parts.iter().all(|part| matches!(part, Flow::Concurrence(pair) if pair.len() == 2)));
    assert_eq!(theatre.world.extensions_of::<Play>(), ["critic"]);
    assert!(theatre.world.extensions_of::<Piece>().is_empty());
}

// S-15, F-090
#[test]
fn a_plugin_that_uses_the_output_runs_after_what_it_joins() {
    let theatre = Theatre::with(
        |_| {},
        |builder| {
            builder
                .action(Critic::default())
                .action(Reader)
                .extend::<Critic, Play>(|part, play| {
                    Ok(Remark { about: part.who, output: Some(play.output()?.into()) })
                })
                .extend::<Reader, Critic>(|_, critic| Ok(critic.output()?.into()))
        },
    );
    theatre.script.on("ann", |step| {
        step.output = json!("to be");
        Ok(Next::Done)
    });
    let plan = theatre.perform("ann");
    let view = theatre.finished(&plan);
    assert_eq!(outputs(&view, "critic"), [r#"ann in Some("play"): "to be""#]);
    assert_eq!(outputs(&view, "reader"), [r#"read «ann in Some("play"): "to be"»"#]);
}

// D-029, D-030, D-145
#[test]
fn several_plugins_join_one_action_and_one_joins_several() {
    let theatre = Theatre::with(
        |_| {},
        |builder| {
            builder
                .action(Critic::default())
                .action(Reader)
                .extend::<Critic, Play>(|part, _| Ok(Remark { about: part.who, output: None }))
                .extend::<Reader, Play>(|part, _| Ok(part.who.into()))
                .extend::<Critic, Piece>(|text, _| Ok(Remark { about: text, output: None }))
        },
    );
    assert_eq!(theatre.world.extensions_of::<Play>(), ["critic", "reader"]);
    let plan = theatre.perform("ann");
    let view = theatre.finished(&plan);
    assert_eq!(
        outputs(&view, "critic"),
        [r#"ann in Some("play"): nothing"#, r#"ann in Some("piece"): nothing"#]
    );
    assert_eq!(outputs(&view, "reader"), ["read «ann»"]);
}

// S-15
#[test]
fn a_plugin_that_is_not_registered_changes_nothing() {
    let theatre = Theatre::with(
        |_| {},
        |builder| {
            builder.extend::<Critic, Play>(|part, _| Ok(Remark { about: part.who, output: None }))
        },
    );
    assert!(theatre.world.extensions_of::<Play>().is_empty());
    let plan = theatre.perform("ann");
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(view.actions.len(), 2);
}

#[test]
fn a_plugin_whose_planning_fails_fails_the_plan() {
    let critic = Critic::default();
    critic.fails.store(true, Ordering::SeqCst);
    let theatre = Theatre::with(
        |_| {},
        |builder| {
            builder
                .action(critic)
                .extend::<Critic, Play>(|part, _| Ok(Remark { about: part.who, output: None }))
        },
    );
    let refused = theatre.world.trigger::<Piece>("ann bob".to_owned());
    let refused = theatre.sim.block_on(refused).unwrap().unwrap_err();
    let TriggerError::Planning { plan, error } = refused else { panic!("{refused}") };
    assert_eq!(error.kind, "ill");
    let view = theatre.sim.block_on(theatre.world.plan(plan).view()).unwrap().unwrap();
    // The piece, its first part and the critic of that; the second part was not planned.
    assert_eq!(view.errors().len(), 3);
    assert_eq!(theatre.script.said(), [""; 0]);
}

/// Plans itself only if it is told to.
struct Moody;

impl Action for Moody {
    const NAME: &'static str = "moody";
    type Input = bool;
    type Output = ();
    type Phases = ();

    fn plan(&self, _: &mut Planner<'_, Self>, is_well: bool) -> Result<(), ActionError> {
        if is_well {
            Ok(())
        } else {
            Err(error("moody"))
        }
    }
}

#[test]
fn nobody_joins_a_planning_that_failed() {
    let theatre = Theatre::with(
        |_| {},
        |builder| {
            builder.action(Moody).action(Critic::default()).extend::<Critic, Moody>(|is_well, _| {
                Ok(Remark { about: is_well.to_string(), output: None })
            })
        },
    );
    let refused = theatre.world.trigger::<Moody>(false);
    let refused = theatre.sim.block_on(refused).unwrap().unwrap_err();
    let TriggerError::Planning { plan, .. } = refused else { panic!("{refused}") };
    let view = theatre.sim.block_on(theatre.world.plan(plan).view()).unwrap().unwrap();
    assert_eq!(view.actions.len(), 1);

    // It has no run step, so its plugin has no output to wait for, and runs all the same.
    let plan = theatre.sim.block_on(theatre.world.trigger::<Moody>(true)).unwrap().unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(outputs(&view, "critic"), [r#"true in Some("moody"): nothing"#]);
}

// F-091
#[test]
fn a_plugin_of_an_action_without_steps_of_its_own_does_not_take_its_neighbour() {
    struct Two;
    impl Action for Two {
        const NAME: &'static str = "two";
        type Input = ();
        type Output = ();
        type Phases = ();

        fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
            planner.sequence(|planner| {
                planner.plan_action::<Play>(crate::common::part("ann"))?;
                planner.plan_action::<Moody>(true)?;
                planner.plan_action::<Play>(crate::common::part("bob"))
            })?;
            Ok(())
        }
    }
    let theatre = Theatre::with(
        |_| {},
        |builder| {
            builder.action(Two).action(Moody).action(Critic::default()).extend::<Critic, Moody>(
                |_, _| Ok(Remark { about: "mood".to_owned(), output: None }),
            )
        },
    );
    let plan = theatre.sim.block_on(theatre.world.trigger::<Two>(())).unwrap().unwrap();
    let view = theatre.finished(&plan);
    let names: Vec<&str> = view
        .run
        .steps()
        .into_iter()
        .map(|step| view.action(view.step(step).action).name.as_str())
        .collect();
    assert_eq!(names, ["play", "critic", "play"]);
    assert!(matches!(&view.run, Flow::Sequence(parts) if parts.len() == 3), "{:?}", view.run);
}

#[test]
fn extensions_in_a_circle_or_twice_are_refused() {
    let circle = World::builder()
        .action(Critic::default())
        .action(Reader)
        .extend::<Reader, Critic>(|_, critic| Ok(critic.output()?.into()))
        .extend::<Critic, Reader>(|_, _| Ok(Remark::default()))
        .build(MemoryStore::new());
    let Err(BuildError::ExtensionCircle(names)) = circle else { panic!("{circle:?}") };
    assert_eq!(names, "critic → reader → critic");

    let twice = World::builder()
        .action(Critic::default())
        .extend::<Critic, Play>(|part: Part, _| Ok(Remark { about: part.who, output: None }))
        .extend::<Critic, Play>(|part: Part, _| Ok(Remark { about: part.who, output: None }))
        .build(MemoryStore::new());
    assert!(matches!(twice, Err(BuildError::ExtendedTwice { .. })), "{twice:?}");
}
