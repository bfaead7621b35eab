//! The kit for trying one action: what it plans, how it runs, with time under control.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    output, Action, ActionError, Finalize, Finalizes, Input, Next, PlanResult, PlanState, Planner,
    Poll, Polled, Polling, Polls, Rescue, RetryPolicy, Revert, Reverts, Run, Runs, StepContext,
    StepState,
};
use turnwheel_testkit::ActionKit;

/// Looks at a commit; its parts are planned, and merged when all have said yes.
struct Commit;

#[derive(Clone, Serialize, Deserialize)]
struct Sha {
    sha: String,
    reviewers: Vec<String>,
}

impl Action for Commit {
    const NAME: &'static str = "commit";
    type Input = Sha;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, input: Sha) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            let (ci, reviews) = planner.concurrence(|planner| {
                let ci = planner.plan_action::<Ci>(input.sha.clone())?;
                let mut reviews = Vec::new();
                for reviewer in &input.reviewers {
                    let asked = (input.sha.clone(), reviewer.clone());
                    reviews.push(planner.plan_action::<Review>(asked)?);
                }
                Ok((ci, reviews))
            })?;
            let mut reviewed = Vec::new();
            for review in &reviews {
                reviewed.push(output!(review => passed)?.into());
            }
            let ci = output!(ci => passed)?.into();
            planner.plan_action::<Merge>(Verdicts { ci, reviews: reviewed })?;
            Ok(())
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Passed {
    passed: bool,
}

struct Ci;

impl Action for Ci {
    const NAME: &'static str = "ci";
    type Input = String;
    type Output = Passed;
    type Phases = Runs;
}

impl Run for Ci {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.passed = !step.input.is_empty();
        Ok(Next::Done)
    }
}

/// Says what its reviewer says.
struct Review {
    says: bool,
}

impl Action for Review {
    const NAME: &'static str = "review";
    type Input = (String, String);
    type Output = Passed;
    type Phases = Runs;
}

impl Run for Review {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.passed = self.says;
        Ok(Next::Done)
    }
}

#[derive(Serialize, Deserialize)]
struct Verdicts {
    ci: Input<bool>,
    reviews: Vec<Input<bool>>,
}

struct Merge;

impl Action for Merge {
    const NAME: &'static str = "merge";
    type Input = Verdicts;
    type Output = Passed;
    type Phases = Runs;
}

impl Run for Merge {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let mut passed = *step.input.ci.get()?;
        for review in &step.input.reviews {
            passed &= *review.get()?;
        }
        step.output.passed = passed;
        Ok(Next::Done)
    }
}

fn sha(reviewers: &[&str]) -> Sha {
    Sha { sha: "abc".to_owned(), reviewers: reviewers.iter().map(|&r| r.to_owned()).collect() }
}

/// Runs, finalizes and takes back; tells a list what it did.
struct Book {
    said: Arc<Mutex<Vec<String>>>,
    attempts: u32,
    rescue: Rescue,
}

impl Book {
    fn new() -> Self {
        Self { said: Arc::default(), attempts: 1, rescue: Rescue::Pause }
    }

    fn say(&self, what: &str, step: &StepContext<Self>) {
        let line = format!("{what} {} {}", step.input, step.output);
        self.said.lock().expect("nobody panics with it").push(line);
    }
}

impl Action for Book {
    const NAME: &'static str = "book";
    type Input = String;
    type Output = u32;
    type Phases = (Runs, Finalizes, Reverts);

    fn plan(&self, planner: &mut Planner<'_, Self>, input: String) -> Result<(), ActionError> {
        if input.is_empty() {
            return Err(ActionError::new("empty", "there is nothing to book"));
        }
        planner.plan_self(input.to_uppercase())?;
        planner.plan_action::<Ci>(input)?;
        Ok(())
    }

    fn retry(&self) -> RetryPolicy {
        let pause = turnwheel_runtime::Backoff::constant(Duration::from_secs(10));
        RetryPolicy::attempts(self.attempts).pauses(pause)
    }

    fn rescue(&self, _: &ActionError) -> Rescue {
        self.rescue
    }
}

impl Run for Book {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.input.starts_with("FAIL") && step.attempt() < 3 {
            return Err(ActionError::new("full", "no room"));
        }
        step.output = 7;
        Ok(Next::Done)
    }
}

impl Finalize for Book {
    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        self.say("finalize", step);
        Ok(())
    }
}

