//! Plans that wait for plans: sub-plans, chains, delays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Cause, Delay, Next, PlanHandle, PlanResult, PlanState, RunAsync,
    RunsAsync, StepContext, StepKind, SubPlanCounts, SubPlanOptions, TriggerOptions,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};

use crate::common::{error, part, states, Part, Play, Theatre};

/// Asks for plans of parts, at most some at once, and fails if one of them does.
struct Company;

#[derive(Serialize, Deserialize)]
struct Cast {
    parts: Vec<String>,
    at_once: u32,
}

impl Action for Company {
    const NAME: &'static str = "company";
    type Input = Cast;
    type Output = Option<(u32, u32)>;
    type Phases = RunsAsync;
}

impl RunAsync for Company {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() != Cause::SubPlans {
            step.limit_sub_plans(step.input.at_once);
            for who in std::mem::take(&mut step.input.parts) {
                let options = match who.as_str() {
                    "labelled" => SubPlanOptions::new().label("part", &who).label("city", "Rome"),
                    "heir" => SubPlanOptions::new().label("city", "Rome").inherit_labels(),
                    "" => SubPlanOptions::new().tag(""),
                    _ => SubPlanOptions::new(),
                };
                step.trigger_with::<Play>(options, &part(&who))?;
            }
            return Ok(Next::suspend("the company"));
        }
        let counts = step.sub_plans();
        step.output = Some((counts.success, counts.failed));
        if counts.failed > 0 {
            return Err(ActionError::new("sub_plans", "a sub-plan has failed"));
        }
        Ok(Next::Done)
    }
}

fn company() -> Theatre {
    Theatre::with(|play| play.is_cancellable = true, |world| world.action(Company))
}

fn cast(theatre: &Theatre, parts: &[&str], at_once: u32) -> PlanHandle {
    let parts = parts.iter().map(|who| (*who).to_owned()).collect();
    let triggering = theatre.world.trigger::<Company>(Cast { parts, at_once });
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

#[test]
fn a_step_waits_for_the_plans_it_has_asked_for() {
    // D-045 D-047
    let theatre = company();
    let plan = cast(&theatre, &["a", "b", "c"], 10);
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success, "{view:?}");
    assert_eq!(view.output::<Company>().unwrap(), Some((3, 0)));
    for (id, child) in view.sub_plans() {
        let child_view = theatre.settle(&theatre.world.plan(id));
        assert_eq!(child_view.created.caller, Some((plan.id(), child.step)));
        assert_eq!(child_view.state, PlanState::Stopped);
    }
}

#[test]
fn a_sub_plan_has_the_labels_that_its_step_says_and_others_only_if_it_wants_them() {
    let theatre = company();
    let options = TriggerOptions::new().label("customer", "Ann").label("city", "Oslo").tag("big");
    let parts = ["labelled", "heir", "plain"].map(str::to_owned).to_vec();
    let cast = Cast { parts, at_once: 10 };
    let triggering = theatre.world.trigger_with::<Company>(options, cast);
    let plan = theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken");
    let view = theatre.finished(&plan);
    let mut labels: Vec<String> = view
        .sub_plans()
        .map(|(id, _)| {
            let child = theatre.settle(&theatre.world.plan(id));
            let labels: Vec<String> =
                child.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            labels.join(" ")
        })
        .collect();
    labels.sort_unstable();
    assert_eq!(labels, ["", "big= city=Rome customer=Ann", "city=Rome part=labelled"]);
    let plan = self::cast(&theatre, &[""], 1);
    let view = theatre.finished(&plan);
    let step = view.failed_steps().next().expect("a label without a name cannot be stored");
    assert_eq!(step.error.as_ref().map(|error| error.kind.as_str()), Some("label"));
}

