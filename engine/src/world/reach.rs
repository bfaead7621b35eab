//! Requests about plans that another world owns.

use std::sync::Arc;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completer;

use super::begins::{Said, UnderWay};
use super::hub::Patience;
use super::peers::FOR_THE_END;
use super::{Shared, Triggering, World};
use crate::action::Action;
use crate::connect::{Answer, AnswerKind, ConnectError, Request, RequestKind, Word};
use crate::error::{PlanError, TriggerError};
use crate::id::PlanId;
use crate::limits::{LOOK_LIMIT, REQUEST_LIMIT};
use crate::plan::{Created, Plan, Record};
use crate::run::{Begun, OrderKind, PlanActor};
use crate::store::WorldKind;

/// A request that must not be done twice.
pub(crate) const ONCE: Patience =
    Patience { limit: Some(REQUEST_LIMIT), waits: false, repeats: false };

/// A request that is done once however often it is asked.
const REPEATED: Patience = Patience { limit: Some(REQUEST_LIMIT), waits: false, repeats: true };

/// A look at a plan, which the store can answer too.
const LOOK: Patience = Patience { limit: Some(LOOK_LIMIT), waits: false, repeats: true };

impl Shared {
    /// Whether this world owns a plan.
    pub(crate) fn owns(&self, plan: PlanId) -> bool {
        self.journal().directory().owns(self.epoch(), plan)
    }

    /// Says something to a plan, wherever it is: never before a request to begin it that is under
    /// way. If it could not be said, `again` says what to do.
    pub(crate) fn tell_plan(
        self: &Arc<Self>,
        plan: PlanId,
        word: Word,
        again: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        if self.begins.is_empty() {
            return self.send_word(plan, word, again);
        }
        let said = Said { word, again: Box::new(again) };
        if let Some(Said { word, again }) = self.begins.keep_back(plan, said) {
            self.send_word(plan, word, again);
        }
    }

    fn send_word(
        self: &Arc<Self>,
        plan: PlanId,
        word: Word,
        again: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        if self.owns(plan) {
            if let Err(problem) = self.say(plan, word) {
                tracing::warn!(to = %plan, problem, "a plan was not told");
                again(self);
            }
            return;
        }
        let (hub, world) = (Arc::clone(self.hub()), Arc::clone(self));
        let begins = match &word {
            Word::Begin { caller, .. } => Some((caller.0, UnderWay::begin(self, plan))),
            _ => None,
        };
        let request = Request(RequestKind::Word { plan, word });
        self.hub().spawn(async move {
            let asked = hub.reach(world.epoch(), plan, request, REPEATED);
            let told = match &begins {
                Some((caller, _)) => world.while_owned(*caller, asked).await,
                None => asked.await,
            };
            if let Err(error) = told {
                tracing::warn!(to = %plan, %error, "a plan of another world was not told");
                again(&world);
            }
            if let Some((_, under_way)) = begins {
                under_way.end();
            }
        });
    }

    /// The plan as another world has it; if none does, as the store has it.
    pub(crate) fn look_elsewhere(
        self: &Arc<Self>,
        plan: PlanId,
        at_once: bool,
        reply: Completer<Result<Arc<Plan>, PlanError>>,
    ) {
        let (hub, world) = (Arc::clone(self.hub()), Arc::clone(self));
        let request = Request(RequestKind::Look { plan, at_once });
        let patience = if at_once { LOOK } else { FOR_THE_END };
        self.hub().spawn(async move {
            let seen = match hub.reach(world.epoch(), plan, request, patience).await {
                Ok(Answer(AnswerKind::Plan(seen))) => seen.map(|plan| Arc::new(*plan)),
                Ok(other) => Err(strange(plan, &other)),
                Err(ConnectError::NoExecutor { .. }) => world.stored(plan).await,
                // A look changes nothing: what is committed is an answer, whatever keeps its world.
                Err(_) if at_once => world.stored(plan).await,
                Err(error) => Err(PlanError::Connect { plan, error }),
            };
            let _late = reply.complete(seen);
        });
    }

    /// The plan as the store has it, when nobody runs it.
    async fn stored(&self, plan: PlanId) -> Result<Arc<Plan>, PlanError> {
        let loaded = PlanActor::read(self, plan).await?;
        let (plan, _) = loaded.ok_or(PlanError::Unknown(plan))?;
        Ok(Arc::new(plan))
    }

