//! The actor of a plan: it keeps the plan while something happens to it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::entity::EntityContext;
use turnwheel_actors::{Actor, Context, Entity, Handler};
use turnwheel_runtime::{Completer, Timer};

use super::beats::Beats;
use super::decide::{Decisions, Effect};
use super::early::Early;
use super::entry::UnderWay;
use super::growth::Growth;
use super::locks::Beginning;
use super::message::{CallReturned, Deliver, Order, Report, Wake};
use super::pages::Paging;
use super::quarantine::quarantine;
use super::queue::{Place, Ticket};
use super::refusal::Refusal;
use super::row::Names;
use super::{row, OrderKind, PlanKey};
use crate::action::CancelFlag;
use crate::error::{PlanError, StoreError};
use crate::id::{PlanId, StepId};
use crate::limits::PLAN_IDLE;
use crate::plan::{Plan, PlanState, Record};
use crate::store::{slot_of, PlanRow, Seq, Verdict};
use crate::time::Time;
use crate::world::{BusyPlan, InMemory, Shared, Undelivered};

/// A plan whose entry was not written is read again after this time.
pub(super) const AFTER_STORE_FAILURE: Duration = Duration::from_secs(1);

/// The actor of one plan.
pub(crate) struct PlanActor {
    pub(super) id: PlanId,
    pub(super) world: Arc<Shared>,
    pub(super) plan: Option<Arc<Plan>>,
    /// Why the plan could not be read: nothing is done with it then.
    pub(super) unreadable: Option<StoreError>,
    /// The newest entry that is durable; 0 before the first.
    pub(super) head: Seq,
    /// The epoch of its slot when it came into memory: what it writes is of the plan as it was since.
    pub(super) epoch: u64,
    pub(super) growth: Growth,
    /// Decided and not handed to the journal.
    pub(super) records: Vec<Record>,
    pub(super) effects: Vec<Effect>,
    /// Texts of its row.
    pub(super) names: Option<Names>,
    /// Empty: room for the effects of the next entry.
    pub(super) spare_effects: Vec<Effect>,
    pub(super) answers: Vec<Answer>,
    pub(super) key: Option<String>,
    /// Entry handed to the journal and not durable yet, with the effects that follow it.
    pub(super) under_way: Option<UnderWay>,
    /// Calls of code that have not returned: which one of the step, and how to tell it to end.
    pub(super) running: HashMap<StepId, (u32, CancelFlag)>,
    /// Steps that wait for places in queues, by the number of their call.
    pub(super) waiting: HashMap<StepId, (u32, Ticket)>,
    /// Places of steps whose code is about to be called.
    pub(super) places: HashMap<StepId, Place>,
    pub(super) armed: Option<(Time, Timer)>,
    /// Whether it holds its locks, if the newest entry is written.
    pub(super) holds_locks: bool,
    pub(super) beginning: Option<Beginning>,
    /// Whether its planning is under way on the pool.
    pub(super) is_planning: bool,
    /// Whether hooks are being told.
    pub(super) is_hooking: bool,
    /// The plan as of an entry, to be stored with the next one.
    pub(super) snapshot: Option<(Seq, Vec<u8>)>,
    /// Plans that it waits for, as far as the newest entry says so.
    pub(super) followed: Vec<PlanId>,
    pub(super) paging: Paging,
    /// Signs of life that are not decided on.
    pub(super) beats: Beats,
    /// As long as it has something under way that the end of the world waits for.
    pub(super) busy: Option<BusyPlan>,
    /// Messages that came while the plan was being planned.
    pub(super) early: Early,
    pub(super) sending: BTreeSet<u32>,
    _in_memory: InMemory,
}

pub(super) type Answer = Box<dyn FnOnce(&Result<Verdict, StoreError>) + Send>;

impl fmt::Debug for PlanActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanActor").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Actor for PlanActor {
    type Error = StoreError;

    fn closing(&mut self, _: &mut Context<'_, Self>) -> Result<(), StoreError> {
        let Some(plan) = self.plan.as_ref().filter(|_| self.world.owns(self.id)) else {
            return Ok(());
        };
        if let Some(at) = plan.wakes_at() {
            self.world.wakes().set(self.id, at);
        }
        self.leave_snapshot();
        Ok(())
    }
}

impl Entity for PlanActor {
    type Key = PlanKey;

    const NAME: &'static str = "turnwheel.plan";
    const IDLE: Duration = PLAN_IDLE;

    fn create(key: &PlanKey) -> Self {
        Self {
            id: key.id,
            _in_memory: key.world.crowd().enter(),
            world: Arc::clone(&key.world),
            plan: None,
            unreadable: None,
            head: 0,
            epoch: key.world.journal().directory().held(key.world.epoch(), key.id),
            growth: Growth::default(),
            records: Vec::new(),
            effects: Vec::new(),
            spare_effects: Vec::new(),
            names: None,
            is_planning: false,
            is_hooking: false,
            snapshot: None,
            followed: Vec::new(),
            paging: Paging::default(),
            beats: Beats::default(),
            busy: None,
            early: Early::default(),
            sending: BTreeSet::new(),
            answers: Vec::new(),
            key: None,
            under_way: None,
            running: HashMap::new(),
            waiting: HashMap::new(),
            places: HashMap::new(),
            armed: None,
            holds_locks: false,
            beginning: None,
        }
    }

