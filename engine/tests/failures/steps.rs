//! Failed steps: retried, rescued, skipped, taken back; plans resumed, cancelled, halted.

use std::time::Duration;

use turnwheel_engine::{Next, PlanError, PlanResult, PlanState, StepId, StepState};

use crate::common::{error, states, step_of, Part, Theatre};

#[test]
fn a_failure_ends_its_own_branch_and_then_pauses_the_plan() {
    // D-155 D-180 D-181
    let theatre = Theatre::new();
    theatre.script.on("b", |_| Err(error("broken")));
    let plan = theatre.perform("a|b c");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    assert_eq!(states(&view), "success error pending");
    assert_eq!(theatre.script.said(), ["a", "b"]);
    // Executing it again fails again: D-155.
    theatre.done(plan.resume("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(view.state, PlanState::Paused);
    assert_eq!(theatre.script.said(), ["b"], "finished steps are not run again");
}

#[test]
fn a_repaired_plan_is_resumed_where_it_failed() {
    // D-169 D-176
    let theatre = Theatre::new();
    theatre.script.on("b", |step| {
        if step.input.needs.is_empty() {
            return Err(error("broken"));
        }
        Ok(Next::Done)
    });
    let plan = theatre.perform("a b c");
    let view = theatre.finished(&plan);
    let failed = view.step(step_of(&view, "b"));
    let repaired = Part { who: "b".into(), needs: vec![serde_json::json!(1).into()] };
    theatre.done(plan.edit_input(failed.action, &repaired, "ann")).unwrap();
    theatre.done(plan.resume("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    let expected = ["a", "b", "b", "c", "finalize a", "finalize b", "finalize c"];
    assert_eq!(theatre.script.said(), expected);
    assert!(view.history.iter().any(|entry| entry.text.contains("edited by ann")));
}

#[test]
fn an_edited_input_that_its_action_cannot_read_is_refused_by_name() {
    let theatre = Theatre::new();
    theatre.script.on("b", |_| Err(error("broken")));
    let plan = theatre.perform("a b c");
    let before = theatre.finished(&plan);
    let [a, b, c] = ["a", "b", "c"].map(|who| before.step(step_of(&before, who)));
    let own_of = |step: StepId, path: &str| serde_json::json!({"$output": {"plan": plan.id(), "step": step, "path": [path]}});
    let refused = |input: serde_json::Value| {
        let refused = theatre.done(plan.edit_input(b.action, &input, "ann")).unwrap_err();
        let PlanError::Input { plan: of, action, name, step, problem } = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!((*of, *action, name.as_str(), *step), (plan.id(), b.action, "play", Some(b.id)));
        let place = format!("action {} «play» of step {}", b.action, b.id);
        assert!(refused.to_string().contains(&place), "{refused}");
        problem.clone()
    };
    let problem = refused(serde_json::json!({"who": 7, "needs": []}));
    assert!(problem.contains("expected a string"), "{problem}");
    // What an output does not have is known once it is there, and who would wait for itself at once.
    let problem = refused(serde_json::json!({"who": "b", "needs": [own_of(a.id, "nothing")]}));
    assert!(problem.contains("«nothing»"), "{problem}");
    for later in [b, c] {
        let problem = refused(serde_json::json!({"who": "b", "needs": [own_of(later.id, "x")]}));
        assert!(problem.contains("waits for it"), "{problem}");
    }
    // A name cannot be open, a need can.
    let input = serde_json::json!({"who": own_of(b.id, "x"), "needs": []});
    let done = theatre.done(plan.edit_input(c.action, &input, "ann"));
    assert!(matches!(done, Err(PlanError::Input { .. })), "{done:?}");
    let after = theatre.finished(&plan);
    assert_eq!((after.history.len(), after.state), (before.history.len(), PlanState::Paused));
    let input = serde_json::json!({"who": "c", "needs": [own_of(b.id, "x")]});
    theatre.done(plan.edit_input(c.action, &input, "ann")).unwrap();
}

#[test]
fn a_finalize_phase_is_repeated_as_a_whole() {
    // D-177
    let theatre = Theatre::new();
    let mut calls = 0;
    theatre.script.on("finalize b", move |_| {
        calls += 1;
        if calls == 1 {
            Err(error("broken"))
        } else {
            Ok(Next::Done)
        }
    });
    let plan = theatre.perform("a b c");
    assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
    assert_eq!(theatre.script.said(), ["a", "b", "c", "finalize a", "finalize b"]);
    theatre.done(plan.resume("ann")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    assert_eq!(theatre.script.said(), ["finalize a", "finalize b", "finalize c"]);
}

#[test]
fn a_step_is_tried_again_after_its_pause_also_by_another_world() {
    let retries = |play: &mut crate::common::Play| play.attempts = 3;
    let theatre = Theatre::with(retries, |world| world);
    theatre.script.on("a", |step| {
        if step.attempt() < 3 {
            return Err(error("broken"));
        }
        Ok(Next::Done)
    });
    let plan = theatre.perform("a");
    let view = theatre.settle(&plan);
    assert_eq!(states(&view), "retrying");
    theatre.sim.advance(Duration::from_secs(10));
    let view = theatre.settle(&plan);
    assert_eq!((states(&view).as_str(), view.steps[2].attempt), ("retrying", 2));

    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash_with(retries, |world| world);
    theatre.sim.run_until_idle();
    theatre.sim.advance(Duration::from_secs(10));
    let view = theatre.finished(&theatre.world.plan(id));
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(theatre.script.said(), ["a", "a", "a", "finalize a"]);
}

#[test]
fn what_may_be_skipped_is_and_what_needs_it_with_it() {
    // D-284 D-285
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Err(error("skip")));
    let plan = theatre.perform("a|b c");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Warning));
    assert_eq!(states(&view), "skipped success success");
    let skipped = view.step(step_of(&view, "a"));
    assert_eq!(skipped.error.as_ref().unwrap().message, "skip me");
    assert_eq!(theatre.script.said(), ["a", "b", "c", "finalize b", "finalize c"]);
}

#[test]
fn a_step_that_fails_also_when_skipped_is_rescued_once() {
    // D-287
    let cleans = |play: &mut crate::common::Play| play.cleans_up = true;
    let theatre = Theatre::with(cleans, |world| world);
    theatre.script.on("a", |_| Err(error("skip")));
    theatre.script.on("clean a", |_| Err(error("skip")));
    let plan = theatre.perform("a");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    assert_eq!(theatre.script.said(), ["a", "clean a"]);
}

#[test]
fn a_plan_that_shall_fail_stops_where_it_is() {
    // D-289
    let theatre = Theatre::new();
    theatre.script.on("b", |_| Err(error("fail")));
    let plan = theatre.perform("a b c");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
    assert_eq!(states(&view), "success error pending");
}

#[test]
fn suggestions_that_differ_come_to_a_pause_and_none_counts_if_the_world_says_so() {
    // D-272 D-276 D-282
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Err(error("skip")));
    theatre.script.on("b", |_| Err(error("fail")));
    let plan = theatre.perform("a|b");
    assert_eq!(theatre.finished(&plan).state, PlanState::Paused);

    let theatre = Theatre::with(|_| {}, |world| world.always_pause());
    theatre.script.on("a", |_| Err(error("skip")));
    let plan = theatre.perform("a");
    assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
}

#[test]
fn compensation_goes_backwards_and_survives_a_failure_of_its_own() {
    let theatre = Theatre::new();
    theatre.script.on("d", |_| Err(error("revert")));
    let mut calls = 0;
    theatre.script.on("revert b", move |_| {
        calls += 1;
        if calls == 1 {
            Err(error("broken"))
        } else {
            Ok(Next::Done)
        }
    });
    let plan = theatre.perform("a b|c d e");
    let view = theatre.finished(&plan);
    assert_eq!(view.state, PlanState::Paused, "a compensation has failed");
    let said = theatre.script.said();
    assert_eq!(&said[..5], ["a", "b", "c", "d", "revert d"]);
    theatre.done(plan.resume("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Reverted));
    assert_eq!(states(&view), "reverted reverted reverted reverted pending");
    assert_eq!(theatre.script.said().last().unwrap(), "revert a");
}

#[test]
fn a_step_is_skipped_by_hand_only_when_it_has_failed() {
    // F-145
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Err(error("broken")));
    let plan = theatre.perform("a b");
    let view = theatre.finished(&plan);
    let wrong = theatre.done(plan.skip(step_of(&view, "b"), "ann")).unwrap_err();
    assert!(wrong.to_string().contains("only a failed step"), "{wrong}");
    theatre.done(plan.skip(step_of(&view, "a"), "ann")).unwrap();
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Warning));
    theatre.done(plan.resume("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Warning));
}

#[test]
fn a_plan_begins_again_from_a_step() {
    let theatre = Theatre::new();
    theatre.script.on("c", |_| Err(error("broken")));
    let plan = theatre.perform("a b c");
    let view = theatre.finished(&plan);
    theatre.script.on("c", |_| Ok(Next::Done));
    theatre.done(plan.restart_from(step_of(&view, "b"), "ann")).unwrap();
    assert_eq!(states(&theatre.settle(&plan)), "success pending pending");
    theatre.done(plan.resume("ann")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    assert_eq!(theatre.script.said()[3..5], ["b", "c"]);
}

#[test]
fn an_event_that_is_sent_again_is_taken_once_until_its_step_begins_again() {
    // D-104 D-105
    let theatre = Theatre::new();
    theatre
        .script
        .on("a", |step| Ok(if step.has_event() { Next::Done } else { Next::suspend("a word") }));
    theatre.script.on("b", |_| Err(error("broken")));
    let plan = theatre.perform("a b");
    let step = step_of(&theatre.settle(&plan), "a");
    let approve = || theatre.done(theatre.world.event(plan.id(), step, Some("approve"), &1));
    approve().unwrap();
    assert_eq!(theatre.settle(&plan).state, PlanState::Paused);
    approve().expect("it was taken before");
    theatre.script.on("b", |_| Ok(Next::Done));
    theatre.done(plan.restart_from(step, "ann")).unwrap();
    theatre.done(plan.resume("ann")).unwrap();
    assert_eq!(states(&theatre.settle(&plan)), "suspended pending");
    approve().unwrap();
    assert_eq!(theatre.settle(&plan).result(), PlanResult::Success);
    approve().expect("its sender may not have heard that it was taken");
    let other = theatre.world.event(plan.id(), step, Some("other"), &1);
    assert!(theatre.done(other).unwrap_err().to_string().contains("no events any more"));
}

#[test]
fn a_cancelled_plan_ends_and_says_so() {
    // D-147
    let theatre = Theatre::with(|play| play.is_cancellable = true, |world| world);
    theatre.script.on("a", |_| Ok(Next::suspend("the end of time")));
    let plan = theatre.perform("a b");
    assert_eq!(states(&theatre.settle(&plan)), "suspended pending");
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    assert_eq!(states(&view), "cancelled cancelled");
    assert_eq!(theatre.script.said(), ["a", "cancel a"]);
    let late = theatre.done(plan.cancel("ann")).unwrap_err();
    assert!(late.to_string().contains("over"), "{late}");
}

#[test]
fn a_step_that_cannot_be_cancelled_pauses_the_plan() {
    // D-162
    let theatre = Theatre::with(|play| play.is_cancellable = true, |world| world);
    theatre.script.on("a", |step| {
        step.set_progress(0.3);
        Ok(Next::suspend("a long time"))
    });
    theatre.script.on("cancel a", |_| Err(error("broken")));
    let plan = theatre.perform("a");
    theatre.settle(&plan);
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    let step = view.step(step_of(&view, "a"));
    assert_eq!(step.error.as_ref().unwrap().message, "broken me");
    assert_eq!(step.progress, Some(300));
}

#[test]
fn a_paused_plan_can_be_cancelled_and_a_halted_one_stays_as_it_is() {
    // D-190 D-191
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Err(error("broken")));
    let plan = theatre.perform("a b");
    theatre.finished(&plan);
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));

    theatre.script.on("a", |_| Ok(Next::suspend("anything")));
    let plan = theatre.perform("a b");
    theatre.settle(&plan);
    theatre.done(plan.halt("ann")).unwrap();
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Pending));
    assert_eq!(states(&view), "suspended pending");
    let step = step_of(&view, "a");
    let refused = theatre.done(theatre.world.event(plan.id(), step, None, &1)).unwrap_err();
    assert!(refused.to_string().contains("stopped"), "{refused}");
}

#[test]
fn a_step_that_takes_too_long_has_failed_and_its_late_end_counts_no_more() {
    let limit = |play: &mut crate::common::Play| play.limit = Some(Duration::from_secs(60));
    let theatre = Theatre::with(limit, |world| world);
    theatre.script.on("a", |_| Ok(Next::suspend("anything")));
    let plan = theatre.perform("a");
    theatre.settle(&plan);
    theatre.sim.advance(Duration::from_secs(59));
    assert_eq!(states(&theatre.settle(&plan)), "suspended");
    theatre.sim.advance(Duration::from_secs(1));
    let view = theatre.finished(&plan);
    assert_eq!(view.state, PlanState::Paused);
    let step = view.step(step_of(&view, "a"));
    assert_eq!(
        (step.state, step.error.as_ref().unwrap().kind.as_str()),
        (StepState::Error, "timed_out")
    );
}
