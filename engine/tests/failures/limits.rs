//! Texts that are too long to be stored, floats that JSON cannot express, and what a step that
//! fails for good is told and says of it.

use std::time::Duration;

use turnwheel_engine::limits::{
    ERROR_BYTES_MAX, EVENT_ID_BYTES_MAX, KEY_BYTES_MAX, LOCK_NAME_BYTES_MAX, META_BYTES_MAX,
    NAME_BYTES_MAX, PLAN_LABEL_BYTES_MAX, REASON_BYTES_MAX,
};
use turnwheel_engine::{
    Action, ActionError, BuildError, Cause, EventTarget, MemoryStore, Next, Payload, PayloadError,
    PlanError, PlanResult, PlanState, Planner, Queue, RunAsync, RunsAsync, Schedule, Singleton,
    StepContext, StepState, TriggerError, TriggerOptions, World, WorldBuilder,
};

use crate::common::{error, step_of, Piece, Play, Theatre};

/// As the issue has it: ten mebibytes.
fn huge() -> String {
    "ä".repeat(5 << 20)
}

/// The part waits for an event.
fn suspends(theatre: &Theatre, who: &str) {
    theatre.script.on(who, |step| match step.has_event() {
        true => Ok(Next::Done),
        false => Ok(Next::suspend("a word")),
    });
}

#[test]
fn keys_and_ids_of_events_that_are_too_long_are_refused() {
    let theatre = Theatre::new();
    suspends(&theatre, "ann");
    let key = |bytes: usize| {
        let triggering = theatre.world.trigger_once::<Piece>("k".repeat(bytes), "ann".to_owned());
        theatre.sim.block_on(triggering).expect("it ends")
    };
    let plan = key(KEY_BYTES_MAX).expect("as long as it may be");
    let refused = key(KEY_BYTES_MAX + 1).expect_err("too long");
    let TriggerError::Key(problem) = &refused else { panic!("{refused:?}") };
    assert_eq!((problem.bytes, problem.limit), (KEY_BYTES_MAX + 1, KEY_BYTES_MAX));
    let options = TriggerOptions::new().key(huge());
    let triggering = theatre.world.trigger_with::<Piece>(options, "ann".to_owned());
    let refused = theatre.sim.block_on(triggering).expect("it ends").expect_err("too long");
    assert!(refused.to_string().contains("1024 are the limit"), "{refused}");
    let step = step_of(&theatre.settle(&plan), "ann");
    let send = |id: &str| theatre.done(theatre.world.event(plan.id(), step, Some(id), &1));
    let refused = send(&huge()).expect_err("too long");
    let PlanError::EventId { problem, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!((problem.bytes, problem.limit), (10 << 20, EVENT_ID_BYTES_MAX));
    send(&"i".repeat(EVENT_ID_BYTES_MAX)).expect("as long as it may be");
}

#[test]
fn long_errors_and_reasons_are_cut_and_say_how_long_they_were() {
    let theatre = Theatre::new();
    theatre.script.on("ann", |_| Err(ActionError::new("e".repeat(1 << 20), huge())));
    theatre.script.on("bob", |_| Ok(Next::suspend(huge())));
    let view = theatre.settle(&theatre.perform("ann"));
    let error = view.steps.iter().find_map(|step| step.error.clone()).expect("it has failed");
    assert!(error.message.len() <= ERROR_BYTES_MAX && error.kind.len() <= REASON_BYTES_MAX);
    assert!(error.message.ends_with("… (10485760 bytes in all)"), "its end says how long it was");
    let view = theatre.settle(&theatre.perform("bob"));
    let reason = view.waits_for();
    assert!(reason.len() <= REASON_BYTES_MAX && reason.starts_with('ä'), "{}", reason.len());
    let plan = theatre.perform("bob");
    theatre.settle(&plan);
    theatre.done(plan.cancel(&huge())).expect("it is taken");
    let by = theatre.settle(&plan).cancel.as_ref().map(|cancel| cancel.by.len());
    assert!(by.is_some_and(|bytes| bytes <= REASON_BYTES_MAX), "{by:?}");
}

/// Its output is no number of JSON.
struct Ratio;

impl Action for Ratio {
    const NAME: &'static str = "ratio";
    type Input = (f64, Option<f64>);
    type Output = f64;
    type Phases = RunsAsync;
}

impl RunAsync for Ratio {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = step.input.0 / step.input.1.unwrap_or_default();
        Ok(Next::Done)
    }
}