    async fn activate(&mut self, _: EntityContext<Self>) -> Result<(), StoreError> {
        let is_fresh = self.world.is_fresh(self.id);
        if !self.world.owns(self.id) {
            self.unreadable = self.moved();
            return Ok(());
        }
        if is_fresh {
            return Ok(());
        }
        if let Err(error) = self.load().await {
            tracing::error!(plan = %self.id, %error, "a plan cannot be read");
            // Only a world with another version or codec can read it.
            if !error.is_unreadable() {
                let again = self.world.now().after(AFTER_STORE_FAILURE);
                self.world.wakes().set(self.id, again);
            } else {
                // Plans behind it in the queue of a lock would wait for it for ever.
                self.leave_locks();
                quarantine(Arc::clone(&self.world), self.id, self.epoch, error.to_string()).await;
            }
            self.unreadable = Some(error);
        }
        Ok(())
    }
}

impl PlanActor {
    /// Why there is no plan for a request.
    pub(super) fn absence(&self) -> PlanError {
        match &self.unreadable {
            None => PlanError::Unknown(self.id),
            Some(error) => PlanError::Store(error.clone()),
        }
    }

    /// Reads the plan, if there is one.
    async fn load(&mut self) -> Result<(), StoreError> {
        let (id, world) = (self.id, Arc::clone(&self.world));
        let behind = world.journal().head(id);
        let Some((plan, found)) = Self::read(&world, id).await? else { return Ok(()) };
        let (head, growth, is_quarantined) = found;
        (self.head, self.growth) = (head, growth);
        self.holds_locks = plan.needs_locks();
        self.know_followed(&plan);
        self.plan = Some(Arc::new(self.traced(plan)));
        if let (true, Some(plan)) = (behind.is_some() || is_quarantined, &self.plan) {
            // Its row is behind, perhaps since before the start: nothing else may bring it up to date.
            let row = PlanRow { head, ..row(plan) };
            self.world.journal().update(row, self.epoch);
        }
        self.go_on_as_read();
        Ok(())
    }
}

impl Handler<Deliver> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: Deliver, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(message);
        }
        if self.is_unborn() {
            return self.hear_later(message);
        }
        let Deliver { step, id, payload, by, reply, is_kept } = message;
        let (plan, world) = (self.id, Arc::clone(&self.world));
        let letter = |reason: String| Undelivered {
            plan,
            step,
            id: id.clone(),
            payload: payload.clone(),
            reason,
        };
        // A damaged plan cannot say whether it would have taken a broadcast event.
        let is_damaged = matches!(self.unreadable, Some(StoreError::Corrupt(_)));
        if self.plan.is_none() && (is_kept || is_damaged) {
            world.letters().add(world.now(), letter(self.absence().to_string()));
        }
        self.order(reply, cx, |decisions| {
            let taken = decisions.event(step, id.clone(), payload.clone(), by);
            if let (Err(problem), true) = (&taken, is_kept) {
                world.letters().add(world.now(), letter(problem.clone()));
            }
            Ok(taken?)
        });
    }
}

impl Handler<Order> for PlanActor {
    type Reply = ();

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(order);
        }
        if self.is_unborn() {
            return self.hear_later(order);
        }
        let Order { kind, by, reply } = order;
        let (id, kind) = kind.parts();
        if self.ends_damaged(&kind) {
            return self.end_damaged(by, reply, cx);
        }
        if self.is_planning && matches!(kind, OrderKind::Delay { .. }) {
            // Its planning continues after this: an accepted order would be lost.
            let (plan, state) = (self.id, PlanState::Scheduled.name());
            let problem = "it is being planned already: cancel or halt it instead".to_owned();
            let _late = reply.complete(Err(PlanError::State { plan, state, problem }));
            return self.settle(cx);
        }
        let cancels = matches!(kind, OrderKind::Cancel { .. } | OrderKind::Halt);
        self.order(reply, cx, |decisions| decisions.order_once(id, kind, &by));
        if cancels {
            self.running.values().for_each(|(_, cancelled)| cancelled.set());
        }
        // Also of a plan that is paused now.
        self.leave_queues();
    }
}

impl Handler<Wake> for PlanActor {
    type Reply = ();

    fn handle(&mut self, Wake: Wake, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(Wake);
        }
        self.armed = None;
        self.take_beats();
        if let Some(mut decisions) = self.decisions() {
            decisions.wake();
        }
        self.tell_unwanted();
        self.leave_queues();
        self.settle(cx);
    }
}

impl Handler<Report> for PlanActor {
    type Reply = ();

    fn handle(&mut self, report: Report, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(report);
        }
        let Report { view } = report;
        if let Some(view) = view {
            let _late = view.complete(self.shown());
        }
        self.settle(cx);
        self.tell_watchers();
    }
}

