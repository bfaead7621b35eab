//! Interface for the crates of this workspace that extend a world. It changes without notice:
//! programs use the rest of this crate.

mod alone;

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;
use turnwheel_runtime::{Completion, Failure};

use crate::action::{Action, StepContext};
use crate::connect::{Answer, AnswerKind, ConnectError, Request, RequestKind};
use crate::error::{PlanError, StoreError, TriggerError};
use crate::id::{PlanId, StepId};
use crate::payload::Payload;
use crate::plan::{Plan, Record};
use crate::store::{Seq, StoreReader, WorldKind};
use crate::time::Time;
use crate::world::{DeadLetters, Letters, Shared, TriggerOptions, Triggering, World, WorldBuilder};

pub use self::alone::{call_alone, has_phase, plan_alone, run_alone, Calling, Over, Phase};
pub use crate::action::panic_message;
pub use crate::action::transact::transact;
pub use crate::error::unanswered;
pub use crate::journal::{decode, decode_plan, encode_plan};
pub use crate::picture::{fault_text, task_place, EFFECT, FLOW, REQUEST, TASK};
pub use crate::run::{row, Delivered};
pub use crate::store::change::admit;
pub use crate::world::{Heard, Later, Plugin};

/// Entity type whose states are the dead letters of a store.
pub const LETTERS: &str = crate::store::LETTERS;

/// Key of the state that changes with each change of dead letters.
pub const LETTER_NEWEST: &str = crate::store::LETTER_NEWEST;

/// World that may have ended.
#[derive(Clone, Debug)]
pub struct WeakWorld(Weak<Shared>);

impl WeakWorld {
    /// Refers to a world without keeping it.
    pub fn new(world: &World) -> Self {
        Self(Arc::downgrade(world.shared()))
    }

    /// Returns the world while it is there.
    pub fn upgrade(&self) -> Option<World> {
        self.0.upgrade().map(|shared| World::of(&shared))
    }
}

/// Adds the plugin of a world.
pub fn with_plugin(builder: WorldBuilder, plugin: Arc<dyn Plugin>) -> WorldBuilder {
    builder.plugin(plugin)
}

/// Believes a clock that jumps after this time: no time is a defect, for tests that have to find it.
pub fn with_clock_hold(builder: WorldBuilder, hold: Duration) -> WorldBuilder {
    builder.clock_hold(hold)
}

/// Keeps so many due times in memory: a few, for tests with a few plans.
pub fn with_wakes_kept(builder: WorldBuilder, kept: usize) -> WorldBuilder {
    builder.wakes_kept(kept)
}

/// Returns the number of due times in the memory of a world.
pub fn wakes_in_memory(world: &World) -> Completion<usize> {
    world.shared().wakes().count()
}

/// Returns the action of a world.
pub fn action<A: Action>(world: &World) -> Option<Arc<A>> {
    world.shared().registry().get::<A>()
}

/// Whether a world runs plans, and is no client.
pub fn runs_plans(world: &World) -> bool {
    world.shared().kind() == WorldKind::Executor
}

/// Whether a world begins nothing new, because it ends or has ended.
pub fn is_ending(world: &World) -> bool {
    world.shared().is_ending()
}

/// Returns the ids of all worlds over the store that run an action.
pub fn worlds_with(world: &World, action: &str) -> Vec<u64> {
    world.shared().hub().all_with(action)
}

/// Runs a future on the threads of a world's store.
pub fn spawn(world: &World, future: impl Future<Output = ()> + Send + 'static) {
    world.shared().hub().spawn(future);
}

/// Waits so long.
pub fn sleep(world: &World, pause: Duration) -> Completion<()> {
    world.shared().hub().group.sleep(pause)
}

/// Returns the time of a world's plans: that of the wall, without the jumps of a moment.
pub fn now(world: &World) -> Time {
    world.shared().now()
}

/// Returns a number that no other call for this world returns: with the id of the world it is one
/// of its store.
pub fn next_number(world: &World) -> u64 {
    world.shared().next_number()
}

/// Whether a key gets a further one of `size` places, of which `free` are free, when it has `own`
/// and at most `limit`: half of what that limit leaves to others is kept for keys that have none.
pub fn may_begin(size: u32, free: u32, limit: u32, own: u32) -> bool {
    crate::run::may_begin(size, free, limit, own)
}

