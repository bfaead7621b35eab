//! What planning makes: steps, flows, references; and how it fails.

use serde::{Deserialize, Serialize};
use turnwheel_engine::plan::Flow;
use turnwheel_engine::{
    output, Action, ActionError, Finalize, Finalizes, Input, MemoryStore, Next, PlanResult,
    PlanState, PlanView, Planner, RunAsync, RunsAsync, StepContext, StepId, StepKind, TriggerError,
    World,
};

/// The fixture of the reference: issues that are classified, assigned, and told of.
struct Issues;
struct Incoming;
struct Triage;
struct Update;
struct Notify;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Issue {
    author: String,
    text: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Classified {
    assignee: String,
    severity: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Change {
    assignee: Input<String>,
    severity: Input<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Notice {
    triage: Input<Classified>,
}

impl Action for Issues {
    const NAME: &'static str = "issues";
    type Input = Vec<Issue>;
    type Output = ();
    type Phases = Finalizes;

    fn plan(&self, planner: &mut Planner<'_, Self>, issues: Vec<Issue>) -> Result<(), ActionError> {
        planner.label("issues of today");
        for issue in &issues {
            planner.plan_action::<Incoming>(issue.clone())?;
        }
        planner.plan_self(issues)?;
        Ok(())
    }
}

impl Finalize for Issues {
    fn finalize(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        Ok(())
    }
}

impl Action for Incoming {
    const NAME: &'static str = "incoming";
    type Input = Issue;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, issue: Issue) -> Result<(), ActionError> {
        if issue.text == "nonsense" {
            return Err(ActionError::new("nonsense", "this is no issue"));
        }
        planner.plan_self(issue.clone())?;
        planner.plan_action::<Triage>(issue)?;
        Ok(())
    }
}

impl Action for Triage {
    const NAME: &'static str = "triage";
    type Input = Issue;
    type Output = Classified;
    type Phases = (RunsAsync, Finalizes);

    fn plan(&self, planner: &mut Planner<'_, Self>, issue: Issue) -> Result<(), ActionError> {
        let triage = planner.plan_self(issue)?;
        planner.plan_action::<Update>(Change {
            assignee: output!(triage => assignee)?.into(),
            severity: output!(triage => severity)?.into(),
        })?;
        planner.plan_action::<Notify>(Notice { triage: triage.output()?.into() })?;
        Ok(())
    }
}

impl RunAsync for Triage {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.assignee = "john".to_owned();
        step.output.severity = "low".to_owned();
        Ok(Next::Done)
    }
}

impl Finalize for Triage {
    fn finalize(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        Ok(())
    }
}

impl Action for Update {
    const NAME: &'static str = "update";
    type Input = Change;
    type Output = Vec<String>;
    type Phases = RunsAsync;
}

impl RunAsync for Update {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = vec![step.input.assignee.get()?.clone(), step.input.severity.get()?.clone()];
        Ok(Next::Done)
    }
}

impl Action for Notify {
    const NAME: &'static str = "notify";
    type Input = Notice;
    type Output = String;
    type Phases = (RunsAsync, Finalizes);
}

impl RunAsync for Notify {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = format!("{} has a new issue", step.input.triage.get()?.assignee);
        Ok(Next::Done)
    }
}

impl Finalize for Notify {
    fn finalize(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        Ok(())
    }
}

/// Plans itself for ever.
struct Endless;

impl Action for Endless {
    const NAME: &'static str = "endless";
    type Input = u32;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, depth: u32) -> Result<(), ActionError> {
        planner.plan_action::<Endless>(depth + 1).map(|_| ())
    }
}

/// Uses an output that is made later in its own sequence, or none at all, or panics.
struct Wrong;

impl Action for Wrong {
    const NAME: &'static str = "wrong";
    type Input = String;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, how: String) -> Result<(), ActionError> {
        match how.as_str() {
            "panic" => panic!("on purpose"),
            "no output" => {
                let incoming = planner.plan_action::<Incoming>(Issue::default())?;
                incoming.output().map(|_| ())
            }
            "unregistered" => planner.plan_action::<Stranger>(()).map(|_| ()),
            "caught" => {
                let issue = Issue { text: "nonsense".to_owned(), ..Issue::default() };
                assert!(planner.plan_action::<Incoming>(issue).is_err());
                Ok(())
            }
            other => Err(ActionError::new("unknown", format!("no way to be wrong: {other}"))),
        }
    }
}

struct Stranger;

impl Action for Stranger {
    const NAME: &'static str = "stranger";
    type Input = ();
    type Output = ();
    type Phases = ();
}

fn world() -> World {
    World::builder()
        .action(Issues)
        .action(Incoming)
        .action(Triage)
        .action(Update)
        .action(Notify)
        .action(Endless)
        .action(Wrong)
        .build(MemoryStore::new())
        .expect("the world begins")
}

