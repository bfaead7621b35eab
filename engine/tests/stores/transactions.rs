//! Planning and finalizing inside of transactions of the host's own database.

use std::sync::{Arc, Mutex};

use turnwheel_engine::{
    Action, ActionError, Finalize, Finalizes, Next, PlanResult, PlanState, Planner, Run, Runs,
    StepContext, TransactionAdapter, TriggerError,
};

use crate::common::{error, part, Play, Theatre};

/// A database: rows, and those of the transactions that are open, the innermost last.
#[derive(Clone, Default)]
struct Database(Arc<Mutex<Vec<Vec<String>>>>);

impl Database {
    fn write(&self, row: impl Into<String>) {
        let mut levels = self.0.lock().expect("no panic while it is locked");
        levels.last_mut().expect("a transaction is open").push(row.into());
    }

    fn rows(&self) -> Vec<String> {
        let levels = self.0.lock().expect("no panic while it is locked");
        assert!(levels.len() <= 1, "no transaction is left open");
        levels.first().cloned().unwrap_or_default()
    }
}

impl TransactionAdapter for Database {
    fn transaction(
        &self,
        work: &mut dyn FnMut() -> Result<(), ActionError>,
    ) -> Result<(), ActionError> {
        {
            let mut levels = self.0.lock().expect("no panic while it is locked");
            if levels.is_empty() {
                levels.push(Vec::new());
            }
            levels.push(Vec::new());
        }
        let result = work();
        let mut levels = self.0.lock().expect("no panic while it is locked");
        let written = levels.pop().expect("it was opened above");
        if written.iter().any(|row| row == "conflict") {
            return Err(error("conflict"));
        }
        if result.is_ok() {
            levels.last_mut().expect("the rows are there").extend(written);
        }
        result
    }
}

/// Creates a user: a row in its planning, a second one in the end. The input says what goes wrong.
struct CreateUser(Database);

impl Action for CreateUser {
    const NAME: &'static str = "create-user";
    type Input = String;
    type Output = ();
    type Phases = (Runs, Finalizes);

    fn plan(&self, planner: &mut Planner<'_, Self>, name: String) -> Result<(), ActionError> {
        // One of its own inside, as some hosts do.
        self.0.transaction(&mut || {
            self.0.write(format!("{name} incomplete"));
            Ok(())
        })?;
        planner.plan_self(name.clone())?;
        if name == "wrong" {
            return Err(error("22"));
        }
        planner.plan_action::<Play>(part("ann"))?;
        Ok(())
    }
}

impl Run for CreateUser {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let fails = step.input == "slow" && step.attempt() == 1;
        if fails {
            Err(error("service"))
        } else {
            Ok(Next::Done)
        }
    }
}

impl Finalize for CreateUser {
    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        let row =
            if step.input == "commit" && step.attempt() == 1 { "conflict" } else { "complete" };
        self.0.write(row);
        Ok(())
    }
}

fn theatre(database: &Database) -> Theatre {
    let (own, adapter) = (database.clone(), database.clone());
    Theatre::with(|_| {}, |builder| builder.action(CreateUser(own)).transactions(adapter))
}

// S-13, F-200, F-201
#[test]
fn a_planning_that_fails_is_rolled_back_and_its_plan_is_kept() {
    let database = Database::default();
    let theatre = theatre(&database);
    let refused = theatre.world.trigger::<CreateUser>("wrong".to_owned());
    let refused = theatre.sim.block_on(refused).unwrap().unwrap_err();
    let TriggerError::Planning { plan, error } = refused else { panic!("{refused}") };
    assert_eq!(error.kind, "22");
    assert_eq!(database.rows(), [""; 0]);
    let view = theatre.sim.block_on(theatre.world.plan(plan).view()).unwrap().unwrap();
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
    assert_eq!(theatre.script.said(), [""; 0]);
}