    /// Asks the owner of a plan to do something.
    pub(crate) fn ask_elsewhere(
        self: &Arc<Self>,
        plan: PlanId,
        mut request: RequestKind,
        reply: Completer<Result<(), PlanError>>,
    ) {
        let (hub, from) = (Arc::clone(self.hub()), self.epoch());
        // Its node may die before it answers: the next owner must know whether it was taken.
        let own_id = hub.node.as_ref().map(|_| self.ids().next(self.now()).to_string());
        match (&mut request, own_id) {
            (RequestKind::Event { id: id @ None, .. }, own_id) => *id = own_id,
            (RequestKind::Order { kind, .. }, Some(id)) => {
                *kind = OrderKind::Once { id, order: Box::new(kind.clone()) };
            }
            _ => {}
        }
        // An event or an order with an id is taken once, and a removed plan is gone; other requests
        // must not be repeated.
        let is_repeatable = matches!(
            &request,
            RequestKind::Event { id: Some(_), .. }
                | RequestKind::Order { kind: OrderKind::Once { .. }, .. }
                | RequestKind::Heartbeat { .. }
                | RequestKind::Remove { .. }
        );
        let patience = if is_repeatable { REPEATED } else { ONCE };
        self.hub().spawn(async move {
            let done = match hub.reach(from, plan, Request(request), patience).await {
                Ok(Answer(AnswerKind::Done(done))) => done,
                Ok(other) => Err(strange(plan, &other)),
                Err(error) => Err(PlanError::Connect { plan, error }),
            };
            let _late = reply.complete(done);
        });
    }
}

fn strange(plan: PlanId, answer: &Answer) -> PlanError {
    PlanError::Refused { plan, problem: format!("the answer makes no sense: {answer:?}") }
}

/// A plan that another world is to begin.
#[derive(Debug)]
pub(super) struct Elsewhere {
    pub(super) plan: PlanId,
    pub(super) created: Created,
    pub(super) delayed: Option<Record>,
    pub(super) priority: Option<i32>,
    pub(super) is_chosen: bool,
}

impl Shared {
    /// Whether this world runs plans.
    pub(crate) fn is_executor(&self) -> bool {
        self.kind == WorldKind::Executor
    }

    /// Whether new plans begin here: not while the world gives its slots away.
    pub(crate) fn begins_plans(&self) -> bool {
        self.is_executor() && !self.busy().is_draining()
    }

    /// Whether new plans of an action begin here.
    pub(crate) fn runs(&self, action: &str) -> bool {
        self.begins_plans() && self.registry().find(action).is_some()
    }
}

impl Shared {
    /// The id of a plan that another world owns; nothing if that one is not there, or is this one.
    pub(super) fn place_in(&self, world: u64) -> Option<PlanId> {
        let worlds = self.hub().worlds();
        let row = worlds.find(world).filter(|_| world != self.epoch())?;
        let slot = *super::shares::homes(&row.slots).first()?;
        Some(self.ids().next_in(self.now(), slot))
    }
}

impl World {
    pub(super) fn runs<A: Action>(&self) -> bool {
        self.shared().runs(A::NAME)
    }

    /// Has a plan begin in a world that runs its action.
    pub(super) fn begin_placed(
        &self,
        created: Created,
        delayed: Option<Record>,
        priority: Option<i32>,
    ) -> Triggering {
        match self.place(&created.action) {
            Ok(plan) => {
                let is_chosen = false;
                self.begin_elsewhere(Elsewhere { plan, created, delayed, priority, is_chosen })
            }
            Err(error) => Triggering::refused(error),
        }
    }

    /// A plan of an action that this world does not run: an id that is of a world that does.
    pub(super) fn place(&self, action: &str) -> Result<PlanId, TriggerError> {
        let shared = self.shared();
        let Some((_, slot)) = shared.hub().pick(action) else {
            if shared.is_executor() {
                return Err(TriggerError::UnknownAction(action.to_owned()));
            }
            let what = format!("the action «{action}»");
            return Err(TriggerError::Connect(ConnectError::NoExecutor { what }));
        };
        Ok(shared.ids().next_in(shared.now(), slot))
    }

    /// A copy of a plan that begins here, for the next owner of its slot; nothing if no other
    /// process shares the store.
    pub(super) fn copy_for_heirs(
        &self,
        plan: PlanId,
        created: &Created,
        delayed: Option<&Record>,
        is_chosen: bool,
    ) -> Option<Box<Elsewhere>> {
        self.shared().hub().node.as_ref()?;
        let (created, delayed, priority) =
            (created.clone(), delayed.cloned(), Some(created.priority));
        Some(Box::new(Elsewhere { plan, created, delayed, priority, is_chosen }))
    }

    /// Has another world begin a plan.
    pub(super) fn begin_elsewhere(&self, begin: Elsewhere) -> Triggering {
        let Elsewhere { plan, created, delayed, priority, is_chosen } = begin;
        let (created, delayed) = (Box::new(created), delayed.map(Box::new));
        let request = RequestKind::Begin { plan, created, delayed, priority, is_chosen };
        let (hub, from) = (Arc::clone(self.shared().hub()), self.id());
        // A second request finds the plan of the first one, unless its id was chosen by somebody.
        let patience = if is_chosen { ONCE } else { REPEATED };
        let (reply, begun) = completion();
        self.shared().hub().spawn(async move {
            let outcome = match hub.reach(from, plan, Request(request), patience).await {
                Ok(Answer(AnswerKind::Begun(begun))) => begun.map(|plan| Begun { plan }),
                Ok(other) => Err(TriggerError::Refused(format!("it is answered by {other:?}"))),
                Err(error) => Err(TriggerError::Connect(error)),
            };
            let _late = reply.complete(outcome);
        });
        Triggering::new(self.clone(), plan, begun)
    }
}
