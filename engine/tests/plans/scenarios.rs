//! The small programs of the seed: what their authors would see of each.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use turnwheel_engine::{
    output, Action, ActionError, Around, AroundStep, Flow, Input, Middleware, Next, PlanHandle,
    PlanResult, PlanState, PlanView, Planner, Run, RunAsync, Runs, RunsAsync, StepContext,
    StepKind, StepState, WorldBuilder,
};

use crate::common::Theatre;

fn theatre(build: impl FnOnce(WorldBuilder) -> WorldBuilder) -> Theatre {
    Theatre::with(|_| {}, build)
}

fn trigger<A: Action>(theatre: &Theatre, input: A::Input) -> PlanHandle {
    let triggering = theatre.world.trigger::<A>(input);
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

fn run_steps(view: &PlanView) -> usize {
    view.steps.iter().filter(|step| step.kind == StepKind::Run).count()
}

/// Removes a file.
struct Destroy;

#[derive(Serialize, Deserialize)]
struct Target {
    path: PathBuf,
}

impl Action for Destroy {
    const NAME: &'static str = "destroy";
    type Input = Target;
    type Output = ();
    type Phases = Runs;
}

impl Run for Destroy {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        fs::remove_file(&step.input.path)?;
        Ok(Next::Done)
    }
}

/// Plans the removal of each file.
struct DestroyAll;

impl Action for DestroyAll {
    const NAME: &'static str = "destroy-all";
    type Input = Vec<PathBuf>;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, all: Vec<PathBuf>) -> Result<(), ActionError> {
        for path in all {
            planner.plan_action::<Destroy>(Target { path })?;
        }
        Ok(())
    }
}

#[test]
fn a_root_plans_one_step_for_each_file_and_has_none_itself() {
    // S-01 S-02
    let theatre = theatre(|world| world.action(Destroy).action(DestroyAll));
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..3).map(|number| folder.path().join(number.to_string())).collect();
    for file in &files {
        fs::write(file, "text").unwrap();
    }
    let view = theatre.finished(&trigger::<DestroyAll>(&theatre, files.clone()));
    assert_eq!((view.result(), run_steps(&view)), (PlanResult::Success, 3));
    assert!(matches!(&view.run, Flow::Concurrence(flows) if flows.len() == 3), "{:?}", view.run);
    assert!(view.root().unwrap().run_step.is_none());
    let first: Value = view.find::<Destroy>().unwrap().input.read().unwrap();
    assert_eq!(first, json!({ "path": files[0] }));
    assert!(files.iter().all(|file| !file.exists()));

    let view = theatre.finished(&trigger::<DestroyAll>(&theatre, Vec::new()));
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!((view.steps.len(), view.steps[0].kind), (1, StepKind::Plan));

    let view = theatre.finished(&trigger::<DestroyAll>(&theatre, files));
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    assert_eq!(view.failed_steps().count(), 3, "the files are not there any more");
}

/// Plans itself for ever.
struct Mirror;

impl Action for Mirror {
    const NAME: &'static str = "mirror";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        planner.plan_action::<Self>(()).map(|_| ())
    }
}

#[test]
fn an_action_that_plans_itself_for_ever_ends_in_planning() {
    // S-02
    let theatre = theatre(|world| world.action(Mirror));
    let error = theatre.sim.block_on(theatre.world.trigger::<Mirror>(())).unwrap().unwrap_err();
    assert!(error.to_string().contains("128 deep"), "{error}");
}

/// Writes what it is told into its output: as a whole, or beside what is there.
struct Write;

impl Action for Write {
    const NAME: &'static str = "write";
    type Input = bool;
    type Output = Value;
    type Phases = RunsAsync;
}

impl RunAsync for Write {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.input {
            step.output = json!({ "own": 1 });
        } else {
            step.output["own"] = json!(1);
        }
        Ok(Next::Done)
    }
}

/// Leaves a key in the output before the action is called.
struct Mark;

impl Middleware for Mark {
    fn plan(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        around.pass()
    }

    async fn run(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
        around.set_output(&json!({ "mark": true }))?;
        around.pass().await
    }
}

#[test]
fn an_output_that_is_replaced_loses_what_others_wrote_and_one_that_is_updated_keeps_it() {
    // S-03
    let theatre = theatre(|world| world.action(Write).middleware(Mark));
    let output = |replaces: bool| {
        let view = theatre.finished(&trigger::<Write>(&theatre, replaces));
        view.output::<Write>().unwrap()
    };
    assert_eq!(output(true), json!({ "own": 1 }));
    assert_eq!(output(false), json!({ "own": 1, "mark": true }));
}

/// Adds the numbers among what it is given.
struct AddNumbers;

#[derive(Serialize, Deserialize)]
struct Mixed {
    #[serde(default)]
    mixed: Vec<Value>,
    #[serde(default)]
    numbers: Vec<f64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Sum {
    sum: f64,
}

impl Action for AddNumbers {
    const NAME: &'static str = "add-numbers";
    type Input = Mixed;
    type Output = Sum;
    type Phases = RunsAsync;

    fn plan(&self, planner: &mut Planner<'_, Self>, input: Mixed) -> Result<(), ActionError> {
        let numbers = input.mixed.iter().filter_map(Value::as_f64).collect();
        planner.plan_self(Mixed { mixed: Vec::new(), numbers })?;
        Ok(())
    }
}

impl RunAsync for AddNumbers {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.sum = step.input.numbers.iter().sum();
        Ok(Next::Done)
    }
}

