//! Queues: how many steps run at once, whose turn it is, and what becomes of those that wait.

use std::time::Duration;

use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, BuildError, Cause, Concurrency, Finalize, Finalizes, MemoryStore, Next,
    OnInterrupt, PlanHandle, PlanResult, PlanShare, PlanState, PlanView, Planner, Queue, Run,
    RunAsync, Runs, RunsAsync, StepContext, StepState, World,
};

use crate::common::{states, Script, Theatre};

const MINUTE: Duration = Duration::from_secs(60);

/// Work that blocks a thread of the queue `slow`.
struct Slow(Script);

impl Action for Slow {
    const NAME: &'static str = "slow";
    type Input = String;
    type Output = u32;
    type Phases = (Runs, Finalizes);

    fn queue(&self) -> Option<&str> {
        Some("slow")
    }

    fn limit(&self) -> Option<Duration> {
        Some(10 * MINUTE)
    }

    fn on_interrupt(&self) -> OnInterrupt {
        OnInterrupt::Fail
    }
}

impl Run for Slow {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.say(step.input.clone());
        step.output = step.attempt();
        Ok(Next::Done)
    }
}

impl Finalize for Slow {
    fn finalize(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        Ok(())
    }
}

/// Work at the same time: one [`Slow`] for each word.
struct Batch;

impl Action for Batch {
    const NAME: &'static str = "batch";
    type Input = String;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, words: String) -> Result<(), ActionError> {
        words
            .split_whitespace()
            .try_for_each(|word| planner.plan_action::<Slow>(word.to_owned()).map(|_| ()))
    }
}

/// As [`Batch`], before others.
struct Urgent;

impl Action for Urgent {
    const NAME: &'static str = "urgent";
    type Input = String;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, word: String) -> Result<(), ActionError> {
        planner.plan_action::<Slow>(word)?;
        Ok(())
    }

    fn priority(&self) -> Option<i32> {
        Some(1)
    }
}

/// Work on an account: one at a time.
struct Transfer(Script);

impl Action for Transfer {
    const NAME: &'static str = "transfer";
    type Input = (String, String);
    type Output = ();
    type Phases = Runs;

    fn concurrency(&self) -> Concurrency<(String, String)> {
        Concurrency::keyed(1, |(account, _)| match account.as_str() {
            "none" => panic!("no account"),
            account => format!("account {account}"),
        })
    }
}

impl Run for Transfer {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.say(step.input.1.clone());
        Ok(Next::Done)
    }
}

/// Waits for an event in the queue `slow`, and ends itself when it is cancelled.
struct Patient(Script);

impl Action for Patient {
    const NAME: &'static str = "patient";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn queue(&self) -> Option<&str> {
        Some("slow")
    }

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl RunAsync for Patient {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if matches!(step.cause(), Cause::Cancel { .. }) {
            self.0.say("ends itself");
            return Ok(Next::Done);
        }
        if step.has_event() {
            self.0.say("has its event");
            return Ok(Next::Done);
        }
        Ok(Next::suspend("an event"))
    }
}

fn actions(
    script: &Script,
    slow: Queue,
) -> impl FnOnce(turnwheel_engine::WorldBuilder) -> turnwheel_engine::WorldBuilder {
    let script = script.clone();
    move |builder| {
        builder
            .action(Slow(script.clone()))
            .action(Batch)
            .action(Urgent)
            .action(Transfer(script.clone()))
            .action(Patient(script))
            .queue(slow)
    }
}

/// A theatre whose blocking code takes a minute, with this queue.
fn theatre(slow: Queue) -> (Theatre, Script) {
    let script = Script::default();
    let theatre = Theatre::with(|_| {}, actions(&script, slow));
    theatre.sim.block_for(MINUTE);
    (theatre, script)
}

