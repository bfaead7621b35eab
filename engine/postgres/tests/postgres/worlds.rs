//! Worlds over PostgreSQL.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    output, Action, ActionError, BuildError, Input, Next, PlanResult, PlanView, Planner, RunAsync,
    RunsAsync, StepContext, Store, StoreError, World,
};

use crate::server::{sql, store, store_of, url};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) sum: u64,
}

/// How often each step has run, by its key; in a file too if several processes run them.
#[derive(Clone, Default)]
pub(crate) struct Runs(pub(crate) Arc<Mutex<HashMap<String, u32>>>, pub(crate) Option<PathBuf>);

impl Runs {
    /// Each step has run once.
    pub(crate) fn check(&self, steps: usize) {
        let runs = self.0.lock().expect("no panic while it is locked");
        assert_eq!(runs.len(), steps);
        assert!(runs.values().all(|count| *count == 1), "{runs:?}");
    }
}

pub(crate) struct Add(pub(crate) Runs);

impl Action for Add {
    const NAME: &'static str = "add";
    type Input = Vec<Input<u64>>;
    type Output = Sum;
    type Phases = RunsAsync;
}

impl RunAsync for Add {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let mut runs = self.0 .0.lock().expect("no panic while it is locked");
        let key = step.idempotency_key().to_string();
        if let Some(file) = &self.0 .1 {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
            file?.write_all(format!("{key}\n").as_bytes())?;
        }
        *runs.entry(key).or_default() += 1;
        for number in &step.input {
            step.output.sum += number.get()?;
        }
        Ok(Next::Done)
    }
}

/// Ten sums, one after the other.
pub(crate) struct Chain;

impl Action for Chain {
    const NAME: &'static str = "chain";
    type Input = u64;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, number: u64) -> Result<(), ActionError> {
        let mut last = planner.plan_action::<Add>(vec![number.into(), 1.into()])?;
        for _ in 1..10 {
            last =
                planner.plan_action::<Add>(vec![Input::from(output!(last => sum)?), 1.into()])?;
        }
        Ok(())
    }
}

pub(crate) fn world(store: impl Store, runs: &Runs) -> World {
    let builder = World::builder().action(Add(runs.clone())).action(Chain);
    builder.build(store).expect("the world begins")
}

pub(crate) fn check(view: &PlanView, number: u64) {
    assert_eq!(view.result(), PlanResult::Success, "{view:?}");
    let adds = view.actions.iter().filter(|action| action.name == "add");
    let sums: Vec<u64> = adds.map(|add| add.output.read::<Sum>().expect("a sum").sum).collect();
    assert_eq!(sums, (number + 1..=number + 10).collect::<Vec<_>>());
}

/// No plan has two entries after the same one.
pub(crate) fn check_chains(url: &str) {
    let schema = url.rsplit('=').next().expect("it is the last setting");
    let twice = format!(
        "SELECT plan FROM {schema}.journal GROUP BY plan, prev HAVING count(*) > 1 LIMIT 1"
    );
    assert_eq!(sql(url, &twice), [] as [&str; 0]);
}

#[test]
fn plans_run_and_are_read_by_another_world() {
    let url = url();
    let runs = Runs::default();
    let first = world(store_of(&url), &runs);
    let plans: Vec<_> =
        (0..20).map(|number| first.trigger::<Chain>(number).wait().expect("it is taken")).collect();
    for (number, plan) in (0..).zip(&plans) {
        check(&plan.finished().wait().expect("it ends"), number);
    }
    runs.check(200);
    first.shutdown().expect("it ends");
    check_chains(&url);

    let mut view = store_of(&url).view().expect("it can be looked at");
    assert_eq!(view.counts().expect("it counts").total(), 20);
    let second = world(store_of(&url), &Runs::default());
    for (number, plan) in (0..).zip(&plans) {
        check(&second.plan(plan.id()).finished().wait().expect("it is there"), number);
    }
    second.shutdown().expect("it ends");
}

#[test]
fn world_keeps_the_promises_of_states_and_reminders() {
    let world = World::builder().build(store()).expect("the world begins");
    turnwheel_actors_testkit::check_state_store(&*world.states());
    turnwheel_actors_testkit::check_reminder_store(&*world.reminders());
    world.shutdown().expect("it ends");
}

#[test]
fn world_can_be_built_inside_of_a_tokio_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let world = world(store(), &Runs::default());
        let plan = world.trigger::<Chain>(7).await.expect("it is taken");
        check(&plan.finished().await.expect("it ends"), 7);
        world.shutdown().expect("it ends");
    });
}

#[test]
fn store_of_a_running_process_is_not_taken_and_one_that_was_given_back_is() {
    let url = url();
    let first = store_of(&url);
    let running = world(first.clone(), &Runs::default());
    first.announce("http://127.0.0.1:7070").expect("it is open");
    let second = store_of(&url);
    let Err(BuildError::Store(StoreError::InUse { holder, .. })) =
        World::builder().build(second.clone())
    else {
        panic!("two processes have it");
    };
    let own = format!("process {} on ", std::process::id());
    assert!(
        holder.starts_with(&own) && holder.ends_with("serving http://127.0.0.1:7070"),
        "{holder}"
    );
    assert_eq!(second.holder().expect("it answers"), Some(holder));
    running.shutdown().expect("it ends");
    assert_eq!(second.holder().expect("it answers"), None);
    world(second, &Runs::default()).shutdown().expect("it ends");
}
