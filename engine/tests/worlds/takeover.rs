//! Worlds that die, or are thought dead: others go on with their plans, and nothing is done twice.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use turnwheel_engine::{
    Check, ConnectError, Delay, Health, MemoryStore, Next, PlanResult, PlanState, Store,
    StoreError, World,
};
use turnwheel_sqlite::SqliteStore;
use turnwheel_testkit::FaultStore;

use crate::common::worlds::Stage;
use crate::common::{step_of, Piece, Script};

fn over_both(test: impl Fn(Stage)) {
    test(Stage::over(MemoryStore::new()));
    let folder = tempfile::tempdir().expect("a folder");
    let store: Box<dyn Store> = Box::new(SqliteStore::new(folder.path().join("plans.db")));
    test(Stage::over(Arc::<dyn Store>::from(store)));
}

/// The part suspends until it gets an event.
fn suspends(script: &Script, who: &str) {
    script.on(who, |step| match step.event::<String>()? {
        None => Ok(Next::Suspend("an event".to_owned())),
        Some(text) => {
            step.output = text.into();
            Ok(Next::Done)
        }
    });
}

fn is_success(view: &turnwheel_engine::PlanView) -> bool {
    (view.state, view.result()) == (PlanState::Stopped, PlanResult::Success)
}

// D-001, D-002, E-03
#[test]
fn a_suspended_plan_of_a_dead_world_goes_on_elsewhere_and_its_caller_is_told() {
    over_both(|stage| {
        let (first, script) = stage.executor("first");
        let client = stage.client("client");
        suspends(&script, "a");
        let plan = stage.perform(&client, "a b");
        let a = step_of(&stage.view(&plan), "a");
        let (far, near) = (plan.finished(), first.plan(plan.id()).finished());
        let (second, on_second) = stage.executor("second");
        suspends(&on_second, "a");
        assert!(stage.invalidate(&client, &first));
        assert!(!stage.invalidate(&second, &first), "a world dies once");
        assert_eq!(client.owner_of(plan.id()), Some(second.id()));
        assert!(client.worlds().iter().all(|world| world.id != first.id()), "its record is gone");
        stage.passing(client.event(plan.id(), a, None, &"hello")).unwrap().unwrap();
        for finished in [far, near] {
            assert!(is_success(&stage.passing(finished).unwrap()));
        }
        let said = on_second.said();
        assert_eq!(said, ["a", "b", "finalize a", "finalize b"], "«a» with its event only");
        let (first, second) = (first.id(), second.id());
        let trace =
            format!("taken over by world {second} from world {first} («first»), which is gone");
        let history = stage.view(&plan).history.clone();
        let found = history.iter().filter(|entry| entry.text == trace).count();
        assert_eq!(found, 1, "{history:?}");
    });
}

#[test]
fn plans_of_a_dead_world_go_on_although_the_store_fails_when_they_are_taken_over() {
    for is_row_written in [true, false] {
        goes_on_although_reads_fail(is_row_written);
    }
}

fn goes_on_although_reads_fail(is_row_written: bool) {
    let store = FaultStore::new(MemoryStore::new());
    let stage = Stage::over(store.clone());
    let (first, on_first) = stage.executor("first");
    let (second, on_second) = stage.executor("second");
    for script in [&on_first, &on_second] {
        script.on("a", |step| {
            if step.has_event() {
                return Ok(Next::Done);
            }
            step.event_after(Duration::from_secs(100), &1)?;
            Ok(step.wait_for_event("its time"))
        });
    }
    stage.view(&stage.perform(&first, "a b"));
    if is_row_written {
        // Only a look at the store finds it.
        stage.sim.advance(Duration::from_secs(30));
    }
    store.fail_reads(StoreError::Failed("the disk is away".to_owned()));
    assert!(stage.invalidate(&second, &first));
    stage.sim.advance(Duration::from_secs(5));
    store.heal();
    // Nobody looks at the plan: it goes on by itself.
    stage.sim.advance(Duration::from_secs(200));
    assert_eq!(on_second.said(), ["a", "b", "finalize a", "finalize b"]);
}