impl Handler<CallReturned> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: CallReturned, cx: &mut Context<'_, Self>) {
        let CallReturned { step, call, returned, ran_us } = message;
        self.take_last_chunks(step, call);
        if self.running.get(&step).is_some_and(|(running, _)| *running == call) {
            self.running.remove(&step);
        }
        self.returned(step, call, returned, ran_us);
        self.tell_unwanted();
        self.leave_queues();
        self.settle(cx);
    }
}

impl PlanActor {
    /// Leaves a message to the next activation. This one is ending: its decisions would become
    /// durable without it, and no activation would continue from there.
    pub(super) fn pass_on<M: Send + 'static>(&self, message: M)
    where
        Self: Handler<M>,
    {
        let key = PlanKey::new(&self.world, self.id);
        if let Err(error) = self.world.plans().get::<Self>(key).tell(message) {
            // The sender notices by the drop of its reply.
            tracing::warn!(plan = %self.id, kind = %error.kind, "a message is refused");
        }
    }

    /// Carries out somebody's order; the answer is given when its consequences are durable.
    fn order<T: Send + 'static>(
        &mut self,
        reply: Completer<Result<T, PlanError>>,
        cx: &mut Context<'_, Self>,
        order: impl FnOnce(&mut Decisions<'_>) -> Result<T, Refusal>,
    ) {
        let plan = self.id;
        let absence = self.absence();
        let Some(mut decisions) = self.decisions() else {
            let _late = reply.complete(Err(absence));
            return cx.passivate();
        };
        match order(&mut decisions) {
            Err(refusal) => {
                let _late = reply.complete(Err(refusal.of(decisions.plan)));
            }
            Ok(done) => self.answers.push(Box::new(move |outcome| {
                let answer = match outcome {
                    Ok(Verdict::LockTaken { name, holder }) => {
                        let problem =
                            format!("already active: plan {holder} has the lock «{name}»");
                        Err(PlanError::Refused { plan, problem })
                    }
                    Ok(_) => Ok(done),
                    Err(error) => Err(PlanError::Store(error.clone())),
                };
                let _late = reply.complete(answer);
            })),
        }
        self.settle(cx);
    }

    /// Hands to the journal what was decided, one entry at a time, and says how long to stay.
    pub(super) fn settle(&mut self, cx: &mut Context<'_, Self>) {
        self.note_times();
        if self.under_way.is_none() {
            self.take_chunks();
            self.take_page();
            self.ask_for_places(cx);
            if self.records.is_empty() {
                // Nothing to write: the order had no durable consequence.
                for answer in std::mem::take(&mut self.answers) {
                    answer(&Ok(Verdict::Written(self.head)));
                }
                let effects = self.take_effects();
                self.carry_out(effects, cx);
                // Calls that returned at once.
                self.ask_for_places(cx);
                if !self.records.is_empty() {
                    self.append(cx);
                }
            } else {
                self.append(cx);
            }
        } else if !self.answers.is_empty() {
            // Somebody waits for an answer: a failed entry is tried again at once.
            self.write_again(cx);
        }
        self.count_busy();
        let Some(plan) = &self.plan else {
            // A plan that is being planned stays: the end of its planning comes to this activation.
            return if self.is_planning { cx.hold() } else { cx.passivate() };
        };
        let is_busy = self.under_way.is_some()
            || !self.running.is_empty()
            || !self.waiting.is_empty()
            || self.is_planning
            || self.is_hooking
            || !self.sending.is_empty()
            || self.paging.is_busy()
            || self.beats.hold();
        let is_over = matches!(plan.state, PlanState::Stopped | PlanState::Paused);
        match is_busy {
            true => cx.hold(),
            false if is_over || self.sleeps(plan) => return cx.passivate(),
            false => cx.keep_for(Duration::ZERO),
        }
        self.arm(cx);
    }

    fn count_busy(&mut self) {
        let is_busy = self.under_way.is_some()
            || !self.running.is_empty()
            || self.is_planning
            || self.is_hooking
            || self.paging.is_busy();
        if is_busy {
            self.is_busy_now();
        } else {
            self.busy = None;
        }
    }

    /// Counts as busy until the end of this turn or longer: before it looks whether code may begin.
    pub(super) fn is_busy_now(&mut self) {
        let (world, slot) = (&self.world, slot_of(self.id));
        self.busy.get_or_insert_with(|| world.busy().enter(slot));
    }

    pub(super) fn tell_watchers(&self) {
        if self.is_unborn() {
            return;
        }
        let Some(plan) = &self.plan else {
            return self.world.watchers().tell(self.id, || Err(self.absence()));
        };
        let is_over = matches!(plan.state, PlanState::Stopped | PlanState::Paused);
        if is_over && self.under_way.is_none() && self.records.is_empty() {
            self.world.watchers().tell(self.id, || Ok(Arc::clone(plan)));
        }
    }

    /// Leaves memory without storing the plan: the store has a newer state. Running code is asked
    /// to end: its result does not count.
    pub(super) fn forget(&mut self, cx: &mut Context<'_, Self>) {
        self.running.values().for_each(|(_, cancelled)| cancelled.set());
        self.forget_decisions();
        cx.keep_for(Duration::ZERO);
        cx.passivate();
    }
}
