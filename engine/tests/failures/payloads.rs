//! Panics whose payloads, and values of calls whose destructors, panic as well.

use std::panic::panic_any;

use turnwheel_engine::{
    Action, ActionError, Next, PlanState, Run, RunAsync, Runs, RunsAsync, StepContext,
};

use crate::common::Theatre;

/// Panics when it is dropped, unless that is because of another panic.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic_any(Bomb);
        }
    }
}

/// Ends with a bomb on a worker.
struct OnWorker;

impl Action for OnWorker {
    const NAME: &'static str = "on-worker";
    type Input = bool;
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for OnWorker {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.input {
            // Its first poll does not end the call.
            let mut is_first = true;
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                match std::mem::take(&mut is_first) {
                    true => std::task::Poll::Pending,
                    false => std::task::Poll::Ready(()),
                }
            })
            .await;
        }
        panic_any(Bomb)
    }
}

/// Ends with a bomb on a thread of the pool.
struct OnPool;

impl Action for OnPool {
    const NAME: &'static str = "on-pool";
    type Input = ();
    type Output = ();
    type Phases = Runs;
}

impl Run for OnPool {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        panic_any(Bomb)
    }
}

#[test]
fn a_panic_whose_payload_panics_when_dropped_is_a_failure_of_its_step() {
    let theatre = Theatre::with(|_| {}, |world| world.action(OnWorker).action(OnPool));
    let mut plans = Vec::new();
    for waits in [false, true] {
        plans.push(theatre.sim.block_on(theatre.world.trigger::<OnWorker>(waits)));
    }
    plans.push(theatre.sim.block_on(theatre.world.trigger::<OnPool>(())));
    for plan in plans {
        let view = theatre.finished(&plan.expect("it ends").expect("it is taken"));
        assert_eq!(view.state, PlanState::Paused);
        assert_eq!(view.errors()[0].kind, "panic");
    }
}
