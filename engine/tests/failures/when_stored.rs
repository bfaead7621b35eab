//! Work that a call leaves for when its end is durable, such as the acknowledgement of a message.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::{
    internal, Action, ActionError, MemoryStore, Next, PlanResult, RunAsync, RunsAsync, StepContext,
    StoreError, World,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Completion;
use turnwheel_testkit::FaultStore;

type Said = Arc<Mutex<Vec<&'static str>>>;

/// Says that its work was done, or dropped undone.
struct Work(Said, &'static str);

impl Work {
    fn done(mut self) {
        self.1 = "done";
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.lock().expect("nothing panics under it").push(self.1);
    }
}

/// Leaves work, and ends when it may.
struct Leaves {
    gate: Mutex<Option<Completion<()>>>,
    said: Said,
}

impl Action for Leaves {
    const NAME: &'static str = "leaves";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Leaves {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let gate = self.gate.lock().expect("nothing panics under it").take();
        let _opened = gate.expect("it is called once").await;
        let work = Work(Arc::clone(&self.said), "dropped");
        internal::when_stored(step, move || work.done());
        Ok(Next::Done)
    }
}

/// The fate of the work of a call that ends while the store does this.
fn said(prepare: impl Fn(&FaultStore)) -> Vec<&'static str> {
    let (store, said, sim) = (FaultStore::new(MemoryStore::new()), Said::default(), Sim::new(5));
    let (open, gate) = completion();
    let action = Leaves { gate: Mutex::new(Some(gate)), said: Arc::clone(&said) };
    let builder = World::builder().action(action).seed(5);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
    let plan = sim.block_on(world.trigger::<Leaves>(())).expect("it ends").expect("it is taken");
    sim.run_until_idle();
    prepare(&store);
    let _taken = open.complete(());
    sim.run_until_idle();
    sim.advance(Duration::from_secs(10));
    let before_it_heals = said.lock().expect("nothing panics under it").clone();
    store.heal();
    sim.advance(Duration::from_secs(60));
    let view = sim.block_on(plan.finished()).expect("it ends").expect("it is there");
    assert_eq!(view.result(), PlanResult::Success);
    let after = said.lock().expect("nothing panics under it").clone();
    assert_eq!(after, before_it_heals, "it is decided when the end of the call is told");
    after
}

fn broken() -> StoreError {
    StoreError::Failed("the disk is away".to_owned())
}

#[test]
fn work_for_a_stored_end_is_done_once_and_only_when_it_is_stored() {
    assert_eq!(said(|_| {}), ["done"]);
    let once = |store: &FaultStore| store.fail_at(store.commits() + 1, broken());
    assert_eq!(said(once), ["done"], "the entry is written at the second try");
    assert_eq!(said(|store| store.fail(broken())), ["dropped"], "nothing is stored for now");
}