#[test]
fn planning_may_give_running_another_input_than_it_was_given() {
    // S-07
    let theatre = theatre(|world| world.action(AddNumbers));
    let mixed = vec![json!(1), json!("two"), json!(3.5), json!(null), json!([4])];
    let plan = trigger::<AddNumbers>(&theatre, Mixed { mixed, numbers: Vec::new() });
    let view = theatre.finished(&plan);
    let stored: Value = view.find::<AddNumbers>().unwrap().input.read().unwrap();
    assert_eq!(stored, json!({ "mixed": [], "numbers": [1.0, 3.5] }));
    assert!((view.output::<AddNumbers>().unwrap().sum - 4.5).abs() < 1e-9);
}

/// A part of a host: its name is its output.
struct Install;

#[derive(Serialize, Deserialize)]
struct Package {
    host: String,
    beside: Vec<Input<String>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Installed {
    name: String,
}

impl Action for Install {
    const NAME: &'static str = "install";
    type Input = Package;
    type Output = Installed;
    type Phases = RunsAsync;
}

impl RunAsync for Install {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        for beside in &step.input.beside {
            assert!(!beside.get()?.is_empty());
        }
        step.output.name = format!("{} is there", step.input.host);
        Ok(Next::Done)
    }
}

/// Two parts of a host, one after the other.
struct Host;

impl Action for Host {
    const NAME: &'static str = "host";
    type Input = Package;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, package: Package) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            let host = format!("{} disk", package.host);
            planner.plan_action::<Install>(Package { host, beside: Vec::new() })?;
            planner.plan_action::<Install>(package)?;
            Ok(())
        })
    }
}

/// Two hosts at the same time, and then one that needs their names.
struct CreateInfrastructure;

impl Action for CreateInfrastructure {
    const NAME: &'static str = "create-infrastructure";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        let package = |host: &str| Package { host: host.to_owned(), beside: Vec::new() };
        planner.sequence(|planner| {
            let names = planner.concurrence(|planner| {
                let database = planner.plan_action::<Install>(package("database"))?;
                planner.plan_action::<Host>(package("storage"))?;
                Ok(vec![Input::from(output!(database => name)?)])
            })?;
            planner.plan_action::<Host>(Package { host: "web".to_owned(), beside: names })?;
            Ok(())
        })
    }
}

#[test]
fn a_host_that_comes_after_others_begins_when_all_of_their_parts_are_there() {
    // S-14
    let theatre = theatre(|world| world.action(Install).action(Host).action(CreateInfrastructure));
    let view = theatre.finished(&trigger::<CreateInfrastructure>(&theatre, ()));
    assert_eq!(view.result(), PlanResult::Success);
    assert!(view.root().unwrap().run_step.is_none(), "what composes does not run");
    let order = |host: &str| {
        let fits = |input: Value| input["host"] == json!(host);
        let action =
            view.actions.iter().find(|a| a.name == "install" && a.input.read().is_ok_and(fits));
        let step = view.step(action.and_then(|action| action.run_step).unwrap());
        (step.started_at.unwrap(), step.ended_at.unwrap())
    };
    let web = order("web disk").0;
    for before in ["database", "storage disk", "storage"] {
        assert!(order(before).1 <= web, "{before}");
    }
    let Flow::Sequence(flows) = &view.run else { panic!("{:?}", view.run) };
    assert!(matches!(flows[0], Flow::Concurrence(_)), "{:?}", view.run);
}

/// Starts a service outside and waits for what that says.
#[derive(Clone, Default)]
struct Callback(Arc<Mutex<Vec<String>>>);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Called {
    success: bool,
}

impl Action for Callback {
    const NAME: &'static str = "callback";
    type Input = ();
    type Output = Called;
    type Phases = RunsAsync;
}

impl RunAsync for Callback {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let say = |line: String| self.0.lock().expect("nothing panics under this lock").push(line);
        match step.event::<String>()?.as_deref() {
            None => {
                say("service started".to_owned());
                Ok(Next::suspend("the service"))
            }
            Some("done") => {
                step.output.success = true;
                Ok(Next::Done)
            }
            Some(other) => {
                Err(ActionError::new("unknown_event", format!("unknown event: {other}")))
            }
        }
    }
}

#[test]
fn a_suspended_action_takes_what_it_knows_and_fails_at_what_it_does_not() {
    // S-17
    let service = Callback::default();
    let theatre = theatre(|world| world.action(service.clone()));
    for (event, state, result) in [
        ("done", PlanState::Stopped, PlanResult::Success),
        ("maybe", PlanState::Paused, PlanResult::Error),
    ] {
        let plan = trigger::<Callback>(&theatre, ());
        let view = theatre.settle(&plan);
        let step = view.run_step::<Callback>().unwrap();
        assert_eq!((step.state, view.waits_for().as_str()), (StepState::Suspended, "the service"));
        assert_eq!(step.calls, 1, "the code has ended: nothing of it runs");
        theatre.done(theatre.world.event(plan.id(), step.id, None, &event)).unwrap();
        let view = theatre.finished(&plan);
        assert_eq!((view.state, view.result()), (state, result));
        assert_eq!(view.output::<Callback>().unwrap().success, event == "done");
    }
    assert_eq!(service.0.lock().unwrap().len(), 2);
}