#[test]
fn a_world_that_is_thought_dead_can_write_nothing() {
    over_both(|stage| {
        let (first, on_first) = stage.executor("first");
        let (second, on_second) = stage.executor("second");
        suspends(&on_first, "a");
        suspends(&on_second, "a");
        let plan = stage.perform(&first, "a");
        let a = step_of(&stage.view(&plan), "a");
        // It lives, has the plan in its memory, and hears of nothing.
        stage.net.cut(&first);
        assert!(stage.invalidate(&second, &first));
        let view = stage.view(&second.plan(plan.id()));
        assert_eq!(view.state, PlanState::Running);
        stage.net.heal();
        on_first.said();
        stage.passing(first.event(plan.id(), a, None, &"late")).unwrap().unwrap();
        assert_eq!(on_first.said(), [""; 0], "the event went to who owns the plan");
        assert!(is_success(&stage.finished(&second.plan(plan.id()))));
        // New plans of it are refused by the store, whatever it thinks.
        let refused = stage.passing(first.trigger::<Piece>("b".to_owned())).unwrap_err();
        assert!(refused.to_string().contains("owns the store now"), "{refused}");
        assert_eq!(on_first.said(), [""; 0]);
    });
}

#[test]
fn code_that_runs_when_its_world_is_thought_dead_is_called_again_and_counts_once() {
    over_both(|stage| {
        let (first, on_first) = stage.executor("first");
        let (second, on_second) = stage.executor("second");
        let dying = Mutex::new(Some(begun(invalidation(second.clone(), first.id()))));
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&kept);
        on_first.on("a", move |step| {
            // While the code runs, its world is declared dead.
            if let Some(mut ending) = dying.lock().unwrap().take() {
                let mut cx = Context::from_waker(Waker::noop());
                assert!(ending.as_mut().poll(&mut cx).is_pending());
                keep.lock().unwrap().push(ending);
            }
            step.output = "first".into();
            Ok(Next::Done)
        });
        on_second.on("a", |step| {
            step.output = format!("second, attempt {}", step.attempt()).into();
            Ok(Next::Done)
        });
        let plan = stage.perform(&first, "a b");
        let view = stage.finished(&second.plan(plan.id()));
        assert!(is_success(&view));
        assert_eq!(on_first.said(), ["a"], "what it returned counts for nothing");
        assert_eq!(on_second.said(), ["a", "b", "finalize a", "finalize b"]);
        let a = view.step(step_of(&view, "a"));
        assert_eq!(view.action(a.action).output.as_str(), "\"second, attempt 2\"");
    });
}

type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

fn begun(future: impl Future<Output = ()> + Send + 'static) -> Ending {
    Box::pin(future)
}

async fn invalidation(by: World, world: u64) {
    by.invalidate(world).await.expect("the store is there");
}

#[test]
fn delayed_plans_and_sub_steps_wait_for_their_time_with_their_new_owner() {
    over_both(|stage| {
        let (first, _) = stage.executor("first");
        let (second, on_second) = stage.executor("second");
        let hour = Duration::from_secs(3_600);
        let delayed = first.delay::<Piece>(Delay::by(hour), "a".to_owned());
        let delayed = stage.passing(delayed).unwrap();
        let chained = Delay::after([delayed.id()]);
        let chained = stage.passing(second.delay::<Piece>(chained, "b".to_owned())).unwrap();
        stage.sim.run_until_idle();
        assert!(stage.invalidate(&second, &first));
        let view = stage.view(&delayed);
        assert_eq!(view.state, PlanState::Scheduled);
        assert!(is_success(&stage.finished(&second.plan(delayed.id()))));
        assert!(is_success(&stage.finished(&chained)));
        assert_eq!(on_second.said(), ["a", "finalize a", "b", "finalize b"]);
    });
}

// D-014, D-015
#[test]
fn plans_wait_for_an_executor_that_starts_and_those_that_failed_for_people() {
    over_both(|stage| {
        let (first, on_first) = stage.executor("first");
        let client = stage.client("client");
        suspends(&on_first, "a");
        on_first.on("c", |_| Err(crate::common::error("pause")));
        let plan = stage.perform(&client, "a");
        let failed = stage.perform(&client, "c");
        assert_eq!(stage.finished(&failed).state, PlanState::Paused);
        let a = step_of(&stage.view(&plan), "a");
        let finished = plan.finished();
        assert!(stage.passing(first.terminate(Duration::from_secs(1))).unwrap());
        assert_eq!(client.owner_of(plan.id()), None);
        let (_second, on_second) = stage.executor("second");
        suspends(&on_second, "a");
        stage.passing(client.event(plan.id(), a, None, &"hello")).unwrap().unwrap();
        assert!(is_success(&stage.passing(finished).unwrap()));
        assert_eq!(stage.view(&failed).state, PlanState::Paused);
        assert_eq!(on_second.said(), ["a", "finalize a"], "nobody has resumed «c»");
    });
}

