//! Hooks are told of the changes of plans, after they are durable, at least once.

use std::sync::{Arc, Mutex};

use turnwheel_engine::{
    Action, ActionError, Around, Change, Delay, Middleware, On, PlanHandle, PlanState, Planner,
    WorldBuilder,
};

use crate::common::{error, part, Piece, Play, Script, Theatre};

/// Plans a part, and is told of everything.
struct Scene(Script);

impl Action for Scene {
    const NAME: &'static str = "scene";
    const HOOKS: On = On::ALL;
    type Input = String;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, who: String) -> Result<(), ActionError> {
        if who == "nobody" {
            return Err(error("empty"));
        }
        planner.plan_action::<Play>(part(&who))?;
        Ok(())
    }

    fn changed(&self, change: &Change) -> Result<(), ActionError> {
        self.0.say(change.on.names());
        match change.input::<Option<String>>()?.as_deref() {
            Some("critic") => Err(error("boo")),
            Some("ghost") => panic!("boo"),
            _ => Ok(()),
        }
    }
}

/// Two scenes; takes over what a scene is told, less one thing.
struct Act(Script);

impl Action for Act {
    const NAME: &'static str = "act";
    const HOOKS: On = Scene::HOOKS.without(On::STATES);
    type Input = String;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, who: String) -> Result<(), ActionError> {
        planner.plan_action::<Scene>(who.clone())?;
        planner.plan_action::<Scene>(who)?;
        Ok(())
    }

    fn changed(&self, change: &Change) -> Result<(), ActionError> {
        let what = if change.is_root() { "root" } else { "part" };
        self.0.say(format!("act {} {what}", change.on.names()));
        Ok(())
    }
}

fn theatre_with(build: impl FnOnce(WorldBuilder) -> WorldBuilder) -> Theatre {
    let script = Script::default();
    let mut theatre = Theatre::with(
        |play| play.script = script.clone(),
        |builder| build(builder.action(Scene(script.clone())).action(Act(script.clone()))),
    );
    theatre.script = script;
    theatre
}

