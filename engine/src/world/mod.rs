//! A world: the actions, the threads and the store that plans run with.

mod adopt;
mod asking;
mod begins;
mod builder;
mod bulk;
mod bulk_report;
mod by_key;
mod chunks;
mod claims;
mod cleaner;
mod clock;
mod crowd;
mod delay;
mod deliver;
mod desk;
mod drain;
mod ending;
mod entities;
mod extending;
mod handle;
mod heartbeat;
mod history;
mod hub;
mod ids;
mod joining;
mod keeping;
mod known_key;
mod labels;
mod letter_box;
mod letters;
mod mail;
mod named;
mod node;
mod opening;
mod options;
mod outcome;
mod own_groups;
mod peers;
mod placing;
mod plugin;
mod presenter;
mod promises;
mod queue;
mod reach;
mod reach_slot;
mod search;
mod shared;
mod shares;
mod stats;
mod upgrade;
mod watchers;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::entity::{ReminderStore, StateStore};
use turnwheel_actors::{EntityRef, Handler};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Failure};

pub use asking::Asking;
pub use builder::WorldBuilder;
pub use bulk::{Bulk, BulkOrder};
pub use bulk_report::{BulkOutcome, BulkPlan, BulkProgress, BulkReport};
pub use chunks::{Chunk, ChunkCursor};
pub use claims::{ClaimError, ClaimFilter, ClaimView};
pub use cleaner::{CleanError, Cleaned, Retention};
pub(crate) use crowd::{Crowd, InMemory};
pub use delay::Delay;
pub(crate) use ending::{Busy, BusyPlan, Unwritten};
pub use handle::{Finished, PlanHandle, PlanView, Triggering};
pub use hub::SharedStore;
pub(crate) use hub::{within, Hub, Patience};
pub(crate) use ids::Ids;
pub use keeping::KeepingView;
use known_key::Keyed;
pub(crate) use labels::check_all as check_labels;
pub(crate) use letter_box::Letters;
pub(crate) use letters::Undelivered;
pub use letters::{DeadLetter, DeadLetters};
pub use named::{ActionInfo, Named};
pub use opening::Opening;
pub use options::TriggerOptions;
pub use outcome::{Outcome, OutcomeError, PlanFailure};
pub use peers::{Check, Health, Meta, WorldView};
pub(crate) use placing::Places;
pub use plugin::{Heard, Later, Plugin};
pub use presenter::Presenter;
pub use promises::PromiseError;
pub use queue::{PlanShare, Queue, QueueStatus};
pub(crate) use reach::ONCE;
pub use search::Counts;
pub(crate) use shared::Shared;
pub use stats::{Stats, WaitingPlans};
pub use upgrade::BrokenPlan;
pub(crate) use watchers::{Callers, Watchers};

use crate::action::{show, show_one, Action, AnyAction, PlanShown, Shown};
use crate::error::{
    not_taken, BuildError, PayloadError, PlanError, StoreError, TextTooLong, TriggerError,
};
use crate::id::{ActionId, PlanId, StepId};
use crate::journal::{Durable, LockView, TimedStates};
use crate::limits::KEY_BYTES_MAX;
use crate::payload::Payload;
use crate::plan::{plan_root, Created, Planned, Trace};
use crate::run::{Begin, Begun, PlanActor, PlanKey};
use crate::schedule::Schedules;
use crate::time::Time;

/// Time that a shutdown waits for the world's threads.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(30);

/// Plans that a start reads at once.
const START_PAGE: usize = 1_024;

/// A running engine. Clones share it.
#[derive(Clone)]
pub struct World {
    shared: Arc<Shared>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("store", &self.shared.store).finish_non_exhaustive()
    }
}

impl World {
    /// Describes a world; every value has a default.
    pub fn builder() -> WorldBuilder {
        WorldBuilder::default()
    }

    pub(crate) fn plan_ref(&self, plan: PlanId) -> EntityRef<PlanActor> {
        self.shared.plans.get(PlanKey::new(&self.shared, plan))
    }

    /// Plans an action, on this thread, and runs the plan.
    ///
    /// The returned future ends when the plan is durable; no step has run before. Cost: the
    /// planning, and a commit that is shared with others.
    pub fn trigger<A: Action>(&self, input: A::Input) -> Triggering {
        self.trigger_as::<A>(None, input)
    }

