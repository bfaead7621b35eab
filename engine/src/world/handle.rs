//! Plans as their users see them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use turnwheel_runtime::completion::{block_on, completion};
use turnwheel_runtime::{Completer, Completion, Failure};

use super::known_key::Keyed;
use super::reach::Elsewhere;
use super::World;
use crate::action::Action;
use crate::connect::RequestKind;
use crate::error::{cut, not_taken, unanswered, PlanError, StoreError, TriggerError};
use crate::id::{ActionId, PlanId, StepId};
use crate::limits::REASON_BYTES_MAX;
use crate::payload::Payload;
use crate::plan::{ActionData, Plan, Step};
use crate::run::{Begun, Order, OrderKind, Report};
use crate::time::Time;

/// A plan that is being made durable. Await it, or [`wait`](Triggering::wait) off the workers.
#[must_use = "whether the plan was taken is known when this has ended"]
pub struct Triggering {
    state: State,
}

enum State {
    Waiting {
        world: World,
        id: PlanId,
        keyed: Option<Box<Keyed>>,
        begun: Completion<Result<Begun, TriggerError>>,
        /// Begun elsewhere if the slot of the plan has gone to another node.
        moved: Option<Box<Elsewhere>>,
    },
    /// Its key has begun another plan before: that is compared.
    Comparing(PlanHandle, Box<Keyed>, Finished),
    Refused(Option<TriggerError>),
}

impl fmt::Debug for Triggering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Triggering").finish_non_exhaustive()
    }
}

impl Triggering {
    pub(super) fn new(
        world: World,
        id: PlanId,
        begun: Completion<Result<Begun, TriggerError>>,
    ) -> Self {
        Self { state: State::Waiting { world, id, keyed: None, begun, moved: None } }
    }

    /// Has the next owner begin the plan if this node loses its slot before the plan is durable.
    pub(super) fn following(mut self, plan: Option<Box<Elsewhere>>) -> Self {
        if let State::Waiting { moved, .. } = &mut self.state {
            *moved = plan;
        }
        self
    }

    /// Refuses a plan of the same key that has another action or input. An input that middleware
    /// has changed was given before and stays.
    pub(super) fn comparing(mut self, given: Option<Box<Keyed>>) -> Self {
        if let State::Waiting { keyed, .. } = &mut self.state {
            *keyed = given.map(|given| keyed.take().unwrap_or(given));
        }
        self
    }

    /// The id of the plan if it is a new one: its key may have begun another one before.
    pub(crate) fn id(&self) -> Option<PlanId> {
        match &self.state {
            State::Waiting { id, .. } => Some(*id),
            State::Comparing(plan, ..) => Some(plan.id()),
            State::Refused(_) => None,
        }
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.state, State::Refused(_))
    }

    pub(super) fn refused(error: TriggerError) -> Self {
        Self { state: State::Refused(Some(error)) }
    }

    /// Waits until the plan is durable.
    ///
    /// # Errors
    ///
    /// It is not durable, or its planning failed; no part of it runs.
    ///
    /// On a worker of a group it is refused: that worker may be needed for the answer.
    pub fn wait(self) -> Result<PlanHandle, TriggerError> {
        block_on(self).unwrap_or_else(|refused| Err(TriggerError::Refused(unanswered(&refused))))
    }
}

impl Future for Triggering {
    type Output = Result<PlanHandle, TriggerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            State::Refused(error) => {
                let error = error.take().expect("a future is not polled after its end");
                Poll::Ready(Err(error))
            }
            State::Waiting { world, id, keyed, begun, moved } => {
                let begun = std::task::ready!(Pin::new(begun).poll(cx));
                let begun = begun.map_err(|lost| TriggerError::Refused(unanswered(&lost)))?;
                let is_fenced =
                    matches!(begun, Err(TriggerError::Store(StoreError::Fenced { .. })));
                if let Some(plan) = moved.take().filter(|_| is_fenced) {
                    // Nothing was written, and a second request finds the plan of the first one.
                    let next = world.begin_elsewhere(*plan).comparing(keyed.take());
                    self.state = next.state;
                    return self.poll(cx);
                }
                let begun = begun?;
                let plan = PlanHandle::new(world.clone(), begun.plan);
                let Some(keyed) = keyed.take().filter(|_| begun.plan != *id) else {
                    return Poll::Ready(Ok(plan));
                };
                let view = plan.view();
                self.state = State::Comparing(plan, keyed, view);
                self.poll(cx)
            }
            State::Comparing(plan, keyed, view) => {
                match std::task::ready!(Pin::new(view).poll(cx)) {
                    Ok(view) => Poll::Ready(keyed.compare(&view).map(|()| plan.clone())),
                    Err(PlanError::Store(error)) => Poll::Ready(Err(error.into())),
                    // It was removed meanwhile, or its world does not answer.
                    Err(_) => Poll::Ready(Ok(plan.clone())),
                }
            }
        }
    }
}

/// A plan, by its id. It outlives the process: find it again with [`World::plan`].
#[derive(Clone)]
pub struct PlanHandle {
    pub(super) world: World,
    id: PlanId,
}

