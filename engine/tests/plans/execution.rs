//! Plans from their begin to their end: order, times, events, what is stored, what is refused.

use std::time::Duration;

use turnwheel_engine::limits::EVENT_IDS_AFTER_END;
use turnwheel_engine::{Next, PlanResult, PlanState, Run, StepState, TriggerError};

use crate::common::{error, states, step_of, Play, Theatre};

#[test]
fn a_finished_plan_is_stopped_and_cannot_be_executed_again() {
    // D-154 D-170 D-171 D-172
    let theatre = Theatre::new();
    let plan = theatre.perform("a");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    let refused = theatre.done(plan.resume("ann")).unwrap_err();
    assert!(refused.to_string().contains("stopped"), "{refused}");

    let empty = theatre.perform("");
    let view = theatre.finished(&empty);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!((view.steps.len(), view.progress()), (1, 1.0), "only planning");
}

#[test]
fn a_plan_and_its_step_are_running_while_the_code_runs_in_memory_and_in_the_store() {
    // D-157
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Ok(Next::suspend("a word")));
    let plan = theatre.perform("a b");
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Running, PlanResult::Pending));
    let filter = turnwheel_engine::store::Filter { limit: 10, ..Default::default() };
    let rows = theatre.sim.block_on(theatre.world.list(filter)).unwrap().unwrap();
    assert_eq!((rows[0].state, rows[0].waits_for.as_str()), (PlanState::Running, "a word"));
    assert!(!rows[0].is_busy, "no code runs");
}

