//! Every state and result there is can be seen; and what a trigger, a timer and an end promise.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, Delay, MemoryStore, Next, On, PlanHandle, PlanResult, PlanState, PlanView,
    Retention, Run, RunAsync, Runs, RunsAsync, Singleton, StepContext, Store, Time, Triggering,
    World,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completion;

use crate::common::{error, step_of, Piece, Play, Theatre};

#[derive(Default)]
struct Seen {
    plans: BTreeSet<&'static str>,
    results: BTreeSet<&'static str>,
    steps: BTreeSet<&'static str>,
}

impl Seen {
    fn see(&mut self, view: &PlanView) {
        self.plans.insert(view.state.name());
        self.results.insert(view.result().name());
        self.steps.extend(view.steps.iter().map(|step| step.state.name()));
    }
}

/// Waits for an event; a second one waits for the first.
struct Alone;

impl Action for Alone {
    const NAME: &'static str = "alone";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<()>> {
        Some(Singleton::new().wait())
    }
}

impl RunAsync for Alone {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(if step.has_event() { Next::Done } else { Next::suspend("an event") })
    }
}

/// Ends when it is told to.
#[derive(Default)]
struct Endless(Mutex<Option<Completion<()>>>);

impl Action for Endless {
    const NAME: &'static str = "endless";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Endless {
    async fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let end = self.0.lock().expect("nothing panics under this lock").take();
        match end {
            Some(end) => end.await.map_err(|failure| ActionError::new("gone", failure))?,
            None => std::future::pending().await,
        }
        Ok(Next::Done)
    }
}

#[test]
fn every_state_and_result_is_seen_by_those_who_look() {
    // S-26
    let mut seen = Seen::default();
    let hooked = Arc::new(Mutex::new(BTreeSet::new()));
    let told = Arc::clone(&hooked);
    let tries = |play: &mut Play| play.later_attempts = 2;
    let theatre = Theatre::with(tries, |world| {
        world.action(Alone).action(Endless::default()).hook(On::STATES, move |change| {
            told.lock().expect("nothing panics under this lock").insert(change.on.names());
            Ok(())
        })
    });
    let take = |triggering: Triggering| -> PlanHandle {
        theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
    };
    seen.see(&theatre.settle(&take(theatre.world.delay::<Piece>(Delay::frozen(), "a".into()))));
    let endless = take(theatre.world.trigger::<Endless>(()));
    seen.see(&theatre.settle(&endless));
    theatre.done(endless.cancel_now("ann")).unwrap();
    seen.see(&theatre.finished(&endless));
    seen.see(&theatre.settle(&take(theatre.world.trigger::<Alone>(()))));
    seen.see(&theatre.settle(&take(theatre.world.trigger::<Alone>(()))));
    let end = |text: &str| theatre.finished(&theatre.perform(text));
    seen.see(&end("good"));
    theatre.script.on("bad", |_| Err(error("broken")));
    let plan = theatre.perform("bad later");
    seen.see(&theatre.finished(&plan));
    theatre.done(plan.skip(step_of(&theatre.finished(&plan), "bad"), "ann")).unwrap();
    seen.see(&theatre.settle(&plan));
    theatre.script.on("dull", |_| Err(error("skip")));
    seen.see(&end("dull"));
    theatre.script.on("rue", |_| Err(error("revert")));
    seen.see(&end("good rue"));
    theatre.script.on("revert stuck", |_| Err(error("broken")));
    let plan = theatre.perform("stuck rue");
    seen.see(&theatre.settle(&plan));
    theatre.sim.advance(Duration::from_secs(10));
    let view = theatre.finished(&plan);
    seen.see(&view);
    theatre.done(plan.skip(step_of(&view, "stuck"), "ann")).unwrap();
    seen.see(&theatre.settle(&plan));

    // A plan is made and planned in one entry: only hooks are told of the states before.
    let hooked = hooked.lock().unwrap();
    let all = ["pending", "scheduled", "planning", "planned", "running", "paused", "stopped"];
    for name in all {
        assert!(seen.plans.contains(name) || hooked.contains(name), "{name}: {hooked:?}");
        assert_eq!(PlanState::from_name(name).map(PlanState::name), Some(name));
    }
    for name in ["pending", "success", "warning", "error", "cancelled", "reverted"] {
        assert!(seen.results.contains(name), "{name}: {:?}", seen.results);
        assert_eq!(PlanResult::from_name(name).map(PlanResult::name), Some(name));
    }
    let steps = [
        "pending",
        "running",
        "success",
        "suspended",
        "skipping",
        "skipped",
        "error",
        "cancelled",
        "reverted",
        "revert_retrying",
        "revert_failed",
        "kept",
    ];
    for name in steps {
        assert!(seen.steps.contains(name), "{name}: {:?}", seen.steps);
    }
    let rows = theatre.sim.block_on(theatre.world.list(Filter::default())).unwrap().unwrap();
    assert!(rows.len() >= 8 && rows.iter().all(|row| !row.state.name().is_empty()));
}

#[test]
fn a_trigger_is_durable_before_anything_runs_and_its_end_comes_after_all_has() {
    // S-23
    let theatre = Theatre::new();
    let store = theatre.store.clone();
    theatre.script.on("a", move |step| {
        let entries = store.reader()?.journal(0, usize::MAX)?;
        assert!(entries.iter().any(|entry| entry.plan == step.plan_id()), "it is there");
        Ok(Next::Done)
    });
    let plan = theatre.perform("a b");
    let view = theatre.finished(&plan);
    assert_eq!(theatre.script.said(), ["a", "b", "finalize a", "finalize b"]);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
}

