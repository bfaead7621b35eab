//! Worlds that share a store: who runs what, and who is told.

use std::sync::{Arc, OnceLock};

use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, ConnectError, MemoryStore, Next, PlanId, PlanResult, PlanState, RunAsync,
    RunsAsync, StepContext, Store, TriggerError, TriggerOptions, World, WorldKind,
};
use turnwheel_sqlite::SqliteStore;

use crate::common::worlds::Stage;
use crate::common::{step_of, Piece};

/// Runs a test over both stores.
fn over_both(test: impl Fn(Stage)) {
    test(Stage::over(MemoryStore::new()));
    let folder = tempfile::tempdir().expect("a folder");
    let store: Box<dyn Store> = Box::new(SqliteStore::new(folder.path().join("plans.db")));
    test(Stage::over(std::sync::Arc::<dyn Store>::from(store)));
}

// S-23
#[test]
fn a_client_triggers_what_executors_run() {
    over_both(|stage| {
        let (first, on_first) = stage.executor("first");
        let (second, on_second) = stage.executor("second");
        let client = stage.client("client");
        let plans: Vec<_> = (0..4).map(|_| stage.perform(&client, "a b|c")).collect();
        for plan in &plans {
            let view = stage.finished(plan);
            assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
        }
        // They take turns, and each runs what it has begun.
        assert_eq!(on_first.said().len(), 12, "two plans of three parts, which run and finalize");
        assert_eq!(on_second.said().len(), 12);
        let owners: Vec<_> = plans.iter().map(|plan| client.owner_of(plan.id())).collect();
        for world in [&first, &second] {
            assert_eq!(owners.iter().filter(|owner| **owner == Some(world.id())).count(), 2);
        }
        let kinds: Vec<_> = client.worlds().iter().map(|world| world.kind).collect();
        assert_eq!(kinds, [WorldKind::Executor, WorldKind::Executor, WorldKind::Client]);
    });
}

// D-104, D-105
#[test]
fn events_and_orders_reach_a_plan_wherever_it_is() {
    over_both(|stage| {
        let (first, script) = stage.executor("first");
        let (second, _) = stage.executor("second");
        let client = stage.client("client");
        script.on("a", |step| match step.event::<String>()? {
            None => Ok(Next::Suspend("an event".to_owned())),
            Some(text) => {
                step.output = text.into();
                Ok(Next::Done)
            }
        });
        let of_first = stage.perform(&first, "a");
        let view = stage.view(&client.plan(of_first.id()));
        assert_eq!(view.state, PlanState::Running);
        let a = step_of(&view, "a");
        stage.passing(client.event(of_first.id(), a, Some("1"), &"hello")).unwrap().unwrap();
        let view = stage.finished(&second.plan(of_first.id()));
        assert_eq!(view.action(view.step(a).action).output.as_str(), "\"hello\"");
        // One for a step that takes none is refused, with the same words as at home.
        let late = stage.passing(client.event(of_first.id(), a, None, &"late")).unwrap();
        let home = stage.passing(first.event(of_first.id(), a, None, &"late")).unwrap();
        assert_eq!(late.unwrap_err().to_string(), home.unwrap_err().to_string());

        let waits = stage.perform(&second, "b");
        stage.finished(&waits);
        let halted = stage.passing(client.plan(waits.id()).halt("eva")).unwrap();
        assert!(halted.unwrap_err().to_string().contains("is stopped"));
    });
}

// D-114
#[test]
fn without_an_executor_a_trigger_is_refused_and_plans_are_seen_as_they_are_stored() {
    let stage = Stage::over(MemoryStore::new());
    let client = stage.client("client");
    let refused = stage.passing(client.trigger::<Piece>("a".to_owned())).unwrap_err();
    assert!(
        matches!(&refused, TriggerError::Connect(ConnectError::NoExecutor { what }) if what.contains("piece")),
        "{refused}"
    );
    let (executor, script) = stage.executor("executor");
    script.on("a", |_| Ok(Next::Suspend("for ever".to_owned())));
    let plan = stage.perform(&client, "a");
    stage.view(&plan);
    assert!(stage.invalidate(&client, &executor));
    assert_eq!(client.owner_of(plan.id()), None, "it waits for an executor");
    let view = stage.view(&plan);
    assert_eq!(view.state, PlanState::Running);
    let refused = stage.passing(plan.halt("eva")).unwrap().unwrap_err();
    assert!(refused.to_string().contains("no executor is available"), "{refused}");
    let refused = stage.passing(client.trigger::<Piece>("a".to_owned())).unwrap_err();
    assert!(matches!(refused, TriggerError::Connect(ConnectError::NoExecutor { .. })));
}