#[test]
fn floats_that_are_not_finite_are_refused_and_do_not_become_null() {
    let theatre = Theatre::with(|_| {}, |builder| builder.action(Ratio));
    let trigger = |input| {
        let triggering = theatre.world.trigger::<Ratio>(input);
        theatre.sim.block_on(triggering).expect("it ends")
    };
    let refused = trigger((f64::NAN, None)).expect_err("it cannot be stored");
    assert!(matches!(refused, TriggerError::Input { .. }), "{refused:?}");
    assert!(refused.to_string().contains("NaN or infinite"), "{refused}");
    let view = theatre.settle(&trigger((1.0, None)).expect("an input without a value is one"));
    let error = view.steps.iter().find_map(|step| step.error.clone()).expect("its output is none");
    assert!(error.message.contains("NaN or infinite"), "{error}");
    let nested = vec![Some(1.5), None, Some(f64::INFINITY)];
    assert!(matches!(Payload::of(&nested), Err(PayloadError::NotFinite)));
    assert_eq!(Payload::of(&nested[..2]).expect("it is one").as_str(), "[1.5,null]");
}

#[test]
fn a_step_that_is_left_out_sees_why_it_has_failed() {
    let cleans = |play: &mut Play| play.cleans_up = true;
    let theatre = Theatre::with(cleans, |builder| builder);
    theatre.script.on("ann", |_| Err(ActionError::new("skip", "the paper is out")));
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let sees = seen.clone();
    theatre.script.on("clean ann", move |step| {
        assert_eq!(step.cause(), Cause::Skip);
        *sees.lock().expect("nothing panics with it") = step.failure().cloned();
        Ok(Next::Done)
    });
    let view = theatre.finished(&theatre.perform("ann"));
    assert_eq!(view.result(), PlanResult::Warning);
    let seen = seen.lock().expect("nothing panics with it").clone();
    assert_eq!(seen.expect("it is told").message, "the paper is out");
}

#[test]
fn an_event_that_a_failed_step_has_understood_is_no_dead_letter() {
    for is_understood in [false, true] {
        let theatre = Theatre::new();
        theatre.script.on("ann", move |step| match step.event::<String>()? {
            None => Ok(Next::suspend("a word")),
            Some(_) => {
                if is_understood {
                    step.event_is_understood();
                }
                Err(error("as it was told"))
            }
        });
        let plan = theatre.perform("ann");
        let step = step_of(&theatre.settle(&plan), "ann");
        for id in ["fail", "too late"] {
            let sent = theatre.world.event(plan.id(), step, Some(id), &"now");
            let _refused_if_late = theatre.done(sent);
        }
        let view = theatre.settle(&plan);
        assert_eq!(view.step(step).state, StepState::Error);
        let letters = theatre.world.dead_letters().letters;
        let mut ids: Vec<_> = letters.iter().filter_map(|letter| letter.id.as_deref()).collect();
        ids.sort_unstable();
        let expected: &[&str] = if is_understood { &["too late"] } else { &["fail", "too late"] };
        assert_eq!(ids, expected);
    }
}

/// Asks for plans of parts that end by an event.
struct Group;

impl Action for Group {
    const NAME: &'static str = "group";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Group {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.sub_plans().total == 0 {
            for who in ["ann", "bob"] {
                step.trigger::<Piece>(&who.to_owned())?;
            }
        }
        Ok(if step.sub_plans().pending == 0 && !step.is_first_call() {
            Next::Done
        } else {
            Next::suspend("its plans")
        })
    }
}