#[test]
fn an_action_ends_itself_where_it_is_when_it_is_told_to() {
    // D-161
    let theatre = Theatre::new();
    theatre.script.on("a", |step| {
        if !step.has_event() {
            step.set_progress(0.3);
            return Ok(Next::suspend("more"));
        }
        step.output = serde_json::json!({ "cancelled": true });
        Ok(Next::Done)
    });
    let plan = theatre.perform("a");
    let view = theatre.settle(&plan);
    assert!((view.step(step_of(&view, "a")).done_thousandths()) == 300);
    let step = step_of(&view, "a");
    theatre.done(theatre.world.event(plan.id(), step, None, &"cancel")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.step(step).progress), (PlanResult::Success, Some(300)));
    assert_eq!(view.output::<Play>().unwrap(), serde_json::json!({ "cancelled": true }));
}

#[test]
fn a_plan_that_was_removed_while_its_code_ran_stays_away() {
    // D-159
    let (end, ends) = completion();
    let endless = Endless(Mutex::new(Some(ends)));
    let theatre = Theatre::with(|_| {}, |world| world.action(endless));
    let triggering = theatre.world.trigger::<Endless>(());
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    theatre.settle(&plan);
    theatre.done(plan.halt("ann")).unwrap();
    theatre.sim.advance(Duration::from_secs(60));
    let cleaned = theatre.world.clean(Retention::older_than(Duration::from_secs(1)));
    assert_eq!(theatre.sim.block_on(cleaned).unwrap().unwrap().plans, 1);
    assert!(end.complete(()).is_ok());
    theatre.sim.advance(Duration::from_secs(60));
    let refused = theatre.done(plan.cancel("ann")).unwrap_err();
    assert!(refused.to_string().contains("there is no plan"), "{refused}");
    let rows = theatre.sim.block_on(theatre.world.list(Filter::default())).unwrap().unwrap();
    assert!(rows.is_empty(), "nothing is made anew");
    let entries = theatre.store.reader().unwrap().journal(0, usize::MAX).unwrap();
    assert!(entries.is_empty(), "also not in the journal");
}

#[test]
fn a_plan_whose_time_is_over_already_is_found_and_planned() {
    // D-210
    let theatre = Theatre::new();
    let now = Time::from(theatre.sim.wall());
    let delay = Delay::until(Time(now.0 - 3_600_000_000));
    let triggering = theatre.world.delay::<Piece>(delay, "a".to_owned());
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);

    let delay = Delay::by(Duration::from_secs(60));
    let triggering = theatre.world.delay::<Piece>(delay, "b".to_owned());
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap().id();
    theatre.sim.run_until_idle();
    let theatre = theatre.crash_at(Duration::from_secs(3_600));
    assert_eq!(theatre.finished(&theatre.world.plan(plan)).result(), PlanResult::Success);
}

/// Sends itself events after times, and counts them.
struct Timed;

impl Action for Timed {
    const NAME: &'static str = "timed";
    type Input = Vec<u64>;
    type Output = u32;
    type Phases = Runs;
}

impl Run for Timed {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let all = step.input.len() as u32;
        match step.event::<Time>()? {
            None => {
                let now = step.now();
                for delay in step.input.clone().into_iter().map(Duration::from_millis) {
                    step.event_after(delay, &now.after(delay))?;
                }
            }
            Some(due) => {
                assert!(step.now() >= due, "never early");
                step.output += 1;
            }
        }
        Ok(if step.output == all { Next::Done } else { Next::suspend("the next one") })
    }
}

#[test]
fn timers_of_many_threads_all_come_and_none_too_early() {
    // D-072 D-074
    let world = World::builder().action(Timed).build(MemoryStore::new()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let world = &world;
            scope.spawn(move || {
                let delays = (0..20).map(|timer| (thread * 31 + timer * 17) % 80).collect();
                let plan = world.trigger::<Timed>(delays).wait().expect("it is taken");
                let view = plan.finished().wait().expect("it ends");
                assert_eq!(view.result(), PlanResult::Success, "{:?}", view.errors());
                assert_eq!(view.output::<Timed>().expect("it reads"), 20);
            });
        }
    });
    world.shutdown().unwrap();
}

#[test]
fn hooks_of_the_end_are_called_in_their_order_and_one_that_fails_stops_none() {
    // D-184 D-185
    let said = Arc::new(Mutex::new(Vec::new()));
    let say = |line: &'static str| {
        let said = Arc::clone(&said);
        move || {
            said.lock().expect("nothing panics under this lock").push(line);
            match line {
                "fails" => Err(ActionError::new("broken", "no")),
                "panics" => panic!("no"),
                _ => Ok(()),
            }
        }
    };
    let world = World::builder().action(Timed).before_shutdown(say("first"));
    let world = world.before_shutdown(say("fails")).before_shutdown(say("panics"));
    let world = world.before_shutdown(say("last")).build(MemoryStore::new()).unwrap();
    world.shutdown().unwrap();
    let _again = world.shutdown();
    assert_eq!(*said.lock().unwrap(), ["first", "fails", "panics", "last"]);
}
