//! Due times of plans outside memory: a few are in memory, later ones are read before they come.

use std::time::Duration;

use turnwheel_engine::internal::{wakes_in_memory, with_wakes_kept};
use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    action, ActionError, MemoryStore, Next, PlanState, StepContext, StoreError, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

const MINUTE: Duration = Duration::from_secs(60);
const PLANS: usize = 40;
const KEPT: usize = 4;

/// Waits for so many minutes.
#[action]
async fn nap(minutes: u64, step: &mut StepContext<Nap>) -> Result<Next, ActionError> {
    if step.has_event() {
        return Ok(Next::Done);
    }
    step.event_after(MINUTE * u32::try_from(minutes).expect("it is a small number"), &())?;
    Ok(Next::suspend("the time"))
}

struct Stage {
    sim: Sim,
    store: FaultStore,
    world: World,
}

impl Stage {
    fn new() -> Self {
        Self::over(Sim::new(3), FaultStore::new(MemoryStore::new()))
    }

    fn over(sim: Sim, store: FaultStore) -> Self {
        let builder = with_wakes_kept(World::builder().action(Nap).seed(3), KEPT);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store.clone()));
        let world = world.expect("it ends").expect("the world begins");
        Self { sim, store, world }
    }

    /// The world ends without a farewell, and another one begins.
    fn crash(self) -> Self {
        let Self { sim, store, world } = self;
        let wall = sim.wall();
        drop((world, sim));
        Self::over(Sim::builder().seed(4).wall(wall).build(), store)
    }

    fn trigger(&self, minutes: usize) {
        let plan = self.sim.block_on(self.world.trigger::<Nap>(minutes as u64)).expect("it ends");
        plan.expect("the plan is taken");
    }

    /// One plan for each minute from 5 on, in a mixed order, and time for them to leave memory.
    fn plans(&self) {
        (0..PLANS).for_each(|number| self.trigger(5 + number * 7 % PLANS));
        self.sim.advance(Duration::from_secs(30));
    }

    fn in_memory(&self) -> usize {
        self.sim.wait(wakes_in_memory(&self.world)).expect("it answers")
    }

    /// Number of plans that are over, by their rows: no plan is read, which would wake it.
    fn ended(&self) -> usize {
        let states = vec![PlanState::Stopped];
        let filter = Filter { states, limit: usize::MAX, ..Filter::default() };
        self.sim.block_on(self.world.list(filter)).expect("it ends").expect("it is read").len()
    }

    /// Each plan is over in the minute after its time, and not before.
    fn all_end_in_time(&self, from: usize) {
        for minute in from..=4 + PLANS {
            assert_eq!(self.ended(), minute.saturating_sub(4).min(PLANS), "in minute {minute}");
            self.sim.advance(MINUTE);
        }
        assert_eq!(self.ended(), PLANS);
    }
}

#[test]
fn later_times_are_left_to_the_store_and_read_before_they_come() {
    let stage = Stage::new();
    stage.plans();
    assert!(stage.in_memory() <= 2 * KEPT, "{} times are in memory", stage.in_memory());
    stage.all_end_in_time(0);
}

#[test]
fn world_that_begins_reads_the_earliest_times_and_finds_the_others_later() {
    let stage = Stage::new();
    stage.plans();
    let stage = stage.crash();
    stage.sim.run_until_idle();
    assert!(stage.in_memory() <= 2 * KEPT, "{} times are in memory", stage.in_memory());
    stage.all_end_in_time(0);
}

#[test]
fn times_that_cannot_be_read_are_read_when_the_store_is_back() {
    let stage = Stage::new();
    stage.plans();
    stage.store.fail_reads(StoreError::Failed("no disk".to_owned()));
    stage.sim.advance(20 * MINUTE);
    stage.store.heal();
    stage.sim.advance(Duration::from_secs(10));
    stage.all_end_in_time(20);
}

#[test]
fn many_plans_of_one_moment_are_all_woken() {
    let stage = Stage::new();
    (0..10 * KEPT).for_each(|_| stage.trigger(9));
    stage.sim.advance(8 * MINUTE);
    assert_eq!(stage.ended(), 0);
    stage.sim.advance(2 * MINUTE);
    assert_eq!(stage.ended(), 10 * KEPT);
}