#[test]
fn a_step_is_as_far_as_the_plans_that_it_has_asked_for() {
    let theatre = Theatre::with(|_| {}, |builder| builder.action(Group));
    suspends(&theatre, "bob");
    let triggering = theatre.world.trigger::<Group>(());
    let plan = theatre.sim.block_on(triggering).expect("it ends").expect("it is taken");
    let view = theatre.settle(&plan);
    assert_eq!(view.progress(), 0.5, "one of its two plans is over");
    let step = view.steps.iter().find(|step| step.state == StepState::Suspended);
    assert_eq!(view.done_thousandths(step.expect("it waits")), 500);
}

/// Has a label, a lock and a kind of chunks of so many bytes.
struct Named;

#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
struct Sizes {
    label: usize,
    key: usize,
    kind: usize,
}

impl Action for Named {
    const NAME: &'static str = "named";
    type Input = Sizes;
    type Output = Option<String>;
    type Phases = RunsAsync;

    fn plan(&self, planner: &mut Planner<'_, Self>, input: Sizes) -> Result<(), ActionError> {
        planner.label("l".repeat(input.label));
        planner.plan_self(input)?;
        Ok(())
    }

    fn singleton(&self) -> Option<Singleton<Sizes>> {
        Some(Singleton::keyed(|input| "k".repeat(input.key)))
    }
}

impl RunAsync for Named {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let added = step.chunk(&"c".repeat(step.input.kind), &1);
        step.output = added.err().map(|error| error.message);
        Ok(Next::Done)
    }
}

#[test]
fn labels_of_plans_and_names_of_locks_that_are_too_long_fail_the_planning() {
    let theatre = Theatre::with(|_| {}, |world| world.action(Named));
    let key = LOCK_NAME_BYTES_MAX - "named: ".len();
    let most = Sizes { label: PLAN_LABEL_BYTES_MAX, key, kind: 1 };
    let trigger = |sizes| theatre.sim.block_on(theatre.world.trigger::<Named>(sizes)).unwrap();
    let plan = trigger(most).expect("as long as they may be");
    let view = theatre.finished(&plan);
    assert_eq!((view.label.len(), view.locks[0].name.len()), (PLAN_LABEL_BYTES_MAX, 1_024));
    for (sizes, named) in [
        (Sizes { label: 10 << 20, ..most }, "label of the plan has 10485760 bytes"),
        (Sizes { label: most.label + 1, ..most }, "label of the plan"),
        (Sizes { key: 10 << 20, ..most }, "name of the lock has 10485767 bytes"),
        (Sizes { key: key + 1, ..most }, "name of the lock"),
    ] {
        let refused = trigger(sizes).expect_err("too long");
        let TriggerError::Planning { plan, error } = &refused else { panic!("{refused:?}") };
        assert!(error.message.contains(named) && error.is_final, "{error}");
        let view = theatre.settle(&theatre.world.plan(*plan));
        assert_eq!(view.state, PlanState::Stopped);
        assert!(view.label.len() <= PLAN_LABEL_BYTES_MAX && view.locks.len() <= 1);
    }
}

#[test]
fn names_that_are_too_long_are_refused_where_they_are_given() {
    let long = || "n".repeat(NAME_BYTES_MAX + 1);
    let refused = |builder: WorldBuilder| {
        let refused = builder.build(MemoryStore::new()).map(drop).expect_err("too long");
        assert!(matches!(refused, BuildError::TooLong(_)), "{refused}");
    };
    refused(World::builder().queue(Queue::new(long())));
    refused(World::builder().name(long()));
    refused(World::builder().meta("about", "m".repeat(META_BYTES_MAX)));

    let theatre = Theatre::with(|_| {}, |world| world.action(Named));
    let sizes = Sizes { kind: NAME_BYTES_MAX + 1, ..Sizes::default() };
    let plan = theatre.sim.block_on(theatre.world.trigger::<Named>(sizes)).unwrap().unwrap();
    let said = theatre.finished(&plan).output::<Named>().unwrap();
    assert!(said.is_some_and(|error| error.contains("kind of a chunk has 201 bytes")));
    let schedule = Schedule::every("hourly", Duration::from_secs(3_600))
        .action_named(long(), Payload::of(&()).unwrap());
    let refused = theatre.done(theatre.world.schedules().put(schedule)).expect_err("too long");
    assert!(refused.to_string().contains("201 bytes"), "{refused}");
}