impl fmt::Debug for PlanHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PlanHandle").field(&self.id).finish()
    }
}

impl PlanHandle {
    pub(super) fn new(world: World, id: PlanId) -> Self {
        Self { world, id }
    }

    /// The plan's id.
    pub fn id(&self) -> PlanId {
        self.id
    }

    /// Completes when the plan is stopped **or paused**: look at its state and result.
    pub fn finished(&self) -> Finished {
        let (watcher, finished) = completion();
        let shared = &self.world.shared;
        if !shared.owns(self.id) {
            shared.look_elsewhere(self.id, false, watcher);
            return Finished { plan: self.id, finished };
        }
        shared.watchers.add(self.id, watcher);
        if !shared.owns(self.id) {
            shared.give_watchers_away();
            return Finished { plan: self.id, finished };
        }
        let report = self.world.plan_ref(self.id).tell(Report { view: None });
        if let Err(error) = report {
            let (plan, problem) = (self.id, not_taken(error.kind));
            self.world.shared.watchers.tell(plan, || Err(PlanError::Refused { plan, problem }));
        }
        Finished { plan: self.id, finished }
    }

    /// The plan as it is now, also what is not durable yet.
    pub fn view(&self) -> Finished {
        let (reply, finished) = completion();
        if self.world.shared.owns(self.id) {
            self.send(reply, |reply| Report { view: Some(reply) });
        } else {
            self.world.shared.look_elsewhere(self.id, true, reply);
        }
        Finished { plan: self.id, finished }
    }

    /// Pauses a running plan: it takes no new step, and begins no sub-plan, until
    /// [`resume`](Self::resume). Code that runs is not interrupted, and what it returns counts. Events
    /// are taken and kept; timers, retries and time limits that come due wait for the resume. Sub-plans
    /// that have begun go on. The pause survives restarts. A plan that is delayed is held by
    /// [`freeze`](Self::freeze) instead.
    pub fn pause(&self, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Pause, by)
    }

    /// Goes on with the plan after it was paused: its failed steps are tried again, or its failed
    /// compensation.
    pub fn resume(&self, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Resume, by)
    }

    /// Leaves a failed step of a paused plan out, with all that need its output, when the plan is
    /// resumed. Of a step whose compensation has failed that is left out: its effect is
    /// [kept](crate::StepState::Kept).
    pub fn skip(&self, step: StepId, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Skip(step), by)
    }

    /// Leaves all failed steps of a paused plan out, with all that need their outputs, and goes on.
    pub fn skip_failed(&self, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::SkipFailed, by)
    }

    /// Puts all failed steps of a paused plan, and all that come after them, back to their begin, and
    /// goes on. [`resume`](PlanHandle::resume) leaves them what they have put into their outputs.
    pub fn retry_failed(&self, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::RetryFailed, by)
    }

    /// Puts a step of a paused plan, and all that come after it, back to their begin; resume goes on
    /// from there.
    pub fn restart_from(&self, step: StepId, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Restart(step), by)
    }

    /// Changes the input of an action of a paused plan. The history keeps who did it.
    ///
    /// An input that the action cannot read is refused with [`PlanError::Input`], and nothing is changed.
    /// References in it ([`Input`](crate::Input)) are looked up where the outputs are there, and otherwise
    /// taken where the action's type has them; an action that this world does not know is not asked. A
    /// plan that an older version of the action has made takes an input of that version.
    pub fn edit_input<I: serde::Serialize>(
        &self,
        action: ActionId,
        input: &I,
        by: &str,
    ) -> Completion<Result<(), PlanError>> {
        match Payload::of(input) {
            Ok(input) => self.order(OrderKind::EditInput(action, input), by),
            Err(error) => {
                let (plan, problem) = (self.id, format!("the input for action {action} {error}"));
                Completion::done(Err(PlanError::Refused { plan, problem }))
            }
        }
    }

    /// Ends the plan, whatever it is doing: nothing new begins, code that runs is told and waited for,
    /// steps of cancellable actions are called to end themselves, others that wait are ended.
    pub fn cancel(&self, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Cancel { is_forced: false }, by)
    }

    /// As [`PlanHandle::cancel`], but running code is notified and not waited for: its later result
    /// does not count.
    pub fn cancel_now(&self, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Cancel { is_forced: true }, by)
    }

    /// Stops the plan where it is. Nothing is called, nothing ended: steps stay as they are.
    pub fn halt(&self, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Halt, by)
    }

    /// Gives a plan that was delayed and is not planned yet another time, and allows it if it was frozen;
    /// `None` is at once.
    pub fn delay_until(
        &self,
        start_at: Option<Time>,
        by: &str,
    ) -> Completion<Result<(), PlanError>> {
        let order = OrderKind::Delay { start_at, start_before: None, is_frozen: false };
        self.order(order, by)
    }

    /// Holds a plan that was delayed and is not planned yet, until
    /// [`delay_until`](PlanHandle::delay_until) allows it. Both are refused while it is being planned.
    pub fn freeze(&self, by: &str) -> Completion<Result<(), PlanError>> {
        let order = OrderKind::Delay { start_at: None, start_before: None, is_frozen: true };
        self.order(order, by)
    }

    /// Moves the timer of a step that has [this name](crate::StepContext::set_timer) to another
    /// time, or cancels it with `None`: it never fires then, also after a crash. It is refused if
    /// the step has no such timer, as after it has fired.
    pub fn move_timer(
        &self,
        step: StepId,
        name: &str,
        due: Option<Time>,
        by: &str,
    ) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Timer { step, name: name.to_owned(), due }, by)
    }

    /// Ends a paused plan in which a step or a compensation has failed, as it is; its result is an
    /// error.
    pub fn fail(&self, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Fail, by)
    }

    /// Takes back what a paused plan has done: the compensations of its steps, the last one first.
    pub fn revert(&self, by: &str) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Revert, by)
    }

    pub(super) fn order(&self, kind: OrderKind, by: &str) -> Completion<Result<(), PlanError>> {
        let (reply, done) = completion();
        let (plan, by) = (self.id, cut(by.to_owned(), REASON_BYTES_MAX));
        if self.world.shared.owns(plan) {
            self.send(reply, |reply| Order { kind, by, reply });
        } else {
            let order = RequestKind::Order { plan, kind, by };
            self.world.shared.ask_elsewhere(plan, order, reply);
        }
        done
    }

    fn send<T, M>(
        &self,
        reply: Completer<Result<T, PlanError>>,
        message: impl FnOnce(Completer<Result<T, PlanError>>) -> M,
    ) where
        T: Send + 'static,
        M: Send + 'static,
        crate::run::PlanActor: turnwheel_actors::Handler<M>,
    {
        let refusal = reply.clone();
        if let Err(error) = self.world.plan_ref(self.id).tell(message(reply)) {
            let (plan, problem) = (self.id, not_taken(error.kind));
            let _answered = refusal.complete(Err(PlanError::Refused { plan, problem }));
        }
    }
}