impl Revert for Book {
    fn revert(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        self.say(if step.failure().is_some() { "look" } else { "revert" }, step);
        Ok(())
    }
}

// D-296
#[test]
fn what_an_action_plans_is_known_without_running_it() {
    let kit = ActionKit::new(Book::new());
    let planned = kit.plan("seat".to_owned());
    assert_eq!((planned.state(), planned.input().as_deref()), (StepState::Success, Some("SEAT")));
    assert!(planned.runs() && planned.finalizes());
    planned.assert_planned::<Ci>().assert_not_planned::<Merge>();
    let failed = kit.plan(String::new());
    assert_eq!(failed.state(), StepState::Error);
    assert_eq!(failed.error().map(|error| error.kind.as_str()), Some("empty"));
}

/// None of the parts is registered: they are noted, and their outputs can be referred to.
// D-297, D-302
#[test]
fn planned_parts_are_stubs_with_their_inputs_and_their_order() {
    let kit = ActionKit::new(Commit);
    let planned = kit.plan(sha(&["ann", "bob"]));
    assert!(!planned.runs() && !planned.finalizes());
    let ask = |who: &str| ("abc".to_owned(), who.to_owned());
    planned
        .assert_planned_with::<Ci>(&"abc".to_owned())
        .assert_planned_with::<Review>(&ask("ann"))
        .assert_planned_where::<Review>(|(_, reviewer)| reviewer == "bob");
    assert_eq!(planned.planned::<Review>(), [ask("ann"), ask("bob")]);
    assert_eq!(planned.order(), "ci | review | review > merge");
    assert_eq!(planned.needs::<Merge>(), ["ci", "review", "review"]);
    let one = kit.plan(sha(&["ann"]));
    assert_eq!((one.planned::<Review>().len(), one.order().as_str()), (1, "ci | review > merge"));
}

// D-305
#[test]
fn a_planned_input_with_references_can_be_looked_at() {
    let kit = ActionKit::new(Commit);
    let planned = kit.plan(sha(&["ann", "bob"]));
    planned.assert_planned_where::<Merge>(|verdicts| {
        verdicts.reviews.len() == 2 && verdicts.ci.get().is_err()
    });
}

#[test]
#[should_panic(
    expected = "no «review» was planned with [\"abc\",\"eve\"], but with [\"abc\",\"ann\"]"
)]
fn an_assertion_that_fails_says_what_was_planned_instead() {
    let kit = ActionKit::new(Commit);
    kit.plan(sha(&["ann"])).assert_planned_with::<Review>(&("abc".to_owned(), "eve".to_owned()));
}

// D-299, D-304
#[test]
fn a_run_phase_runs_alone() {
    let kit = ActionKit::new(Review { says: true });
    let run = kit.run(("abc".to_owned(), "ann".to_owned()));
    assert_eq!((run.state(), run.output()), (StepState::Success, Passed { passed: true }));
    let step = run.step();
    assert_eq!((step.attempt, run.view().steps.len()), (1, 2), "a plan step and this one");
    assert_ne!(Some(step.id), run.view().find::<Review>().and_then(|review| review.plan_step));
    assert_eq!(run.outcome(), (PlanState::Stopped, PlanResult::Success));
    let run = ActionKit::new(Review { says: false });
    assert!(!run.run(("abc".to_owned(), "eve".to_owned())).output().passed);
}

// D-306, D-307
#[test]
fn values_stand_in_for_the_outputs_of_others() {
    let kit = ActionKit::new(Merge);
    let merged = |ci: bool, reviews: [bool; 2]| {
        let reviews = reviews.into_iter().map(Input::from).collect();
        kit.run(Verdicts { ci: ci.into(), reviews }).output().passed
    };
    assert!(merged(true, [true, true]));
    assert!(!merged(true, [true, false]));
    assert!(!merged(false, [true, true]));
}

// D-301
#[test]
fn finalize_and_compensation_are_called_alone_on_a_given_output() {
    let book = Book::new();
    let said = Arc::clone(&book.said);
    let kit = ActionKit::new(book);
    let done = kit.finalize(&"SEAT".to_owned(), &7);
    assert_eq!((done.result, done.output), (Ok(()), 7), "it keeps the output");
    kit.revert(&"SEAT".to_owned(), &7, None).result.expect("it takes it back");
    let failure = ActionError::new("full", "no room");
    kit.revert(&"SEAT".to_owned(), &0, Some(failure)).result.expect("there is nothing");
    let said = said.lock().unwrap();
    assert_eq!(*said, ["finalize SEAT 7", "revert SEAT 7", "look SEAT 0"]);
}