#[test]
fn event_for_a_plan_with_a_key_or_label_that_is_too_long_fails_its_step() {
    let label = EventTarget::Label(huge(), "left".to_owned());
    for to in [EventTarget::Key("k".repeat(KEY_BYTES_MAX + 1)), label] {
        let theatre = Theatre::new();
        theatre.script.on("ann", move |step| {
            step.send_event::<Play>(to.clone(), "hello", &1)?;
            Ok(Next::Done)
        });
        let view = theatre.finished(&theatre.perform("ann"));
        let error = view.steps.iter().find_map(|step| step.error.clone()).expect("it is refused");
        assert!(error.is_final && error.message.contains("are the limit"), "{error}");
    }
}

/// The part suspends in each call, and sends itself an event after half a minute if told to.
fn limited(polls: bool) -> Theatre {
    let change = |play: &mut Play| (play.attempts, play.limit) = (3, Some(Duration::from_secs(60)));
    let theatre = Theatre::with(change, |builder| builder);
    theatre.script.on("ann", move |step| {
        if polls {
            step.event_after(Duration::from_secs(25), &1)?;
        }
        Ok(Next::suspend("its end"))
    });
    theatre
}

#[test]
fn step_that_suspends_and_times_out_in_each_attempt_fails_after_its_attempts() {
    for polls in [false, true] {
        let theatre = limited(polls);
        let plan = theatre.perform("ann");
        theatre.sim.advance(Duration::from_secs(190));
        assert_eq!(theatre.settle(&plan).state, PlanState::Running, "the third attempt");
        theatre.sim.advance(Duration::from_secs(20));
        let view = theatre.settle(&plan);
        let step = view.step(step_of(&view, "ann"));
        assert_eq!((view.state, step.attempt), (PlanState::Paused, 3));
        assert_eq!(step.error.as_ref().map(|error| error.kind.as_str()), Some("timed_out"));
        // A person begins the count anew.
        theatre.done(plan.resume("eva")).expect("it is paused");
        theatre.sim.advance(Duration::from_secs(190));
        assert_eq!(theatre.settle(&plan).state, PlanState::Running, "the third attempt again");
        theatre.sim.advance(Duration::from_secs(20));
        assert_eq!(theatre.settle(&plan).state, PlanState::Paused);
    }
}

#[test]
fn time_outs_count_on_in_the_next_process() {
    let theatre = limited(false);
    let plan = theatre.perform("ann").id();
    // It has left memory: the next world reads it from its snapshot.
    theatre.sim.advance(Duration::from_secs(100));
    theatre.sim.run_until_idle();
    let change = |play: &mut Play| (play.attempts, play.limit) = (3, Some(Duration::from_secs(60)));
    let theatre = theatre.crash_with(change, |builder| builder);
    theatre.sim.advance(Duration::from_secs(110));
    let view = theatre.settle(&theatre.world.plan(plan));
    assert_eq!((view.state, view.step(step_of(&view, "ann")).attempt), (PlanState::Paused, 3));
}

#[test]
fn step_without_a_limit_may_suspend_again_and_again() {
    let theatre = Theatre::with(|play| play.attempts = 2, |builder| builder);
    let mut is_to_fail = false;
    theatre.script.on("ann", move |step| {
        is_to_fail = !is_to_fail && step.has_event();
        if is_to_fail {
            return Err(error("again"));
        }
        step.event_after(Duration::from_secs(25), &1)?;
        Ok(Next::suspend("its end"))
    });
    let plan = theatre.perform("ann");
    theatre.sim.advance(Duration::from_secs(3_600));
    // Each of its events is refused once.
    let view = theatre.settle(&plan);
    assert_eq!(view.state, PlanState::Running);
    assert!(view.step(step_of(&view, "ann")).attempt > 50);
}