#[test]
fn no_more_plans_than_allowed_are_under_way_at_once() {
    // D-076
    let theatre = company();
    let names = ["a", "b", "c", "d", "e"];
    for who in names {
        theatre.script.on(who, |step| match step.event::<u32>()? {
            None => Ok(Next::suspend("a word")),
            Some(_) => Ok(Next::Done),
        });
    }
    let plan = cast(&theatre, &names, 2);
    for round in 0..5 {
        let view = theatre.settle(&plan);
        let said = theatre.script.said();
        let begun = said.iter().filter(|line| !line.starts_with("finalize")).count();
        assert!(begun <= 4, "{said:?}");
        let open: Vec<_> = view
            .sub_plans()
            .map(|(id, _)| theatre.world.plan(id))
            .filter(|child| {
                theatre.sim.block_on(child.view()).unwrap().is_ok_and(|v| states(&v) == "suspended")
            })
            .collect();
        assert_eq!(open.len(), 2.min(5 - round), "round {round}");
        let child = &open[0];
        let step = theatre.settle(child).run_step::<Play>().unwrap().id;
        theatre.done(theatre.world.event(child.id(), step, None, &1)).unwrap();
    }
    assert_eq!(theatre.finished(&plan).output::<Company>().unwrap(), Some((5, 0)));
}

