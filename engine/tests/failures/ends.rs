//! Ends that are not failures: a clean shutdown, and what it leaves to the next world.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};

use turnwheel_engine::internal::key_of_cause;
use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, MemoryStore, Next, OnInterrupt, PlanResult, PlanState, Planner, Run, Runs,
    StepContext, TriggerOptions, World,
};
use turnwheel_sqlite::{SqliteStore, SqliteSync};

/// Two steps, of which the first does not end before it may. Nobody may interrupt one.
#[derive(Clone)]
struct Careful {
    begun: Sender<()>,
    may_end: Arc<Mutex<Receiver<()>>>,
}

impl Action for Careful {
    const NAME: &'static str = "careful";
    type Input = u32;
    type Output = u32;
    type Phases = Runs;

    fn plan(&self, planner: &mut Planner<'_, Self>, steps: u32) -> Result<(), ActionError> {
        match steps {
            0 => planner.plan_self(0).map(|_| ()),
            _ => planner.sequence(|planner| {
                planner.plan_self(1)?;
                (1..steps).try_for_each(|_| planner.plan_action::<Self>(0).map(|_| ()))
            }),
        }
    }

    fn on_interrupt(&self) -> OnInterrupt {
        OnInterrupt::Pause
    }
}

impl Run for Careful {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output += 1;
        if step.input == 1 {
            let _nobody_counts = self.begun.send(());
            let _ended = self.may_end.lock().expect("nothing panics under it").recv();
        }
        Ok(Next::Done)
    }
}

#[test]
fn a_clean_shutdown_interrupts_no_step() {
    let folder = tempfile::tempdir().unwrap();
    let ((begun, begins), (end, may_end)) = (channel(), channel());
    let careful = Careful { begun, may_end: Arc::new(Mutex::new(may_end)) };
    let open = || {
        let store = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
        World::builder().action(careful.clone()).build(store).unwrap()
    };
    let world = open();
    let plans: Vec<_> =
        (0..20).map(|_| world.trigger::<Careful>(3).wait().expect("it is taken").id()).collect();
    plans.iter().for_each(|_| begins.recv().expect("it begins"));
    let ending = world.clone();
    let ends = std::thread::spawn(move || ending.shutdown());
    // The first steps end when the world takes nothing new any more.
    while world.trigger::<Careful>(0).wait().is_ok() {
        std::thread::yield_now();
    }
    plans.iter().for_each(|_| end.send(()).expect("somebody waits"));
    ends.join().expect("no panic").expect("it ends in time");
    drop(world);
    let world = open();
    for plan in plans {
        let view = world.plan(plan).finished().wait().unwrap();
        assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
        assert!(view.steps.iter().all(|step| step.attempt <= 1), "each was called once");
        assert!(view
            .actions
            .iter()
            .all(|action| action.run_step.is_none() || action.output.as_str() == "1"));
    }
    world.shutdown().unwrap();
}

/// Has another plan begin when it may, by the key of its cause.
struct Causes {
    begun: Sender<()>,
    may_go_on: Mutex<Receiver<World>>,
}

impl Action for Causes {
    const NAME: &'static str = "causes";
    type Input = ();
    type Output = ();
    type Phases = Runs;
}

impl Run for Causes {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let _nobody_counts = self.begun.send(());
        let world = self.may_go_on.lock().expect("nothing panics under it").recv();
        let Ok(world) = world else { return Ok(Next::Done) };
        let options = key_of_cause(TriggerOptions::new(), "its cause");
        world
            .trigger_with::<Careful>(options, 0)
            .wait()
            .map_err(|error| ActionError::new("trigger", error.to_string()))?;
        Ok(Next::Done)
    }
}

#[test]
fn a_plan_that_a_step_causes_while_the_world_ends_runs_after_the_next_start() {
    let store = MemoryStore::new();
    let ((begun, begins), (go, may_go_on)) = (channel(), channel());
    let (careful, (_end, may_end)) = (channel(), channel());
    let careful = Careful { begun: careful.0, may_end: Arc::new(Mutex::new(may_end)) };
    let causes = Causes { begun, may_go_on: Mutex::new(may_go_on) };
    let world =
        World::builder().action(careful.clone()).action(causes).build(store.clone()).unwrap();
    let cause = world.trigger::<Causes>(()).wait().expect("it is taken").id();
    begins.recv().expect("it begins");
    let ending = world.clone();
    let ends = std::thread::spawn(move || ending.shutdown());
    while world.trigger::<Careful>(0).wait().is_ok() {
        std::thread::yield_now();
    }
    go.send(world).expect("it waits");
    ends.join().expect("no panic").expect("it ends in time");

    let (begun, _begins) = channel();
    let (_go, may_go_on) = channel();
    let causes = Causes { begun, may_go_on: Mutex::new(may_go_on) };
    let world = World::builder().action(careful).action(causes).build(store).unwrap();
    let filter = Filter { key: Some("its cause".to_owned()), limit: 2, ..Filter::default() };
    let caused = world.list(filter).wait().expect("they are read");
    let [caused] = &caused[..] else { panic!("one plan is caused: {caused:?}") };
    for plan in [cause, caused.id] {
        let view = world.plan(plan).finished().wait().unwrap();
        assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    }
    world.shutdown().unwrap();
}