#[test]
fn events_reach_the_step_in_their_order_one_at_a_time() {
    // D-104 F-102
    let theatre = Theatre::new();
    let script = theatre.script.clone();
    theatre.script.on("a", move |step| {
        let event = step.event::<String>()?;
        script.say(format!("event {event:?}"));
        if event.as_deref() == Some("end") {
            return Ok(Next::Done);
        }
        Ok(Next::suspend("more"))
    });
    let plan = theatre.perform("a");
    let step = step_of(&theatre.settle(&plan), "a");
    let send = |id: Option<&str>, text: &str| theatre.world.event(plan.id(), step, id, &text);
    let sent = [send(Some("1"), "one"), send(Some("2"), "two"), send(Some("1"), "one again")];
    for event in sent {
        theatre.done(event).unwrap();
    }
    theatre.done(send(None, "end")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    let said = theatre.script.said();
    let events: Vec<_> = said.iter().filter(|line| line.starts_with("event")).collect();
    let expected =
        ["event None", "event Some(\"one\")", "event Some(\"two\")", "event Some(\"end\")"];
    assert_eq!(events, expected);
}

#[test]
fn a_step_that_is_over_knows_the_newest_of_its_events_and_no_more() {
    let theatre = Theatre::new();
    for who in ["a", "b"] {
        theatre.script.on(who, move |step| match step.event::<String>()?.as_deref() {
            Some("end") => Ok(Next::Done),
            _ => Ok(Next::suspend("more")),
        });
    }
    let plan = theatre.perform("a|b");
    let view = theatre.settle(&plan);
    let step = step_of(&view, "a");
    let send = |id: usize, text: &str| {
        let id = format!("event {id}");
        theatre.done(theatre.world.event(plan.id(), step, Some(&id), &text))
    };
    let last = EVENT_IDS_AFTER_END + 10;
    for id in 0..last {
        send(id, "more").unwrap();
        theatre.settle(&plan);
    }
    send(0, "end").expect("it has had this one");
    send(last, "end").unwrap();
    assert_eq!(states(&theatre.settle(&plan)), "success suspended");
    send(last, "end").expect("who has missed the answer asks again");
    send(last - EVENT_IDS_AFTER_END + 1, "more").expect("the oldest one that it knows");
    let refused = send(0, "more").unwrap_err().to_string();
    assert!(refused.contains("takes no events"), "{refused}");
}

#[test]
fn an_event_for_a_step_that_takes_none_is_refused() {
    // D-105 D-107
    let theatre = Theatre::new();
    theatre.script.on("b", |_| Ok(Next::suspend("a word")));
    let plan = theatre.perform("a b c");
    let view = theatre.settle(&plan);
    let event = theatre.world.event(plan.id(), step_of(&view, "a"), None, &1);
    let refused = theatre.done(event).unwrap_err().to_string();
    assert!(refused.contains("is success and takes no events"), "{refused}");
    let nobody = theatre.world.event(plan.id(), turnwheel_engine::StepId(99), None, &1);
    assert!(theatre.done(nobody).unwrap_err().to_string().contains("no step 99"));
    let unknown = theatre.perform("x");
    let other = theatre.sim.block_on(unknown.finished()).unwrap().unwrap().id;
    let gone = turnwheel_engine::PlanId::from_bytes([7; 16]);
    assert_ne!(gone, other);
    let event = theatre.world.event(gone, turnwheel_engine::StepId(1), None, &1);
    assert!(theatre.done(event).unwrap_err().to_string().contains("no plan"));
}

#[test]
fn a_delayed_event_comes_at_its_time_and_none_is_left_behind() {
    // D-036 D-164
    let theatre = Theatre::new();
    theatre.script.on("a", |step| match step.event::<u32>()? {
        None => {
            step.event_after(Duration::from_secs(5), &7)?;
            Ok(Next::suspend("five seconds"))
        }
        Some(event) => {
            step.output = event.into();
            Ok(Next::Done)
        }
    });
    let plan = theatre.perform("a");
    let view = theatre.settle(&plan);
    assert_eq!((states(&view).as_str(), view.timers.len()), ("suspended", 1));
    theatre.sim.advance(Duration::from_secs(4));
    assert_eq!(states(&theatre.settle(&plan)), "suspended");
    theatre.sim.advance(Duration::from_secs(1));
    let view = theatre.finished(&plan);
    assert_eq!((view.output::<Play>().unwrap(), view.timers.len()), (7.into(), 0));
}

#[test]
fn an_event_without_delay_comes_next() {
    // D-037
    let theatre = Theatre::new();
    theatre.script.on("a", |step| match step.event::<u32>()? {
        None => {
            step.event_after(Duration::ZERO, &7)?;
            Ok(Next::suspend("itself"))
        }
        Some(_) => Ok(Next::Done),
    });
    let plan = theatre.perform("a");
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
}

#[test]
fn times_tell_running_from_waiting() {
    // D-166
    let theatre = Theatre::new();
    theatre.script.on("a", |step| match step.event::<u32>()? {
        None => {
            step.event_after(Duration::from_secs(60), &7)?;
            Ok(Next::suspend("a minute"))
        }
        Some(_) => Ok(Next::Done),
    });
    let plan = theatre.perform("a");
    theatre.settle(&plan);
    theatre.sim.advance(Duration::from_secs(60));
    let view = theatre.finished(&plan);
    assert!(view.real_time() >= Duration::from_secs(60), "{:?}", view.real_time());
    assert!(view.execution_time() < view.real_time());
    let sum: Duration = view.steps.iter().map(|step| step.execution_time()).sum();
    assert_eq!(view.execution_time(), sum);
    let step = view.step(step_of(&view, "a"));
    assert!(step.execution_time() < step.real_time());
}

#[test]
fn finalize_runs_in_the_order_of_planning_when_all_has_run_and_not_after_a_failure() {
    // D-146 D-174 D-175
    let theatre = Theatre::new();
    let plan = theatre.perform("a|b c");
    theatre.finished(&plan);
    let said = theatre.script.said();
    assert_eq!(said[3..], ["finalize a", "finalize b", "finalize c"]);

    theatre.script.on("b", |_| Err(error("broken")));
    let plan = theatre.perform("a b");
    theatre.finished(&plan);
    assert!(!theatre.script.said().iter().any(|line| line.starts_with("finalize")));
}

#[test]
fn a_plan_is_read_back_as_it_was() {
    // D-130 D-149
    let theatre = Theatre::new();
    theatre.script.on("b", |_| Ok(Next::suspend("a word")));
    let plan = theatre.perform("a|b c");
    let before = theatre.settle(&plan);
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash();
    let after = theatre.settle(&theatre.world.plan(id));
    assert_eq!(before.label, after.label);
    assert_eq!(before.steps, after.steps);
    assert_eq!(before.actions, after.actions);
    assert_eq!(before.run, after.run);
    assert_eq!(before.finalize, after.finalize);
    assert_eq!(before.history, after.history);
    assert!(after.steps.iter().all(|step| after.action(step.action).id == step.action));
}

#[test]
fn a_step_is_told_its_attempt_and_has_a_key_of_its_own() {
    // F-105
    let theatre = Theatre::new();
    let (script, flag) = (theatre.script.clone(), std::sync::Arc::new(std::sync::Mutex::new(0)));
    let calls = std::sync::Arc::clone(&flag);
    theatre.script.on("a", move |step| {
        *calls.lock().unwrap() += 1;
        let key = step.idempotency_key();
        script.say(format!("attempt {} first {} {key}", step.attempt(), step.is_first_call()));
        Ok(Next::Done)
    });
    let plan = theatre.perform("a b");
    let view = theatre.finished(&plan);
    let key = format!("{}/{}", plan.id(), step_of(&view, "a"));
    let said = theatre.script.said();
    assert_eq!(said[1], format!("attempt 1 first true {key}"));
    assert_eq!(*flag.lock().unwrap(), 1);
}

#[test]
fn a_panic_in_any_phase_is_a_failure_of_its_step() {
    let theatre = Theatre::new();
    for part in ["run", "finalize x"] {
        theatre.script.on(part, |_| panic!("on purpose"));
    }
    for (piece, who) in [("run", "run"), ("x", "x")] {
        let plan = theatre.perform(piece);
        let view = theatre.finished(&plan);
        assert_eq!(view.state, PlanState::Paused, "{who}");
        let failed = view.failed_steps().next().unwrap();
        let error = failed.error.as_ref().unwrap();
        assert_eq!((error.kind.as_str(), error.message.as_str()), ("panic", "on purpose"));
    }
}

#[test]
fn after_the_end_of_the_world_nothing_is_taken() {
    // D-186 D-187 D-189
    let world = turnwheel_engine::World::builder()
        .action(Sleepy)
        .build(turnwheel_engine::MemoryStore::new())
        .unwrap();
    let other = world.clone();
    let ends = std::thread::spawn(move || other.shutdown().is_ok());
    let ended = world.shutdown().is_ok();
    assert!(ended && ends.join().unwrap(), "both ends are told");
    let refused = world.trigger::<Sleepy>(()).wait().unwrap_err();
    assert!(matches!(refused, TriggerError::Refused(_)), "{refused}");
}

struct Sleepy;

impl turnwheel_engine::Action for Sleepy {
    const NAME: &'static str = "sleepy";
    type Input = ();
    type Output = ();
    type Phases = turnwheel_engine::Runs;
}

impl Run for Sleepy {
    fn run(
        &self,
        _: &mut turnwheel_engine::StepContext<Self>,
    ) -> Result<Next, turnwheel_engine::ActionError> {
        Ok(Next::Done)
    }
}

#[test]
fn results_follow_from_the_steps() {
    // D-134 D-135 D-136
    let theatre = Theatre::new();
    theatre.script.on("s", |_| Ok(Next::suspend("a word")));
    let plan = theatre.perform("a s");
    assert_eq!(theatre.settle(&plan).result(), PlanResult::Pending);
    theatre.script.on("e", |_| Err(error("broken")));
    let plan = theatre.perform("s|e");
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Running, PlanResult::Error));
    theatre.script.on("k", |_| Err(error("skip")));
    let plan = theatre.perform("a|k");
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Warning);
    let done = |state: StepState| matches!(state, StepState::Success | StepState::Skipped);
    assert!(view.steps.iter().all(|step| done(step.state)));
}