#[test]
fn a_failed_sub_plan_is_told_when_it_is_over_and_not_while_it_is_paused() {
    let theatre = company();
    theatre.script.on("a", |_| Err(error("broken")));
    theatre.script.on("b", |_| Err(error("fail")));
    let plan = cast(&theatre, &["a", "b"], 10);
    let view = theatre.settle(&plan);
    let step = view.run_step::<Company>().unwrap().id;
    let counts = SubPlanCounts { total: 2, success: 0, failed: 1, pending: 1 };
    assert_eq!(view.sub_plan_counts(step), counts);
    assert_eq!(view.waits_for(), "1 of 2 sub-plans");
    let paused = view.sub_plans().find(|(_, child)| child.result.is_none()).unwrap().0;
    theatre.script.on("a", |_| Ok(Next::Done));
    theatre.done(theatre.world.plan(paused).resume("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    assert_eq!(view.output::<Company>().unwrap(), Some((1, 1)));
}

#[test]
fn cancel_reaches_the_plans_below_and_those_not_begun_never_begin() {
    // D-054 D-077
    let theatre = company();
    for who in ["a", "b", "c"] {
        theatre.script.on(who, |_| Ok(Next::suspend("the end of time")));
    }
    let plan = cast(&theatre, &["a", "b", "c"], 2);
    theatre.settle(&plan);
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    let mut said = theatre.script.said();
    said.sort();
    assert_eq!(said, ["a", "b", "cancel a", "cancel b"]);
    assert!(view.sub_plans().all(|(_, child)| child.result == Some(PlanResult::Cancelled)));
}

#[test]
fn sub_plans_are_made_once_whatever_happens_in_between() {
    let theatre = company();
    theatre.script.on("a", |step| match step.event::<u32>()? {
        None => Ok(Next::suspend("a word")),
        Some(_) => Ok(Next::Done),
    });
    let plan = cast(&theatre, &["a", "b"], 10);
    let view = theatre.settle(&plan);
    let (child, _) = view.sub_plans().find(|(_, child)| child.result.is_none()).unwrap();
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash_with(|play| play.is_cancellable = true, |w| w.action(Company));
    theatre.sim.run_until_idle();
    let step = theatre.settle(&theatre.world.plan(child)).run_step::<Play>().unwrap().id;
    theatre.done(theatre.world.event(child, step, None, &1)).unwrap();
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!(view.output::<Company>().unwrap(), Some((2, 0)));
    let said = theatre.script.said();
    assert_eq!(said.iter().filter(|line| *line == "b").count(), 1, "{said:?}");
}

fn delay(theatre: &Theatre, delay: Delay, who: &str) -> PlanHandle {
    let part = Part { who: who.to_owned(), needs: Vec::new() };
    let triggering = theatre.world.delay::<Play>(delay, part);
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

#[test]
fn a_delayed_plan_is_planned_at_its_time_also_by_another_world() {
    // S-05 D-206 D-211
    let theatre = Theatre::new();
    let plan = delay(&theatre, Delay::by(Duration::from_secs(360)), "a");
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.progress()), (PlanState::Scheduled, 0.0));
    theatre.sim.advance(Duration::from_secs(359));
    assert_eq!(theatre.settle(&plan).state, PlanState::Scheduled);
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash();
    theatre.sim.run_until_idle();
    assert!(theatre.script.said().is_empty());
    theatre.sim.advance(Duration::from_secs(1));
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(theatre.script.said(), ["a", "finalize a"]);
}

#[test]
fn a_delayed_plan_that_comes_too_late_is_never_planned() {
    // D-212
    let theatre = Theatre::new();
    let window = Delay::by(Duration::from_secs(360)).or_never_after(Duration::from_secs(40));
    let plan = delay(&theatre, window, "a");
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash_at(Duration::from_secs(401));
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
    assert_eq!(view.planning_error.as_ref().unwrap().kind, "too_late");
    assert!(theatre.script.said().is_empty());
}

#[test]
fn a_frozen_plan_waits_until_it_is_allowed_and_a_delayed_one_can_be_cancelled() {
    // D-209 D-252 F-074
    let theatre = Theatre::new();
    let plan = delay(&theatre, Delay::frozen(), "a");
    theatre.sim.advance(Duration::from_secs(1_000_000));
    assert_eq!(theatre.settle(&plan).waits_for(), "frozen: allow it");
    theatre.done(plan.delay_until(None, "ann")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);

    let plan = delay(&theatre, Delay::by(Duration::from_secs(60)), "b");
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    theatre.sim.advance(Duration::from_secs(120));
    assert_eq!(theatre.script.said(), ["a", "finalize a"]);
}

#[test]
fn a_chained_plan_comes_after_all_it_waits_for_unless_one_failed() {
    // D-220 D-221 D-222 D-224 D-255 D-256
    let theatre = Theatre::new();
    for who in ["a", "b"] {
        theatre.script.on(who, |step| match step.event::<u32>()? {
            None => Ok(Next::suspend("a word")),
            Some(_) => Ok(Next::Done),
        });
    }
    let (a, b) = (theatre.perform("a"), theatre.perform("b"));
    let chained = delay(&theatre, Delay::after([a.id(), b.id()]), "c");
    let say = |plan: &PlanHandle| {
        let step = theatre.settle(plan).run_step::<Play>().unwrap().id;
        theatre.done(theatre.world.event(plan.id(), step, None, &1)).unwrap();
        theatre.settle(plan);
    };
    say(&a);
    let waits = theatre.settle(&chained).waits_for();
    assert_eq!(waits, format!("the end of plan {}", b.id()));
    say(&b);
    assert_eq!(theatre.finished(&chained).result(), PlanResult::Success);

    theatre.script.on("f", |_| Err(error("fail")));
    let failed = theatre.perform("f");
    let chained = delay(&theatre, Delay::after([failed.id()]), "c");
    let view = theatre.finished(&chained);
    assert_eq!(view.planning_error.as_ref().unwrap().kind, "failed_dependency");

    let halted = theatre.perform("a");
    theatre.settle(&halted);
    theatre.done(halted.halt("ann")).unwrap();
    let chained = delay(&theatre, Delay::after([halted.id()]), "c");
    assert_eq!(theatre.finished(&chained).result(), PlanResult::Success);

    // What it has done was taken back: there is nothing to build on.
    theatre.script.on("r", |_| Err(error("revert")));
    let reverted = theatre.perform("r");
    let chained = delay(&theatre, Delay::after([reverted.id()]), "c");
    let view = theatre.finished(&chained);
    assert_eq!(view.planning_error.as_ref().unwrap().kind, "failed_dependency");
}

#[test]
fn what_a_plan_comes_after_is_stored_and_a_frozen_one_waits_longer() {
    // D-254 D-257
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Ok(Next::suspend("a word")));
    let first = theatre.perform("a");
    let chained = delay(&theatre, Delay::after([first.id()]).and_frozen(), "c");
    let (first, id) = (first.id(), chained.id());
    drop(chained);
    let theatre = theatre.crash();
    let chained = theatre.world.plan(id);
    let delayed = theatre.settle(&chained).delayed.clone().expect("it is delayed");
    assert_eq!(delayed.after.into_iter().collect::<Vec<_>>(), [(first, None)]);
    assert!(delayed.is_frozen);

    let step = theatre.settle(&theatre.world.plan(first)).run_step::<Play>().unwrap().id;
    theatre.script.on("a", |_| Ok(Next::Done));
    theatre.done(theatre.world.event(first, step, None, &1)).unwrap();
    theatre.sim.advance(Duration::from_secs(1_000_000));
    let view = theatre.settle(&chained);
    assert_eq!((view.state, view.waits_for().as_str()), (PlanState::Scheduled, "frozen: allow it"));
    let after: Vec<_> = view.delayed.iter().flat_map(|delayed| delayed.after.values()).collect();
    assert_eq!(after, [&Some(PlanResult::Success)]);
    theatre.done(chained.delay_until(None, "ann")).unwrap();
    assert_eq!(theatre.finished(&chained).result(), PlanResult::Success);
}

