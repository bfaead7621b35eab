//! Plans that come after other plans, whose actors are long gone from memory when they end.

use std::time::Duration;

use turnwheel_engine::store::Filter;
use turnwheel_engine::{Delay, MemoryStore, Next, PlanHandle, PlanState, Store};
use turnwheel_sqlite::SqliteStore;

use crate::common::worlds::Stage;
use crate::common::{part, step_of, Play, Script, Theatre};

/// Longer than a plan that waits stays in memory.
const LONG: Duration = Duration::from_secs(60);

fn suspends(script: &Script, who: &str) {
    script.on(who, |step| Ok(if step.has_event() { Next::Done } else { Next::suspend("a word") }));
}

fn delayed(theatre: &Theatre, delay: Delay, who: &str) -> PlanHandle {
    let triggering = theatre.world.delay::<Play>(delay, part(who));
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

fn tell(theatre: &Theatre, plan: &PlanHandle, who: &str) {
    let step = step_of(&theatre.settle(plan), who);
    theatre.done(theatre.world.event(plan.id(), step, None, &1)).expect("it is taken");
}

#[test]
fn a_chained_plan_starts_when_its_prerequisite_has_been_out_of_memory() {
    let theatre = Theatre::new();
    suspends(&theatre.script, "a");
    let first = theatre.perform("a");
    let step = step_of(&theatre.settle(&first), "a");
    let chained = delayed(&theatre, Delay::after([first.id()]), "b");
    theatre.sim.run_until_idle();
    // Both leave memory; nobody looks at them from here on.
    theatre.sim.advance(LONG);
    theatre.done(theatre.world.event(first.id(), step, None, &1)).expect("it is taken");
    theatre.sim.run_until_idle();
    assert_eq!(theatre.script.said(), ["a", "a", "finalize a", "b", "finalize b"]);
    assert_eq!(theatre.settle(&chained).state, PlanState::Stopped);
}

#[test]
fn a_chained_plan_starts_after_a_crash_and_the_same_pause() {
    let theatre = Theatre::new();
    suspends(&theatre.script, "a");
    let first = theatre.perform("a");
    theatre.settle(&first);
    let chained = delayed(&theatre, Delay::after([first.id()]), "b").id();
    theatre.sim.run_until_idle();
    let first = first.id();
    let theatre = theatre.crash_at(LONG);
    suspends(&theatre.script, "a");
    theatre.sim.run_until_idle();
    theatre.sim.advance(LONG);
    tell(&theatre, &theatre.world.plan(first), "a");
    theatre.sim.run_until_idle();
    theatre.script.said();
    assert_eq!(theatre.settle(&theatre.world.plan(chained)).state, PlanState::Stopped);
}

#[test]
fn a_prerequisite_that_is_cancelled_long_after_also_tells_its_followers() {
    let theatre = Theatre::new();
    suspends(&theatre.script, "a");
    let first = theatre.perform("a");
    theatre.settle(&first);
    let chained = delayed(&theatre, Delay::after([first.id()]), "b");
    theatre.sim.run_until_idle();
    theatre.sim.advance(LONG);
    theatre.done(first.cancel("ann")).expect("it is cancelled");
    theatre.sim.run_until_idle();
    let rows = theatre.sim.block_on(theatre.world.list(Filter::default()));
    let rows = rows.expect("it ends").expect("it answers");
    let row = rows.into_iter().find(|row| row.id == chained.id());
    assert_eq!(row.map(|row| row.state), Some(PlanState::Stopped), "without being looked at");
}

#[test]
fn a_chained_plan_starts_also_when_the_prerequisite_has_moved_to_another_world() {
    over_both(|stage| {
        let (first, on_first) = stage.executor("first");
        suspends(&on_first, "a");
        let plan = stage.perform(&first, "a");
        let step = step_of(&stage.view(&plan), "a");
        let chained = first.delay::<Play>(Delay::after([plan.id()]), part("b"));
        let chained = stage.passing(chained).expect("the plan is taken").id();
        let (second, on_second) = stage.executor("second");
        suspends(&on_second, "a");
        assert!(stage.invalidate(&second, &first));
        stage.sim.run_until_idle();
        stage.sim.advance(LONG);
        stage.passing(second.event(plan.id(), step, None, &1)).unwrap().expect("it is taken");
        stage.sim.run_until_idle();
        stage.sim.advance(LONG);
        assert!(on_second.said().contains(&"b".to_owned()));
        assert_eq!(stage.finished(&second.plan(chained)).state, PlanState::Stopped);
    });
}

fn over_both(test: impl Fn(Stage)) {
    test(Stage::over(MemoryStore::new()));
    let folder = tempfile::tempdir().expect("a folder");
    let store: Box<dyn Store> = Box::new(SqliteStore::new(folder.path().join("plans.db")));
    test(Stage::over(std::sync::Arc::<dyn Store>::from(store)));
}