#[test]
fn a_chosen_id_and_a_key_are_taken_once_whoever_triggers() {
    over_both(|stage| {
        let (first, _) = stage.executor("first");
        let (second, _) = stage.executor("second");
        let client = stage.client("client");
        let id = "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f".parse().unwrap();
        let options = || TriggerOptions::new().id(id).by("eva").priority(3);
        let plan = client.trigger_with::<Piece>(options(), "a".to_owned());
        let plan = stage.passing(plan).unwrap();
        let view = stage.finished(&plan);
        assert_eq!((view.id, &view.created.by[..], view.created.priority), (id, "eva", 3));
        for world in [&first, &second, &client] {
            let again = world.trigger_with::<Piece>(options(), "a".to_owned());
            let again = stage.passing(again).unwrap_err();
            assert!(matches!(again, TriggerError::Exists(exists) if exists == id), "{again}");
        }
        let keyed = |world: &turnwheel_engine::World| {
            stage.passing(world.trigger_once::<Piece>("order 7", "a".to_owned())).unwrap().id()
        };
        let plans = [keyed(&client), keyed(&first), keyed(&second), keyed(&client)];
        assert!(plans.iter().all(|plan| *plan == plans[0]));
    });
}

#[test]
fn an_action_that_nobody_runs_is_refused() {
    let stage = Stage::over(MemoryStore::new());
    let (executor, _) = stage.executor("executor");
    let client = stage.client("client");
    let unknown = stage.passing(client.trigger::<Unknown>(())).unwrap_err();
    assert!(matches!(unknown, TriggerError::Connect(ConnectError::NoExecutor { .. })));
    let unknown = stage.passing(executor.trigger::<Unknown>(())).unwrap_err();
    assert!(matches!(unknown, TriggerError::UnknownAction(name) if name == "unknown"));
}

/// Triggers a piece from inside its code, and is told of its end.
struct Asks(Arc<OnceLock<World>>);

impl Action for Asks {
    const NAME: &'static str = "asks";
    type Input = ();
    type Output = String;
    type Phases = RunsAsync;
}

impl RunAsync for Asks {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let world = self.0.get().expect("it is set before anything is triggered");
        let problem = |error: String| ActionError::new("asked", error);
        let plan = world.trigger::<Piece>("a b".to_owned()).await;
        let plan = plan.map_err(|error| problem(error.to_string()))?;
        let view = plan.finished().await.map_err(|error| problem(error.to_string()))?;
        step.output = format!("{:?}", view.result());
        Ok(Next::Done)
    }
}

// D-106
#[test]
fn code_of_an_executor_triggers_elsewhere_and_is_told() {
    over_both(|stage| {
        let (players, script) = stage.executor("players");
        let myself = Arc::new(OnceLock::new());
        let builder = World::builder().name("asks").action(Asks(Arc::clone(&myself)));
        let asks = stage.join("asks", builder);
        myself.set(asks.clone()).expect("it is set once");
        let plan = stage.passing(asks.trigger::<Asks>(())).unwrap();
        let view = stage.finished(&plan);
        assert_eq!(view.output::<Asks>().unwrap(), "Success");
        assert_eq!(script.said(), ["a", "b", "finalize a", "finalize b"]);
        let owner = |plan: PlanId| asks.owner_of(plan);
        assert_eq!(owner(plan.id()), Some(asks.id()));
        let pieces = stage.passing(asks.list(Filter::default())).unwrap();
        let pieces: Vec<_> = pieces.iter().filter(|row| &*row.label == "piece").collect();
        assert_eq!(pieces.len(), 1);
        assert_eq!(owner(pieces[0].id), Some(players.id()));
    });
}

struct Unknown;

impl Action for Unknown {
    const NAME: &'static str = "unknown";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, _: &mut turnwheel_engine::Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        Ok(())
    }
}