/// Asks for plans of parts, listens to events meanwhile, and may take its time with them.
#[derive(Clone, Default)]
struct Boss {
    /// Of the first event.
    gate: Arc<Mutex<Option<Completion<()>>>>,
    causes: Arc<Mutex<Vec<Cause>>>,
    limit: Option<Duration>,
}

impl Action for Boss {
    const NAME: &'static str = "boss";
    type Input = Vec<String>;
    type Output = ();
    type Phases = RunsAsync;

    fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

impl RunAsync for Boss {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.causes.lock().expect("nothing panics under it").push(step.cause());
        if step.is_first_call() {
            let gate = self.gate.lock().expect("nothing panics under it").take();
            if let Some(gate) = gate.filter(|_| step.input.is_empty()) {
                gate.await.map_err(|failure| ActionError::new("gone", failure))?;
                step.trigger::<Play>(&part("late"))?;
            }
            for who in std::mem::take(&mut step.input) {
                step.trigger::<Play>(&part(&who))?;
            }
            return Ok(Next::suspend("the plans"));
        }
        let Some(word) = step.event::<String>()? else {
            let is_told = step.cause() == Cause::SubPlans;
            return Ok(if is_told { Next::Done } else { Next::suspend("the plans") });
        };
        let gate = self.gate.lock().expect("nothing panics under it").take();
        if let Some(gate) = gate {
            gate.await.map_err(|failure| ActionError::new("gone", failure))?;
        }
        if word == "fail" {
            return Err(error("broken"));
        }
        Ok(Next::suspend("the plans"))
    }
}

impl Boss {
    /// Its plan, and those that it asks for: each of them waits for a word.
    fn begin(&self, parts: &[&str]) -> (Theatre, PlanHandle, Vec<PlanHandle>) {
        let boss = self.clone();
        let theatre = Theatre::with(|play| play.is_cancellable = true, |world| world.action(boss));
        for who in parts {
            theatre.script.on(who, |step| {
                Ok(if step.has_event() { Next::Done } else { Next::suspend("a word") })
            });
        }
        let parts = parts.iter().map(|who| (*who).to_owned()).collect();
        let plan = theatre.sim.block_on(theatre.world.trigger::<Boss>(parts));
        let plan = plan.expect("it ends").expect("the plan is taken");
        let view = theatre.settle(&plan);
        let children = view.sub_plans().map(|(child, _)| theatre.world.plan(child)).collect();
        (theatre, plan, children)
    }

    fn shut(&self) -> Completer<()> {
        let (open, gate) = completion();
        *self.gate.lock().expect("nothing panics under it") = Some(gate);
        open
    }

    fn causes(&self) -> Vec<Cause> {
        self.causes.lock().expect("nothing panics under it").clone()
    }
}

fn tell(theatre: &Theatre, plan: &PlanHandle, word: &str) {
    let view = theatre.settle(plan);
    let mut runs = view.steps.iter().filter(|step| step.kind == StepKind::Run);
    let step = runs.next().expect("it has a run step").id;
    theatre.done(theatre.world.event(plan.id(), step, None, &word)).expect("it is taken");
}