/// Waits for a moment of the world's time.
pub async fn pause(world: &World, pause: Duration) {
    world.shared().hub().pause(pause).await;
}

/// Calls code that may block on the pool of a world. While the pool is full the call waits.
///
/// # Errors
///
/// The code panicked, or the world has ended.
pub async fn on_pool<T: Send + 'static>(
    world: &World,
    code: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    crate::run::on_pool(world.shared().group().clone(), code).await
}

/// Gives an event to the plugin of another world.
///
/// # Errors
///
/// The other world has not answered, or not with what became of the event. Inside of the outcome:
/// why it did not take the event.
pub async fn publish_to(
    world: &World,
    other: u64,
    event: Payload,
    limit: Duration,
) -> Result<Result<Heard, TriggerError>, ConnectError> {
    let request = Request(RequestKind::Publish { event });
    let hub = world.shared().hub();
    match hub.call_within(world.id(), other, request, limit).await? {
        Answer(AnswerKind::Published { delivered, undecided, started, repeated, begun }) => {
            Ok(Ok(Heard {
                delivered: delivered as usize,
                undecided: undecided as usize,
                repeated: repeated as usize,
                started,
                begun,
            }))
        }
        Answer(AnswerKind::Begun(Err(error))) => Ok(Err(error)),
        other => Err(ConnectError::Refused(format!("a strange answer: {other:?}"))),
    }
}

/// Writes the rows of all plans that are behind the journal.
///
/// # Errors
///
/// The store failed.
pub async fn write_rows(world: &World) -> Result<(), StoreError> {
    world.write_rows().await
}

/// Returns the plans whose rows are behind the journal: a list may not have them, or say what was
/// before.
pub fn plans_behind(world: &World) -> Vec<PlanId> {
    world.shared().journal().behind()
}

/// Reads the dead letters of a store.
///
/// # Errors
///
/// The store failed.
pub fn stored_letters(reader: &mut dyn StoreReader) -> Result<DeadLetters, StoreError> {
    Letters::stored(reader)
}

/// Applies an entry of the journal to a plan, or to none if the entry is its first.
///
/// # Errors
///
/// The entry does not follow from the plan.
pub fn after_entry(
    before: Option<Plan>,
    id: PlanId,
    place: Seq,
    records: Vec<Record>,
) -> Result<Plan, String> {
    Plan::after_entry(before, id, place, records).map_err(|error| error.to_string())
}

/// Sends an event that is no dead letter if it is refused. Whether the step had it before is known
/// of plans of this world only.
pub fn offer<E: Serialize>(
    world: &World,
    plan: PlanId,
    step: StepId,
    id: &str,
    event: &E,
) -> Completion<Result<Delivered, PlanError>> {
    world.offer(plan, step, id, event)
}

/// Sets the key of a cause, such as an event: the plan of the first trigger stands, whatever its
/// input.
pub fn key_of_cause(options: TriggerOptions, key: impl Into<String>) -> TriggerOptions {
    options.key_of_cause(key)
}

/// Returns the id of a plan that is asked for, if it is a new one.
pub fn asked_as(asked: &Triggering) -> Option<PlanId> {
    asked.id()
}

/// Returns the input of the root action of a step's plan.
pub fn root<A: Action>(step: &StepContext<A>) -> &Payload {
    step.root()
}

/// Does work in memory when the plan takes the end of this call, and not if the plan or the step is
/// over by then. Whatever follows from the end, such as [`Plugin::written`], comes later.
pub fn when_taken<A: Action>(step: &mut StepContext<A>, work: impl Fn() + Send + Sync + 'static) {
    step.when_taken(work);
}

/// Does work in memory once, when the plan has taken the end of this call and that is durable. It
/// is dropped undone if the plan or the step is over by then, if the end cannot be written at once,
/// and with this process. It runs on a worker: it must not block, and neither must its drop.
pub fn when_stored<A: Action>(step: &mut StepContext<A>, work: impl FnOnce() + Send + 'static) {
    step.when_stored(work);
}

/// Adds a line to the history of a step's plan, however the call ends. The history is in memory as
/// a whole: the caller bounds how often this is done.
pub fn note<A: Action>(step: &mut StepContext<A>, text: String) {
    step.note(text);
}

/// Has a plan begin in another world, which runs it as long as it is there.
pub fn in_world(options: TriggerOptions, world: u64) -> TriggerOptions {
    options.in_world(world)
}