fn issues(texts: &[&str]) -> Vec<Issue> {
    let issue = |text: &&str| Issue { author: "ann".to_owned(), text: (*text).to_owned() };
    texts.iter().map(issue).collect()
}

fn kinds(view: &PlanView) -> Vec<(StepKind, String)> {
    let kind =
        |step: &turnwheel_engine::plan::Step| (step.kind, view.action(step.action).name.clone());
    view.steps.iter().map(kind).collect()
}

#[test]
fn steps_are_numbered_in_the_order_of_planning() {
    // D-132 D-139 D-146 D-149
    let world = world();
    let plan = world.trigger::<Issues>(issues(&["one", "two"])).wait().unwrap();
    let view = plan.finished().wait().unwrap();
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!((view.label.as_str(), view.steps.len()), ("issues of today", 20));
    let triage = view.find::<Triage>().unwrap();
    let ids = (triage.plan_step, triage.run_step, triage.finalize_step);
    assert_eq!(ids, (Some(StepId(3)), Some(StepId(4)), Some(StepId(5))));
    let numbers: Vec<u32> = view.finalize.iter().map(|step| step.0).collect();
    assert_eq!(numbers, [5, 10, 14, 19, 20]);
    assert_eq!(kinds(&view)[1], (StepKind::Plan, "incoming".to_owned()));
    world.shutdown().unwrap();
}

#[test]
fn what_uses_an_output_comes_after_it_and_sees_its_value() {
    // D-032 D-141 S-09 S-10
    let world = world();
    let plan = world.trigger::<Issues>(issues(&["one", "two"])).wait().unwrap();
    let view = plan.finished().wait().unwrap();
    let update = view.find::<Update>().unwrap();
    assert!(update.input.as_str().contains("$output"), "the reference is what was planned");
    assert_eq!(view.output::<Update>().unwrap(), ["john", "low"]);
    assert_eq!(view.output::<Notify>().unwrap(), "john has a new issue");
    let runs = [4, 7, 9, 13, 16, 18].map(|id| Flow::Step(StepId(id))).to_vec();
    assert_eq!(view.run, Flow::Concurrence(runs), "only outputs decide");
    for (earlier, later) in [(4, 7), (4, 9), (13, 16), (13, 18)] {
        let (earlier, later) = (view.step(StepId(earlier)), view.step(StepId(later)));
        assert!(earlier.ended_at <= later.started_at);
    }
    let assignees = view.actions.iter().filter(|action| action.name == "triage");
    let assignees: Vec<String> =
        assignees.map(|action| action.output.read::<Classified>().unwrap().assignee).collect();
    assert_eq!(assignees, ["john", "john"]);
    world.shutdown().unwrap();
}

#[test]
fn planning_stops_at_the_first_error_and_every_ancestor_has_it() {
    // D-142 D-156 S-13
    let world = world();
    let error = world.trigger::<Issues>(issues(&["nonsense", "two"])).wait().unwrap_err();
    let TriggerError::Planning { plan, error } = error else { panic!("{error}") };
    assert_eq!(error.kind, "nonsense");
    let view = world.plan(plan).finished().wait().unwrap();
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
    assert_eq!(view.steps.len(), 2, "nothing was planned after it");
    assert!(view.steps.iter().all(|step| step.error.as_ref() == Some(&error)));
    world.shutdown().unwrap();
}

#[test]
fn a_plan_that_would_never_end_is_told_with_the_chain_of_its_actions() {
    let world = world();
    let error = world.trigger::<Endless>(0).wait().unwrap_err();
    let TriggerError::Planning { error, .. } = error else { panic!("{error}") };
    assert_eq!(error.kind, "too_deep");
    assert!(error.message.contains("endless → endless"), "{}", error.message);
    world.shutdown().unwrap();
}

#[test]
fn wrong_plans_are_told_what_is_wrong() {
    let world = world();
    let cases = [
        ("panic", "panic", "on purpose"),
        ("no output", "no_output", "incoming"),
        ("unregistered", "unknown_action", "stranger"),
        ("caught", "nonsense", "no issue"),
    ];
    for (how, kind, text) in cases {
        let error = world.trigger::<Wrong>(how.to_owned()).wait().unwrap_err();
        let TriggerError::Planning { plan, error } = error else { panic!("{how}: {error}") };
        assert_eq!(error.kind, kind, "{how}");
        assert!(error.message.contains(text), "{how}: {}", error.message);
        assert_eq!(world.plan(plan).finished().wait().unwrap().state, PlanState::Stopped);
    }
    let error = world.trigger::<Stranger>(()).wait().unwrap_err();
    assert!(matches!(error, TriggerError::UnknownAction(_)), "{error}");
    world.shutdown().unwrap();
}

#[test]
fn two_actions_of_one_name_are_refused() {
    let built = World::builder().action(Stranger).action(Stranger).build(MemoryStore::new());
    let error = built.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("«stranger»"), "{error}");
}