/// A plan that will be there. Await it, or [`wait`](Finished::wait) off the workers.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Finished {
    plan: PlanId,
    finished: Completion<Result<Arc<Plan>, PlanError>>,
}

impl Finished {
    /// Waits for it.
    ///
    /// # Errors
    ///
    /// There is no such plan, or it cannot be read.
    ///
    /// Called on a worker of a group it is refused: that worker may be the one that is needed.
    pub fn wait(self) -> Result<PlanView, PlanError> {
        let plan = self.plan;
        block_on(self).unwrap_or_else(|refused| {
            Err(PlanError::Refused { plan, problem: unanswered(&refused) })
        })
    }

    /// As [`wait`](Self::wait) for at most `limit`; then it is refused, and given up.
    ///
    /// # Errors
    ///
    /// As of `wait`, or the limit has passed.
    pub fn wait_timeout(self, limit: Duration) -> Result<PlanView, PlanError> {
        let Self { plan, finished } = self;
        match finished.wait_timeout(limit) {
            Ok(answer) => answer.map(|plan| PlanView { plan }),
            Err(failure) => Err(PlanError::Refused { plan, problem: unanswered(&failure) }),
        }
    }
}

impl Future for Finished {
    type Output = Result<PlanView, PlanError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let plan = self.plan;
        Pin::new(&mut self.finished).poll(cx).map(|outcome: Result<_, Failure>| match outcome {
            Ok(Ok(plan)) => Ok(PlanView { plan }),
            Ok(Err(error)) => Err(error),
            Err(failure) => Err(PlanError::Refused { plan, problem: unanswered(&failure) }),
        })
    }
}

/// A plan as it was at one moment. It reads like a [`Plan`].
#[derive(Clone, Debug)]
pub struct PlanView {
    pub(super) plan: Arc<Plan>,
}

impl std::ops::Deref for PlanView {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl PlanView {
    pub(crate) fn of(plan: Plan) -> Self {
        Self { plan: Arc::new(plan) }
    }

    /// The output of the first action of this type.
    ///
    /// # Errors
    ///
    /// The plan has no such action, or its output cannot be understood.
    pub fn output<A: Action>(&self) -> Result<A::Output, PlanError> {
        let wrong = |problem: String| PlanError::Content {
            plan: self.id,
            action: A::NAME.to_owned(),
            problem,
        };
        let Some(action) = self.find::<A>() else {
            return Err(wrong("the plan has no such action".to_owned()));
        };
        if action.output.is_null() {
            return Ok(A::Output::default());
        }
        action.output.read().map_err(|error| wrong(format!("its output {error}")))
    }

    /// The first action of this type.
    pub fn find<A: Action>(&self) -> Option<&ActionData> {
        self.actions.iter().find(|action| action.name == A::NAME)
    }

    /// The run step of the first action of this type.
    pub fn run_step<A: Action>(&self) -> Option<&Step> {
        self.find::<A>()?.run_step.map(|step| self.step(step))
    }
}