fn trigger<A: Action>(theatre: &Theatre, input: A::Input) -> PlanHandle {
    let triggering = theatre.world.trigger::<A>(input);
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

/// How many run and wait in the queue `slow`.
fn counts(theatre: &Theatre) -> (u32, u32) {
    theatre.sim.run_until_idle();
    let status = theatre.world.queues();
    (status[1].running, status[1].waiting)
}

/// The plan when it is stopped or paused, however long that takes.
fn wait(theatre: &Theatre, plan: &PlanHandle) -> PlanView {
    for _ in 0..1_000 {
        let view = theatre.settle(plan);
        if matches!(view.state, PlanState::Stopped | PlanState::Paused) {
            return view;
        }
        theatre.sim.advance(Duration::from_secs(10));
    }
    panic!("plan {} does not end", plan.id());
}

#[test]
fn a_full_queue_lets_others_wait_and_other_queues_go_on() {
    // S-19 F-190 F-193 D-326
    let (theatre, script) = theatre(Queue::new("slow").size(5));
    let plans: Vec<_> = (0..8).map(|n| trigger::<Batch>(&theatre, n.to_string())).collect();
    assert_eq!(counts(&theatre), (5, 3));
    let status = theatre.world.queues();
    assert_eq!((status[0].name.as_str(), status[1].name.as_str()), ("default", "slow"));
    assert_eq!((status[1].size, status[1].free()), (5, 0));
    let view = theatre.settle(&theatre.perform("a"));
    assert_eq!(states(&view), "success", "the default queue has nothing to do with it");
    assert!(script.said().is_empty());
    theatre.sim.advance(MINUTE);
    assert_eq!(script.said().len(), 5);
    // The finalize steps of those that have run came behind the three that waited.
    assert_eq!(counts(&theatre), (5, 3));
    for plan in &plans {
        assert_eq!(wait(&theatre, plan).result(), PlanResult::Success);
    }
    assert_eq!(script.said().len(), 3);
    assert_eq!(counts(&theatre), (0, 0));
}

#[test]
fn one_that_waits_says_so_where_people_look() {
    let (theatre, _) = theatre(Queue::new("slow").size(1));
    let first = trigger::<Batch>(&theatre, "a b".to_owned());
    let second = trigger::<Batch>(&theatre, "c".to_owned());
    assert_eq!(counts(&theatre), (1, 2));
    let share = |plan: &PlanHandle| theatre.world.queues_of(plan.id())[1].of_plan;
    assert_eq!(share(&first), Some(PlanShare { running: 1, waiting: 1 }));
    assert_eq!(share(&second), Some(PlanShare { running: 0, waiting: 1 }));
    let view = theatre.settle(&second);
    let step = view.find::<Slow>().unwrap().run_step.unwrap();
    assert_eq!(view.step(step).state, StepState::Running);
    assert!(view.step(step).is_queued);
    assert_eq!(view.step(step).waits_for, "a place in queue «slow»");
    let rows = theatre.sim.block_on(theatre.world.list(Filter::default())).unwrap().unwrap();
    let reasons: Vec<_> = rows.iter().map(|row| (row.id, row.waits_for.as_str())).collect();
    let (first, second) = (first.id(), second.id());
    assert_eq!(reasons, [(second, "a place in queue «slow»"), (first, "")]);
}

#[test]
fn plans_take_turns_and_urgent_ones_go_first() {
    let (theatre, script) = theatre(Queue::new("slow").size(1));
    let plans = [
        trigger::<Batch>(&theatre, "a1 a2 a3 a4".to_owned()),
        trigger::<Batch>(&theatre, "b1 b2".to_owned()),
        trigger::<Urgent>(&theatre, "u1".to_owned()),
    ];
    plans.iter().for_each(|plan| drop(wait(&theatre, plan)));
    let said = script.said();
    assert_eq!(said[..2], ["a1", "u1"], "{said:?}");
    let usual = said[2..].join(" ");
    assert!(["a2 b1 a3 b2 a4", "b1 a2 b2 a3 a4"].contains(&usual.as_str()), "{usual}");
}

#[test]
fn equal_keys_run_one_after_the_other_and_others_beside() {
    let (theatre, script) = theatre(Queue::new("slow").size(1));
    let transfer = |account: &str, name: &str| {
        trigger::<Transfer>(&theatre, (account.to_owned(), name.to_owned()))
    };
    let plans =
        [transfer("x", "x1"), transfer("x", "x2"), transfer("y", "y1"), transfer("x", "x3")];
    let view = theatre.settle(&plans[1]);
    assert_eq!(view.waits_for(), "a place in queue «default»");
    // One that gives up leaves the key to those behind it.
    theatre.done(plans[1].cancel("ann")).unwrap();
    theatre.sim.advance(MINUTE);
    let mut said = script.said();
    said.sort_unstable();
    assert_eq!(said, ["x1", "y1"]);
    assert_eq!(wait(&theatre, &plans[3]).result(), PlanResult::Success);
    assert_eq!(script.said(), ["x3"]);
    let view = wait(&theatre, &transfer("none", "z"));
    assert_eq!(view.state, PlanState::Paused);
    assert_eq!(view.errors()[0].message, "no account");
}

#[test]
fn no_more_than_the_rate_begin_in_any_span() {
    // D-079
    let slow = Queue::new("slow").size(100).rate(2, Duration::from_secs(10));
    let (theatre, script) = theatre(slow);
    theatre.sim.block_for(Duration::ZERO);
    let plan = trigger::<Batch>(&theatre, "a b c d e f".to_owned());
    for (seconds, begun) in [(0, 2), (9, 2), (10, 4), (19, 4), (20, 6)] {
        let now = theatre.sim.now();
        theatre.sim.advance(Duration::from_secs(seconds).saturating_sub(now));
        let view = theatre.settle(&plan);
        let done = states(&view).matches("success").count();
        assert_eq!(done, begun, "after {seconds} seconds");
    }
    // Six finalize steps, two every ten seconds.
    assert_eq!(wait(&theatre, &plan).result(), PlanResult::Success);
    assert_eq!(theatre.sim.now(), Duration::from_secs(50));
    assert_eq!(script.said().len(), 6);
}

#[test]
fn one_that_is_cancelled_while_it_waits_never_runs() {
    // D-077
    let (theatre, script) = theatre(Queue::new("slow").size(1));
    let first = trigger::<Batch>(&theatre, "a".to_owned());
    let second = trigger::<Batch>(&theatre, "b c".to_owned());
    let third = trigger::<Batch>(&theatre, "d".to_owned());
    assert_eq!(counts(&theatre), (1, 3));
    theatre.done(second.cancel("ann")).unwrap();
    let view = wait(&theatre, &second);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    assert_eq!(counts(&theatre), (1, 1));
    theatre.done(third.halt("ann")).unwrap();
    assert_eq!(counts(&theatre), (1, 0));
    assert_eq!(wait(&theatre, &first).result(), PlanResult::Success);
    assert_eq!(script.said(), ["a"]);
}

#[test]
fn one_that_is_told_to_end_is_told_when_there_is_a_place() {
    let (theatre, script) = theatre(Queue::new("slow").size(1));
    let plan = trigger::<Patient>(&theatre, ());
    let view = theatre.settle(&plan);
    assert_eq!(view.waits_for(), "an event");
    let busy = trigger::<Batch>(&theatre, "a".to_owned());
    assert_eq!(counts(&theatre), (1, 0));
    let step = view.run_step::<Patient>().unwrap().id;
    theatre.done(theatre.world.event(plan.id(), step, None, &1)).unwrap();
    assert_eq!(counts(&theatre), (1, 1), "its event waits for a place");
    theatre.done(plan.cancel("ann")).unwrap();
    assert_eq!(counts(&theatre), (1, 1), "now the request to end does");
    assert_eq!(wait(&theatre, &plan).result(), PlanResult::Cancelled);
    assert_eq!(script.said(), ["a", "ends itself"]);
    assert_eq!(wait(&theatre, &busy).result(), PlanResult::Success);
}

#[test]
fn the_limit_of_a_step_counts_while_it_waits() {
    let (theatre, script) = theatre(Queue::new("slow").size(1));
    theatre.sim.block_for(20 * MINUTE);
    let first = trigger::<Batch>(&theatre, "a".to_owned());
    let second = trigger::<Batch>(&theatre, "b".to_owned());
    let view = wait(&theatre, &second);
    assert_eq!(view.state, PlanState::Paused);
    assert_eq!(view.errors()[0].kind, "timed_out");
    // The first one is late as well; its code still has the place.
    assert_eq!(wait(&theatre, &first).state, PlanState::Paused);
    assert_eq!(counts(&theatre), (1, 0));
    theatre.sim.advance(20 * MINUTE);
    assert_eq!(counts(&theatre), (0, 0));
    assert_eq!(script.said(), ["a"]);
}

#[test]
fn one_that_waited_when_the_world_went_away_was_not_interrupted() {
    let (theatre, script) = theatre(Queue::new("slow").size(1));
    let first = trigger::<Batch>(&theatre, "a".to_owned()).id();
    let second = trigger::<Batch>(&theatre, "b".to_owned()).id();
    assert_eq!(counts(&theatre), (1, 1));
    let theatre = theatre.crash_with(|_| {}, actions(&script, Queue::new("slow").size(1)));
    let view = wait(&theatre, &theatre.world.plan(second));
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(view.output::<Slow>().unwrap(), 1, "its first attempt");
    let view = wait(&theatre, &theatre.world.plan(first));
    assert_eq!(view.errors()[0].kind, "interrupted");
    assert_eq!(script.said(), ["b"]);
}

#[test]
fn an_unknown_queue_is_the_default_one_and_noted() {
    // F-190
    let (theatre, _) = theatre(Queue::new("other").size(1));
    let plan = trigger::<Batch>(&theatre, "a".to_owned());
    theatre.sim.run_until_idle();
    assert_eq!(theatre.world.queues()[0].running, 1);
    let view = wait(&theatre, &plan);
    assert_eq!(view.result(), PlanResult::Success);
    let note = "queue «slow» is not known to this world";
    assert!(view.history.iter().any(|entry| entry.text.starts_with(note)), "{:?}", view.history);
}

#[test]
fn queues_that_make_no_sense_are_refused() {
    // F-190
    let build = |queue: Queue| World::builder().queue(queue).build(MemoryStore::new());
    for queue in [
        Queue::new(""),
        Queue::new("none").size(0),
        Queue::new("never").rate(0, MINUTE),
        Queue::new("at once").rate(1, Duration::ZERO),
        Queue::new("often").rate(1_000_000, MINUTE),
    ] {
        let name = queue.clone();
        let error = build(queue).expect_err("it makes no sense");
        assert!(matches!(error, BuildError::Queue { .. }), "{name:?}: {error}");
    }
    let twice = World::builder().queue(Queue::new("a")).queue(Queue::new("a"));
    let error = twice.build(MemoryStore::new()).expect_err("two of them");
    assert!(error.to_string().contains("two queues are called «a»"), "{error}");
}

/// Plans a [`Child`] without a queue of its own.
struct Parent;

impl Action for Parent {
    const NAME: &'static str = "parent";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        planner.plan_action::<Child>(2)?;
        Ok(())
    }

    fn queue(&self) -> Option<&str> {
        Some("slow")
    }
}