// D-186, D-187, D-189
#[test]
fn a_world_that_ends_lets_code_finish_refuses_new_work_and_leaves_no_record() {
    over_both(|stage| {
        let (first, on_first) = stage.executor("first");
        let (second, on_second) = stage.executor("second");
        let myself = first.clone();
        let group = stage.sim.group("ends");
        on_first.on("a", move |_| {
            let world = myself.clone();
            let mut ending = begun(async move {
                let was_in_time = world.terminate(Duration::from_secs(10)).await;
                assert!(was_in_time.expect("the store is there"));
            });
            let mut cx = Context::from_waker(Waker::noop());
            assert!(ending.as_mut().poll(&mut cx).is_pending(), "this code runs");
            let task = group.task(()).spawn().expect("a task");
            task.submit(move |(), cx| {
                cx.await_interleaved(ending, |(), _, ()| {});
            })
            .expect("it is there");
            std::mem::forget(task);
            Ok(Next::Done)
        });
        let plan = stage.perform(&first, "a b");
        assert!(is_success(&stage.finished(&second.plan(plan.id()))));
        assert_eq!(on_first.said(), ["a"], "it finishes what it has begun");
        assert_eq!(on_second.said(), ["b", "finalize a", "finalize b"]);
        let refused = stage.passing(first.trigger::<Piece>("c".to_owned())).unwrap_err();
        assert!(refused.to_string().contains("ending"), "{refused}");
        let left: Vec<u64> = second.worlds().iter().map(|world| world.id).collect();
        assert_eq!(left, [second.id()]);
        assert!(stage.passing(first.terminate(Duration::ZERO)).is_ok(), "a second time is nothing");
    });
}

// D-016, D-017, D-019, D-020, D-109, D-110, D-111, D-112
#[test]
fn worlds_are_asked_whether_they_are_there() {
    let stage = Stage::over(MemoryStore::new());
    let (first, _) = stage.executor("first");
    let (second, _) = stage.executor("second");
    let client = stage.client("client");
    stage.passing(client.ping(first.id())).unwrap();
    stage.passing(first.ping(client.id())).unwrap();
    stage.net.carried();
    stage.passing(client.ping_cached(first.id(), Duration::from_secs(60))).unwrap();
    assert!(stage.net.carried().is_empty(), "it was heard of a moment ago");
    stage.net.cut(&second);
    let lost = stage.passing(client.ping(second.id())).unwrap_err();
    assert!(matches!(lost, ConnectError::TimedOut { .. }), "{lost}");
    let found = stage.passing(client.check_worlds(Check::Look, Some(&[second.id()]))).unwrap();
    assert!(matches!(&found[..], [(id, Health::Invalid(_))] if *id == second.id()));
    assert_eq!(client.worlds().len(), 3, "it was only looked at");
    // A client that starts asks nobody; an executor does.
    stage.client("other");
    assert_eq!(client.worlds().len(), 4);
    stage.executor("third");
    let names: Vec<String> = client.worlds().into_iter().map(|world| world.name).collect();
    assert_eq!(names, ["first", "client", "third"], "«other» was dropped, and answers no more");
    let gone = stage.passing(client.ping(second.id())).unwrap_err();
    assert!(matches!(gone, ConnectError::Unknown { .. }), "{gone}");
}

// D-324, D-325
#[test]
fn a_world_says_what_it_is() {
    let stage = Stage::over(MemoryStore::new());
    let (world, _) = stage.executor_with("one", |_| {}, |builder| builder.meta("rack", "7"));
    let view = &world.worlds()[0];
    assert_eq!((view.name.as_str(), view.id), ("one", world.id()));
    assert_eq!(view.meta.process, std::process::id());
    assert_eq!(view.meta.actions, ["piece", "play"]);
    assert_eq!(
        view.meta.queues,
        world.queues().iter().map(|q| (q.name.clone(), q.size)).collect::<Vec<_>>()
    );
    assert_eq!(view.meta.given, [("rack".to_owned(), "7".to_owned())]);
}

#[test]
fn look_at_a_plan_whose_world_does_not_answer_is_read_from_the_store_in_a_few_seconds() {
    over_both(|stage| {
        let (first, on_first) = stage.executor("first");
        suspends(&on_first, "a");
        let plan = stage.perform(&first, "a");
        stage.view(&plan);
        let (second, _) = stage.executor("second");
        stage.net.cut(&first);
        let before = stage.sim.wall();
        let view = stage.view(&second.plan(plan.id()));
        assert_eq!(view.state, PlanState::Running);
        let waited = stage.sim.wall().duration_since(before).expect("time goes on");
        assert!(waited < Duration::from_secs(5), "{waited:?}");
    });
}