fn trigger<A: Action<Input = String>>(theatre: &Theatre, who: &str) -> PlanHandle {
    let triggering = theatre.world.trigger::<A>(who.to_owned());
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

/// What hooks were told, without what players say.
fn told(theatre: &Theatre) -> String {
    theatre.sim.run_until_idle();
    let said = theatre.script.said();
    let players = ["ann", "bob", "critic", "ghost"];
    let told = said.iter().filter(|line| !players.iter().any(|who| line.ends_with(who)));
    told.map(String::as_str).collect::<Vec<_>>().join(", ")
}

// D-119, D-127, D-129, S-22
#[test]
fn an_action_is_told_of_all_states_and_of_success() {
    let theatre = theatre_with(|builder| builder);
    let plan = trigger::<Scene>(&theatre, "ann");
    theatre.finished(&plan);
    assert_eq!(told(&theatre), "pending, planning, planned, running, stopped, success");
}

// D-120, D-121, S-22
#[test]
fn a_pause_is_told_whether_failures_are_rescued_or_not() {
    for pauses in [false, true] {
        let theatre = theatre_with(|builder| if pauses { builder.always_pause() } else { builder });
        theatre.script.on("ann", |_| Err(error("pause")));
        let plan = trigger::<Scene>(&theatre, "ann");
        assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
        assert_eq!(told(&theatre), "pending, planning, planned, running, paused");
        theatre.script.on("ann", |_| Ok(turnwheel_engine::Next::Done));
        theatre.done(plan.resume("Bea")).unwrap();
        assert_eq!(told(&theatre), "running, stopped, success");
    }
}

// D-122
#[test]
fn a_delayed_plan_that_is_cancelled_has_failed() {
    let theatre = theatre_with(|builder| builder);
    let delay = Delay::frozen();
    let triggering = theatre.world.delay::<Scene>(delay, "ann".to_owned());
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    assert_eq!(told(&theatre), "pending, scheduled");
    theatre.done(plan.cancel("Bea")).unwrap();
    assert_eq!(told(&theatre), "stopped, failure");
}

#[test]
fn a_plan_that_could_not_be_planned_has_failed() {
    let theatre = theatre_with(|builder| builder);
    let triggering = theatre.world.trigger::<Scene>("nobody".to_owned());
    theatre.sim.block_on(triggering).unwrap().unwrap_err();
    assert_eq!(told(&theatre), "pending, planning, stopped, failure");
}

// D-124, D-125, D-126
#[test]
fn every_action_of_a_plan_is_told_and_the_root_knows_that_it_is() {
    let theatre = theatre_with(|builder| builder);
    let plan = trigger::<Act>(&theatre, "ann");
    theatre.finished(&plan);
    assert_eq!(
        told(&theatre),
        "planned, planned, running, running, stopped, stopped, act success root, success, success"
    );
}

// F-181
#[test]
fn errors_and_panics_of_hooks_change_nothing() {
    for who in ["critic", "ghost"] {
        let theatre = theatre_with(|builder| builder);
        let plan = trigger::<Scene>(&theatre, who);
        assert_eq!(theatre.finished(&plan).state, PlanState::Stopped);
        assert_eq!(told(&theatre), "pending, planning, planned, running, stopped, success");
    }
}

/// Lets nobody hear of success.
struct Hush;

impl Middleware for Hush {
    fn hook(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        if around.input().as_str().contains("ann") {
            Ok(())
        } else {
            around.pass()
        }
    }
}

// F-150, F-181
#[test]
fn middleware_is_around_hooks() {
    let theatre = theatre_with(|builder| builder.middleware(Hush));
    theatre.finished(&trigger::<Scene>(&theatre, "ann"));
    assert_eq!(told(&theatre), "");
    theatre.finished(&trigger::<Scene>(&theatre, "bob"));
    assert_eq!(told(&theatre), "pending, planning, planned, running, stopped, success");
}

#[test]
fn a_hook_of_the_world_is_told_once_for_each_plan() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&told);
    let theatre = theatre_with(|builder| {
        builder.hook(On::SUCCESS.and(On::FAILURE), move |change| {
            list.lock().unwrap().push((change.plan, change.on));
            Ok(())
        })
    });
    let plan = theatre.perform("ann bob");
    theatre.finished(&plan);
    theatre.sim.run_until_idle();
    assert_eq!(*told.lock().unwrap(), [(plan.id(), On::SUCCESS)]);
    assert!(!Piece::HOOKS.includes(On::ALL));
}

// F-182
#[test]
fn what_was_not_told_before_a_crash_is_told_after_it() {
    let script = Script::default();
    let theatre = theatre_with(|builder| builder.action(Slow(script.clone())));
    let plan = trigger::<Slow>(&theatre, "ann");
    // The trigger is durable, what its hooks do is not yet.
    assert_eq!(script.said(), [""; 0]);
    let theatre = theatre.crash_with(|_| {}, |builder| builder.action(Slow(script.clone())));
    theatre.finished(&theatre.world.plan(plan.id()));
    theatre.sim.run_until_idle();
    let said = script.said();
    assert_eq!(said.first().map(String::as_str), Some("planned"), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("stopped"), "{said:?}");

    // And not once more.
    let theatre = theatre.crash_with(|_| {}, |builder| builder.action(Slow(script.clone())));
    theatre.sim.run_until_idle();
    theatre.settle(&theatre.world.plan(plan.id()));
    assert_eq!(script.said(), [""; 0]);
}

/// Says what it was told.
struct Slow(Script);

impl Action for Slow {
    const NAME: &'static str = "slow";
    const HOOKS: On = On::PLANNED.and(On::STOPPED);
    type Input = String;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, who: String) -> Result<(), ActionError> {
        planner.plan_action::<Play>(part(&who))?;
        Ok(())
    }

    fn changed(&self, change: &Change) -> Result<(), ActionError> {
        self.0.say(change.on.names());
        Ok(())
    }
}