    /// As [`World::trigger`], with an idempotency key: a second trigger with the same key answers the
    /// plan of the first one. With another action or input it is refused with
    /// [`TriggerError::KeyReused`].
    pub fn trigger_once<A: Action>(&self, key: impl Into<String>, input: A::Input) -> Triggering {
        self.trigger_as::<A>(Some(key.into()), input)
    }

    fn trigger_as<A: Action>(&self, key: Option<String>, input: A::Input) -> Triggering {
        let created = match self.created::<A>(Payload::of(&input), key) {
            Ok(created) => created,
            Err(error) => return Triggering::refused(error),
        };
        let keyed = Keyed::of(&created);
        if !self.runs::<A>() {
            return self.begin_placed(created, None, None).comparing(keyed);
        }
        let shared = &self.shared;
        let id = shared.ids.next(created.at);
        let planned = plan_root::<A>(&shared.registry, id, Ok(input), || shared.now());
        let planned = Box::new(planned);
        let heirs = self.copy_for_heirs(id, &created, None, false);
        let begin = |reply| Begin { created: Box::new(created), planned, reply };
        self.begin(id, begin).comparing(keyed).following(heirs)
    }

    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The name of the store, for people.
    pub fn store_name(&self) -> &str {
        &self.shared.store
    }

    /// The schedules of the world.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules::new(self)
    }

    /// Begins a plan whose steps are given, instead of planned by its action.
    pub(crate) fn begin_planned<A: Action>(
        &self,
        input: Payload,
        planned: impl FnOnce(PlanId, Time) -> Planned,
    ) -> Triggering {
        let created = match self.created::<A>(Ok(input), None) {
            Ok(created) => created,
            Err(error) => return Triggering::refused(error),
        };
        let id = self.shared.ids.next(created.at);
        let planned = Box::new(planned(id, created.at));
        self.begin(id, |reply| Begin { created: Box::new(created), planned, reply })
    }

    fn created<A: Action>(
        &self,
        input: Result<Payload, PayloadError>,
        key: Option<String>,
    ) -> Result<Created, TriggerError> {
        let action = self.shared.registry.get::<A>();
        let text = key.as_deref().unwrap_or_default();
        TextTooLong::check("key", text, KEY_BYTES_MAX).map_err(TriggerError::Key)?;
        let input = input.map_err(|error| {
            let (action, problem) = (A::NAME.to_owned(), error.to_string());
            TriggerError::Input { action, problem }
        })?;
        Ok(Created {
            at: self.shared.now(),
            action: A::NAME.to_owned(),
            input,
            caller: None,
            lineage: Vec::new(),
            key,
            labels: Vec::new(),
            by: "trigger".to_owned(),
            priority: action.and_then(|action| AnyAction::priority(&*action)).unwrap_or(0),
            deadline: None,
            trace: Trace::ambient(),
        })
    }

    fn begin<M: Send + 'static>(
        &self,
        id: PlanId,
        message: impl FnOnce(Completer<Result<Begun, TriggerError>>) -> M,
    ) -> Triggering
    where
        PlanActor: Handler<M>,
    {
        if self.shared.is_ending() {
            let problem = "the world is ending and takes nothing new".to_owned();
            return Triggering::refused(TriggerError::Refused(problem));
        }
        self.begin_also_at_the_end(id, message)
    }

    /// As `begin`, also while the world ends: what a step under way has caused is written, and runs
    /// after the next start.
    fn begin_also_at_the_end<M: Send + 'static>(
        &self,
        id: PlanId,
        message: impl FnOnce(Completer<Result<Begun, TriggerError>>) -> M,
    ) -> Triggering
    where
        PlanActor: Handler<M>,
    {
        self.shared.fresh.lock().insert(id);
        let begun = self.begin_known(id, message);
        if begun.is_refused() {
            self.shared.fresh.lock().remove(&id);
        }
        begun
    }

    /// As `begin`, for a plan that may exist.
    fn begin_known<M: Send + 'static>(
        &self,
        id: PlanId,
        message: impl FnOnce(Completer<Result<Begun, TriggerError>>) -> M,
    ) -> Triggering
    where
        PlanActor: Handler<M>,
    {
        let (reply, begun) = completion();
        if let Err(error) = self.plan_ref(id).tell(message(reply)) {
            return Triggering::refused(TriggerError::Refused(not_taken(error.kind)));
        }
        Triggering::new(self.clone(), id, begun)
    }

    /// A plan as people are to see it: each action shows itself, and masks what is nobody's business.
    pub fn present(&self, plan: &PlanView) -> PlanShown {
        show(&self.shared.registry, plan)
    }

    /// One action of a plan as people are to see it; nothing if the plan has none with this number. It costs
    /// what that action is, however large the plan.
    pub fn present_action(&self, plan: &PlanView, action: ActionId) -> Option<Shown> {
        let data = plan.actions.get(action.index()).filter(|data| data.id == action)?;
        Some(show_one(&self.shared.registry, plan, data))
    }

    /// A plan by its id, whether there is one or not.
    pub fn plan(&self, id: PlanId) -> PlanHandle {
        PlanHandle::new(self.clone(), id)
    }

    /// Sends an event to a step that waits for one, or will: a step that has not begun gets it when it waits
    /// for events, and leaves it as a dead letter if it never does. It completes when the event is durable.
    ///
    /// An event with an id is taken once: a second one with the same id as one of the newest
    /// [10,000](crate::limits::EVENT_IDS_MAX) of the step is answered as the first, and dropped. A step that
    /// [begins again](PlanHandle::restart_from) takes it again.
    pub fn event<E: serde::Serialize>(
        &self,
        plan: PlanId,
        step: StepId,
        id: Option<&str>,
        event: &E,
    ) -> Completion<Result<(), PlanError>> {
        self.deliver(plan, step, id, Payload::of(event), None)
    }

    /// The states of entities in this world's store: for
    /// [`EntitiesBuilder::store`](turnwheel_actors::entity::EntitiesBuilder::store). Their writes share
    /// the commits of plans.
    ///
    /// It must not be used after the world was shut down: reads and writes fail then.
    pub fn states(&self) -> Arc<dyn StateStore> {
        Durable::new(self.shared.journal.clone())
    }

    /// The reminders of entities in this world's store, likewise.
    pub fn reminders(&self) -> Arc<dyn ReminderStore> {
        Durable::new(self.shared.journal.clone())
    }

    /// States in this world's store that have a time at which their owner looks at them.
    ///
    /// They must not be used after the world was shut down: reads and writes fail then.
    pub fn timed_states(&self) -> TimedStates {
        TimedStates::new(self.shared.journal.clone())
    }

    /// State of the queues, the default one first.
    pub fn queues(&self) -> Vec<QueueStatus> {
        self.shared.queues.status(None)
    }

    /// State of the queues, and a plan's share of them.
    pub fn queues_of(&self, plan: PlanId) -> Vec<QueueStatus> {
        self.shared.queues.status(Some(plan))
    }

    /// The locks that plans have or wait for, by name.
    pub fn locks(&self) -> Vec<LockView> {
        self.shared.journal.locks().all()
    }

    /// Ends the world: active plans stop where they are, and continue when a world is started over
    /// the same store. Running code of steps is waited for, at most 30 seconds.
    ///
    /// # Errors
    ///
    /// Its threads did not end in time, or the store has refused entries to the last
    /// ([`BuildError::NotWritten`]): no acknowledged change is lost.
    pub fn shutdown(&self) -> Result<(), BuildError> {
        self.shutdown_within(SHUTDOWN_LIMIT)
    }

    /// As [`World::shutdown`], but code that runs is waited for at most so long. A call of an async step
    /// that has not ended by then is dropped, one that blocks is left to itself; both are interrupted
    /// calls for the next world.
    ///
    /// # Errors
    ///
    /// As [`World::shutdown`].
    pub fn shutdown_within(&self, limit: Duration) -> Result<(), BuildError> {
        self.end(limit)
    }

    /// Reads the schedules of slots that this world owns and has not read, until it has read all.
    pub(crate) async fn restore_schedules(&self) -> Result<(), StoreError> {
        let lost = |failure: Failure| StoreError::unanswered(&failure);
        loop {
            let timetable = self.shared.timetable();
            let unread = Arc::new(timetable.unread().await.map_err(lost)?);
            if unread.is_empty() {
                return Ok(());
            }
            let mut after = String::new();
            loop {
                let read = move |reader: &mut dyn crate::store::StoreReader| {
                    reader.schedules(&after, START_PAGE)
                };
                let page = self.shared.journal.read(read).await.map_err(lost)??;
                let is_last = page.len() < START_PAGE;
                after = page.last().map(|row| row.name.clone()).unwrap_or_default();
                timetable.restore(page, Arc::clone(&unread)).await.map_err(lost)?;
                if is_last {
                    break;
                }
            }
            // A slot that has moved meanwhile is read again.
            timetable.were_read(unread).await.map_err(lost)?;
        }
    }
}