#[test]
fn the_end_of_the_last_sub_plan_is_told_also_if_it_comes_while_an_event_is_handled() {
    // D-045
    let boss = Boss::default();
    let (theatre, plan, children) = boss.begin(&["a"]);
    let open = boss.shut();
    tell(&theatre, &plan, "hello");
    assert_eq!(states(&theatre.settle(&plan)), "running");
    tell(&theatre, &children[0], "go");
    assert_eq!(theatre.finished(&children[0]).result(), PlanResult::Success);
    let _taken = open.complete(());
    assert_eq!(theatre.settle(&plan).result(), PlanResult::Success);
    assert_eq!(boss.causes(), [Cause::Turn, Cause::Event, Cause::SubPlans]);
}

#[test]
fn what_ends_while_its_parent_is_paused_is_known_when_that_goes_on() {
    // D-051
    let boss = Boss::default();
    let (theatre, plan, children) = boss.begin(&["a", "b"]);
    tell(&theatre, &plan, "fail");
    assert_eq!(theatre.settle(&plan).state, PlanState::Paused);
    tell(&theatre, &children[0], "go");
    theatre.settle(&children[0]);
    theatre.done(plan.resume("ann")).unwrap();
    assert_eq!(theatre.settle(&plan).waits_for(), "1 of 2 sub-plans");
    tell(&theatre, &children[1], "go");
    theatre.settle(&children[1]);
    assert_eq!(theatre.settle(&plan).result(), PlanResult::Success);
    assert_eq!(boss.causes(), [Cause::Turn, Cause::Event, Cause::Turn, Cause::SubPlans]);
}

#[test]
fn cancel_reaches_the_plans_of_a_step_that_has_failed_and_of_one_whose_code_runs() {
    // D-054 D-055
    let boss = Boss { limit: Some(Duration::from_secs(60)), ..Boss::default() };
    let (theatre, plan, children) = boss.begin(&["a"]);
    theatre.sim.advance(Duration::from_secs(61));
    assert_eq!(theatre.settle(&plan).state, PlanState::Paused, "it has taken too long");
    assert_eq!(theatre.settle(&children[0]).state, PlanState::Running);
    theatre.done(plan.cancel("ann")).unwrap();
    assert_eq!(theatre.settle(&plan).result(), PlanResult::Cancelled);
    assert_eq!(theatre.settle(&children[0]).result(), PlanResult::Cancelled);

    let boss = Boss::default();
    let (theatre, plan, children) = boss.begin(&["a"]);
    let _open = boss.shut();
    tell(&theatre, &plan, "hello");
    theatre.done(plan.cancel_now("ann")).unwrap();
    assert_eq!(theatre.settle(&plan).result(), PlanResult::Cancelled);
    assert_eq!(theatre.settle(&children[0]).result(), PlanResult::Cancelled);
}

#[test]
fn code_that_asks_for_plans_while_its_plan_is_cancelled_gets_none() {
    let boss = Boss::default();
    let open = boss.shut();
    let (theatre, plan, _) = boss.begin(&[]);
    assert_eq!(states(&theatre.settle(&plan)), "running");
    theatre.done(plan.cancel("ann")).unwrap();
    let _taken = open.complete(());
    let view = theatre.settle(&plan);
    assert_eq!((view.result(), view.sub_plans().count()), (PlanResult::Cancelled, 0));
    assert!(theatre.script.said().is_empty());
}

#[test]
fn each_of_many_sub_plans_is_asked_once_to_end() {
    let boss = Boss::default();
    let names: Vec<String> = (0..60).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (theatre, plan, children) = boss.begin(&names);
    for who in &names {
        theatre.script.on(&format!("cancel {who}"), |step| {
            step.event_after(Duration::from_secs(1), &"the end")?;
            Ok(Next::suspend("the end"))
        });
    }
    theatre.done(plan.cancel("ann")).unwrap();
    theatre.sim.advance(Duration::from_secs(3));
    assert_eq!(theatre.settle(&plan).result(), PlanResult::Cancelled);
    for child in &children {
        let view = theatre.settle(child);
        let is_asked = |line: &&turnwheel_engine::plan::Entry| line.text.contains("requested");
        assert_eq!(view.history.iter().filter(is_asked).count(), 1, "{:?}", view.history);
        assert_eq!(view.result(), PlanResult::Cancelled);
    }
}
