//! Actions that are measured: plans of steps that do nothing, and plans that fail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use turnwheel::engine::{
    Action, ActionError, Next, PlanId, Planner, RunAsync, RunsAsync, StepContext,
};

/// Locks for the times of the steps: more than workers.
const SHARDS: usize = 64;

/// When each plan's step was called last, and how long it was to the next.
#[derive(Debug)]
pub(super) struct Times(Vec<Mutex<Shard>>);

#[derive(Debug, Default)]
struct Shard {
    last: HashMap<PlanId, Instant>,
    us: Vec<f64>,
    is_taking: bool,
    steps: u64,
}

impl Times {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self((0..SHARDS).map(|_| Mutex::default()).collect()))
    }

    fn shard(&self, plan: PlanId) -> MutexGuard<'_, Shard> {
        let shard = &self.0[usize::from(plan.to_bytes()[15]) % SHARDS];
        shard.lock().expect("nothing panics under this lock")
    }

    fn called(&self, plan: PlanId) {
        let mut shard = self.shard(plan);
        let now = Instant::now();
        shard.steps += 1;
        let before = shard.last.insert(plan, now);
        if let (Some(before), true) = (before, shard.is_taking) {
            shard.us.push((now - before).as_secs_f64() * 1e6);
        }
    }

    pub(super) fn forget(&self, plan: PlanId) {
        self.shard(plan).last.remove(&plan);
    }

    /// Begins or ends to take times; the steps so far, and the times in microseconds.
    pub(super) fn take(&self, is_taking: bool) -> (u64, Vec<f64>) {
        let (mut steps, mut us) = (0, Vec::new());
        for shard in &self.0 {
            let mut shard = shard.lock().expect("nothing panics under this lock");
            shard.is_taking = is_taking;
            steps += shard.steps;
            us.append(&mut shard.us);
        }
        (steps, us)
    }
}

/// A step that gives back the number it was given.
pub(super) struct NoOp(pub(super) Arc<Times>);

#[derive(Serialize, Deserialize)]
pub(super) struct Number {
    number: u32,
}

impl Action for NoOp {
    const NAME: &'static str = "bench.no-op";
    type Input = Number;
    type Output = Option<u32>;
    type Phases = RunsAsync;
}

impl RunAsync for NoOp {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.called(step.plan_id());
        step.output = Some(step.input.number);
        Ok(Next::Done)
    }
}

/// So many such steps, one after the other.
pub(super) struct Chain;

impl Action for Chain {
    const NAME: &'static str = "bench.chain";
    type Input = u32;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, steps: u32) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            for number in 0..steps {
                planner.plan_action::<NoOp>(Number { number })?;
            }
            Ok(())
        })
    }
}

/// One such step, in a plan with a name of its own.
pub(super) struct Named;

impl Action for Named {
    const NAME: &'static str = "bench.named";
    type Input = u32;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, number: u32) -> Result<(), ActionError> {
        planner.label(format!("order {number}"));
        planner.plan_action::<NoOp>(Number { number })?;
        Ok(())
    }
}

/// Fails, so that its plan is paused.
pub(super) struct Fail;

impl Action for Fail {
    const NAME: &'static str = "bench.fail";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Fail {
    async fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Err(ActionError::new("refused", "the warehouse has refused the order").and_final())
    }
}