/// Plans itself, and another one of its kind below.
struct Child;

impl Action for Child {
    const NAME: &'static str = "child";
    type Input = u32;
    type Output = ();
    type Phases = RunsAsync;

    fn plan(&self, planner: &mut Planner<'_, Self>, depth: u32) -> Result<(), ActionError> {
        planner.plan_self(depth)?;
        if depth > 0 {
            planner.plan_action::<Self>(depth - 1)?;
        }
        Ok(())
    }
}

impl RunAsync for Child {
    async fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(Next::Done)
    }
}

#[test]
fn a_queue_is_inherited_through_all_levels() {
    // F-191
    let build = |builder: turnwheel_engine::WorldBuilder| {
        builder.action(Parent).action(Child).queue(Queue::new("slow"))
    };
    let theatre = Theatre::with(|_| {}, build);
    let of_runs = |view: &PlanView| {
        let runs = view.actions.iter().filter_map(|action| action.run_step);
        runs.map(|step| view.step(step).queue.clone()).collect::<Vec<_>>()
    };
    let view = wait(&theatre, &trigger::<Parent>(&theatre, ()));
    assert_eq!(of_runs(&view), ["slow"; 3]);
    let view = wait(&theatre, &trigger::<Child>(&theatre, 0));
    assert_eq!(of_runs(&view), ["default"]);
}

#[test]
fn a_queue_may_leave_code_alone_that_does_not_block() {
    let script = Script::default();
    let slow = Queue::new("slow").size(1).only_blocking();
    let theatre = Theatre::with(|_| {}, actions(&script, slow));
    theatre.sim.block_for(MINUTE);
    trigger::<Batch>(&theatre, "a".to_owned());
    let plan = trigger::<Patient>(&theatre, ());
    assert_eq!(theatre.settle(&plan).waits_for(), "an event", "it has run beside");
}

#[test]
fn a_queue_without_limits_holds_nothing_back() {
    // D-075
    let (theatre, _) = theatre(Queue::new("slow").size(u32::MAX));
    let words: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    trigger::<Batch>(&theatre, words.join(" "));
    assert_eq!(counts(&theatre), (100, 0));
}