// S-12, F-200
#[test]
fn a_record_is_incomplete_until_the_plan_ends_and_complete_after_that() {
    let database = Database::default();
    let theatre = theatre(&database);
    let plan = theatre.sim.block_on(theatre.world.trigger::<CreateUser>("slow".to_owned()));
    let plan = plan.unwrap().unwrap();
    assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
    assert_eq!(database.rows(), ["slow incomplete"]);
    theatre.done(plan.resume("Bea")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success, "{:?}", view.errors());
    assert_eq!(database.rows(), ["slow incomplete", "complete"]);
    assert_eq!(theatre.script.said(), ["ann", "finalize ann"]);
}

// S-12, F-200
#[test]
fn a_finalize_phase_that_fails_is_rolled_back_and_repeated_as_a_whole() {
    let database = Database::default();
    let theatre = theatre(&database);
    let mut calls = 0;
    theatre.script.on("finalize ann", move |_| {
        calls += 1;
        match calls {
            1 => Err(error("pause")),
            2 => panic!("in the middle"),
            _ => Ok(Next::Done),
        }
    });
    let plan = theatre.sim.block_on(theatre.world.trigger::<CreateUser>("user".to_owned()));
    let plan = plan.unwrap().unwrap();
    for kind in ["pause", "panic"] {
        let view = theatre.finished(&plan);
        assert_eq!(view.state, PlanState::Paused);
        assert_eq!(view.errors()[0].kind, kind);
        assert_eq!(database.rows(), ["user incomplete"]);
        theatre.done(plan.resume("Bea")).unwrap();
        theatre.sim.run_until_idle();
    }
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success, "{:?}", view.errors());
    assert_eq!(database.rows(), ["user incomplete", "complete"]);
}

#[test]
fn a_finalize_step_that_is_left_out_does_not_take_the_work_of_others_with_it() {
    let database = Database::default();
    let theatre = theatre(&database);
    theatre.script.on("finalize ann", |_| Err(error("skip")));
    let plan = theatre.sim.block_on(theatre.world.trigger::<CreateUser>("user".to_owned()));
    let plan = plan.unwrap().unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Warning, "{:?}", view.errors());
    assert_eq!(database.rows(), ["user incomplete", "complete"]);
}

// S-12
#[test]
fn a_crash_in_the_finalize_phase_repeats_it_as_a_whole() {
    let database = Database::default();
    let theatre = theatre(&database);
    let plan = theatre.sim.block_on(theatre.world.trigger::<CreateUser>("user".to_owned()));
    let plan = plan.unwrap().unwrap();
    let started = |theatre: &Theatre| {
        let view = theatre.sim.block_on(plan.view()).unwrap().unwrap();
        let is_running = |step: &turnwheel_engine::plan::Step| {
            step.kind == turnwheel_engine::StepKind::Finalize
                && step.state == turnwheel_engine::StepState::Running
        };
        view.steps.iter().filter(|step| is_running(step)).count()
    };
    // Each view lets the world go on a little.
    assert!((0..1_000).any(|_| started(&theatre) == 2), "the phase begins");
    let own = database.clone();
    let adapter = database.clone();
    let theatre =
        theatre.crash_with(|_| {}, |builder| builder.action(CreateUser(own)).transactions(adapter));
    let view = theatre.finished(&theatre.world.plan(plan.id()));
    assert_eq!(view.result(), PlanResult::Success, "{:?}", view.errors());
    assert_eq!(database.rows().last().map(String::as_str), Some("complete"));
}

#[test]
fn a_commit_that_fails_fails_the_phase() {
    let database = Database::default();
    let theatre = theatre(&database);
    let plan = theatre.sim.block_on(theatre.world.trigger::<CreateUser>("commit".to_owned()));
    let plan = plan.unwrap().unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.errors()[0].kind.as_str()), (PlanState::Paused, "conflict"));
    theatre.done(plan.resume("Bea")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success, "{:?}", view.errors());
    assert_eq!(database.rows(), ["commit incomplete", "complete"]);
}