#[test]
fn retries_take_the_time_that_the_test_gives() {
    let kit = ActionKit::new(Book { attempts: 3, ..Book::new() });
    let run = kit.run("FAIL twice".to_owned());
    assert_eq!(run.state(), StepState::Retrying);
    assert_eq!(run.error().map(|error| error.kind), Some("full".to_owned()));
    kit.advance(Duration::from_secs(10));
    assert_eq!((run.state(), run.step().attempt), (StepState::Retrying, 2));
    kit.advance(Duration::from_secs(10));
    assert_eq!((run.state(), run.output()), (StepState::Success, 7));
}

/// Something outside that is a third done with each look after the second.
struct Watch;

#[derive(Default, Serialize, Deserialize)]
struct Watched {
    polled: Polled<u32>,
}

impl Action for Watch {
    const NAME: &'static str = "watch";
    type Input = ();
    type Output = Watched;
    type Phases = Polls;

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl Polling for Watch {
    type Task = u32;

    fn polled(output: &mut Watched) -> &mut Polled<u32> {
        &mut output.polled
    }

    fn start(&self, _: &mut StepContext<Self>) -> Result<u32, ActionError> {
        Ok(0)
    }

    fn poll(&self, done: &mut u32, _: &mut StepContext<Self>) -> Result<Poll, ActionError> {
        *done += 10;
        if *done >= 100 {
            return Ok(Poll::Done);
        }
        Ok(Poll::Pending(Some(f64::from(*done) / 100.0)))
    }

    fn pause(&self, _: u32) -> Duration {
        Duration::from_secs(1)
    }
}

// D-300, D-311
#[test]
fn a_poll_goes_on_with_time_and_with_events() {
    let kit = ActionKit::new(Watch);
    let run = kit.run(());
    let polls = || run.output().polled.polls;
    assert_eq!((run.state(), run.progress(), polls()), (StepState::Suspended, 0.0, 0));
    kit.advance(Duration::from_secs(3));
    assert_eq!((run.progress(), polls()), (0.3, 3));
    assert!(run.waits_for().contains("poll 4"), "{}", run.waits_for());
    // It is asked to look now.
    for _ in 0..2 {
        run.event(&"poll").expect("it waits for one");
    }
    assert_eq!((run.progress(), polls()), (0.5, 5));
    kit.advance(Duration::from_secs(10));
    assert_eq!((run.state(), run.progress(), polls()), (StepState::Success, 1.0, 10));
    assert_eq!(run.outcome(), (PlanState::Stopped, PlanResult::Success));
    run.event(&"poll").expect_err("it is over");
}

#[test]
fn a_run_that_waits_can_be_cancelled() {
    let kit = ActionKit::new(Watch);
    let run = kit.run(());
    run.cancel().expect("it waits");
    assert_eq!(run.state(), StepState::Cancelled);
    assert_eq!(run.outcome(), (PlanState::Stopped, PlanResult::Cancelled));
    run.cancel().expect_err("it is over");
}

// D-309
#[test]
fn a_whole_plan_runs_in_the_thread_of_the_test() {
    let kit = ActionKit::with_world(Commit, |builder| {
        builder.action(Ci).action(Review { says: true }).action(Merge)
    });
    let run = kit.trigger(sha(&["ann", "bob"]));
    assert_eq!(run.outcome(), (PlanState::Stopped, PlanResult::Success));
    assert!(run.view().output::<Merge>().unwrap().passed);
}

// D-310, D-312
#[test]
fn a_whole_plan_that_fails_is_paused_or_rescued_as_its_action_says() {
    let outcome = |rescue| {
        let book = Book { rescue, ..Book::new() };
        let kit = ActionKit::with_world(book, |builder| builder.action(Ci));
        kit.trigger("fail".to_owned()).outcome()
    };
    assert_eq!(outcome(Rescue::Pause), (PlanState::Paused, PlanResult::Error));
    assert_eq!(outcome(Rescue::Skip), (PlanState::Stopped, PlanResult::Warning));
    assert_eq!(outcome(Rescue::Fail), (PlanState::Stopped, PlanResult::Error));
}

#[test]
#[should_panic(expected = "«commit» has no run phase")]
fn a_phase_that_an_action_has_not_is_named() {
    ActionKit::new(Commit).run(sha(&[]));
}
