//! The members of the pools under test, and calls that the test holds and lets go.

use std::convert::Infallible;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::{
    Actor, AsyncContext, AsyncHandler, Context, Handler, Pool, PoolBuilder, System,
};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

pub(crate) const SEEDS: u64 = 20;
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Knows its number: the first one made has 1.
pub(crate) struct Worker {
    pub(crate) number: u64,
}

impl Actor for Worker {
    type Error = Infallible;
}

/// Answers with its number.
#[derive(Clone)]
pub(crate) struct Who;

impl Handler<Who> for Worker {
    type Reply = u64;

    fn handle(&mut self, _: Who, _: &mut Context<'_, Self>) -> u64 {
        self.number
    }
}

/// Answers with its number once the test completes it.
pub(crate) struct Block(pub(crate) Completion<()>);

impl AsyncHandler<Block> for Worker {
    type Reply = u64;

    async fn handle(&mut self, Block(go): Block, _: AsyncContext<Self>) -> u64 {
        go.await.expect("the test lets go");
        self.number
    }
}

pub(crate) fn workers(system: &System) -> (PoolBuilder<Worker>, Arc<AtomicU64>) {
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    let factory = move || Worker { number: count.fetch_add(1, Ordering::Relaxed) + 1 };
    (system.pool(factory).name("workers"), made)
}

pub(crate) type Held = (turnwheel_actors::Ask<Block, u64>, Completer<()>);

/// A call that a member holds until the test completes it.
pub(crate) fn block(pool: &Pool<Worker>) -> Held {
    let (go, waiting) = completion();
    (pool.ask_within(Block(waiting), 3600 * SECOND), go)
}

pub(crate) fn release(stage: &Stage<'_>, (ask, go): Held) -> u64 {
    go.complete(()).expect("nobody else completes it");
    stage.answer(ask)
}
