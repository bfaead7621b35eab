//! Requests of other worlds.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};

use super::plugin::Heard;
use super::{Shared, World};
use crate::connect::{Answer, AnswerKind, ConnectError, Request, RequestKind, Word};
use crate::error::{not_taken, unanswered, PlanError, TriggerError};
use crate::id::PlanId;
use crate::payload::Payload;
use crate::run::{
    AskAgain, BeginChild, BeginElsewhere, Begun, Deliver, Delivered, Follow, Heartbeat, Order,
    OrderKind, PlanActor, PlanEnded, Report, Wake,
};
use crate::schedule::{ScheduleError, ScheduleRequest};

type Taken = Completion<Result<Answer, ConnectError>>;

fn answered(kind: AnswerKind) -> Taken {
    Completion::done(Ok(Answer(kind)))
}

impl Shared {
    /// Takes a request of another world, which was sent so long ago.
    pub(crate) fn take(self: &Arc<Self>, request: Request, age: Duration) -> Taken {
        if self.is_ending() && !matches!(request.0, RequestKind::Ping) {
            return Completion::done(Err(ConnectError::Ending { world: self.epoch() }));
        }
        if request.plan().is_some_and(|plan| !self.owns(plan)) {
            return answered(AnswerKind::Moved);
        }
        match request.0 {
            RequestKind::Begin { plan, created, delayed, priority, is_chosen } => {
                let Some(action) = self.registry().find(&created.action) else {
                    let unknown = TriggerError::UnknownAction(created.action.clone());
                    return answered(AnswerKind::Begun(Err(unknown)));
                };
                let mut created = created;
                created.priority = priority.or(action.priority()).unwrap_or(0);
                let delayed = delayed.map(|delayed| *delayed);
                let (reply, begun) = completion();
                let begin = BeginElsewhere { created, delayed, is_chosen, reply };
                self.hand(plan, begin, begun, |begun: Result<Begun, TriggerError>| {
                    AnswerKind::Begun(begun.map(|begun| begun.plan))
                })
            }
            RequestKind::Event { plan, step, id, payload, by, is_kept } => {
                let (reply, done) = completion();
                let deliver = Deliver { step, id, payload, by, reply, is_kept };
                let told = |done: Result<Delivered, PlanError>| AnswerKind::Done(done.map(drop));
                self.hand(plan, deliver, done, told)
            }
            RequestKind::Order { plan, kind, by } => {
                self.order(plan, |reply| Order { kind, by, reply })
            }
            RequestKind::Heartbeat { plan, step, attempt, details } => {
                self.order(plan, |reply| Heartbeat { step, attempt, details, reply })
            }
            RequestKind::Look { plan, at_once } => {
                let (reply, seen) = completion();
                let report = if at_once {
                    Report { view: Some(reply) }
                } else {
                    self.watchers().add(plan, reply);
                    Report { view: None }
                };
                self.hand(plan, report, seen, |seen| {
                    AnswerKind::Plan(seen.map(|plan| Box::new(Arc::unwrap_or_clone(plan))))
                })
            }
            RequestKind::Word { plan, word } => match self.say(plan, word) {
                Ok(()) => answered(AnswerKind::Heard),
                Err(problem) => Completion::done(Err(ConnectError::Refused(problem))),
            },
            RequestKind::Ping => {
                // On the threads that run plans: an answer proves that they work.
                let (reply, pong) = completion();
                self.wakes().pong(reply);
                pong.map(|()| Ok(Answer(AnswerKind::Pong)))
            }
            RequestKind::Schedules { request } => self.take_schedules(*request),
            RequestKind::Publish { event } => self.take_event(event),
            RequestKind::Worlds { version } => {
                self.hub().worlds_have_changed(version);
                answered(AnswerKind::Heard)
            }
            RequestKind::Keyed { service, key, request } => {
                self.take_keyed(&service, key, request, age)
            }
            // The asker looks whether it is still there.
            RequestKind::Remove { plan, head } => {
                let removed = self.journal().remove(vec![(plan, head)]);
                removed.map(|removed| {
                    Ok(Answer(AnswerKind::Done(removed.map(drop).map_err(PlanError::from))))
                })
            }
        }
    }

    /// A request about schedules, which this world serves if nothing has changed.
    fn take_schedules(self: &Arc<Self>, request: ScheduleRequest) -> Taken {
        let (told, taken) = completion();
        let world = World::of(self);
        self.hub().spawn(async move {
            // The action to launch may be known only where it was asked for.
            if let Some(plugin) = world.shared().plugin().filter(|_| request.puts()) {
                if let Err(error) = plugin.prepare(&world).await {
                    tracing::warn!(%error, "a schedule may launch what is not known here");
                }
            }
            let taken = world.schedules().take(request);
            let outcome = taken.await;
            let outcome = outcome.map_err(|failure| ScheduleError::Refused(unanswered(&failure)));
            let _late =
                told.complete(Ok(Answer(AnswerKind::Schedules(outcome.unwrap_or_else(Err)))));
        });
        taken
    }

    /// An event that was published in another world.
    fn take_event(self: &Arc<Self>, event: Payload) -> Taken {
        let Some(plugin) = self.plugin().cloned() else {
            let problem = "this world knows no flows".to_owned();
            return Completion::done(Err(ConnectError::Refused(problem)));
        };
        let (told, taken) = completion();
        let world = World::of(self);
        self.hub().spawn(async move {
            let heard = plugin.take_event(&world, event).await;
            let _late = told.complete(Ok(Answer(match heard {
                Ok(Heard { delivered, undecided, repeated, started, begun }) => {
                    AnswerKind::Published {
                        delivered: delivered as u64,
                        undecided: undecided as u64,
                        started,
                        repeated: repeated as u64,
                        begun,
                    }
                }
                // The sender has to know whether it may try again.
                Err(error) => AnswerKind::Begun(Err(error)),
            })));
        });
        taken
    }

    fn order<M: Send + 'static>(
        self: &Arc<Self>,
        plan: PlanId,
        message: impl FnOnce(Completer<Result<(), PlanError>>) -> M,
    ) -> Taken
    where
        PlanActor: turnwheel_actors::Handler<M>,
    {
        let (reply, done) = completion();
        self.hand(plan, message(reply), done, AnswerKind::Done)
    }

    fn hand<M: Send + 'static, T: Send + 'static>(
        self: &Arc<Self>,
        plan: PlanId,
        message: M,
        done: Completion<T>,
        answer: impl FnOnce(T) -> AnswerKind + Send + 'static,
    ) -> Taken
    where
        PlanActor: turnwheel_actors::Handler<M>,
    {
        match World::of(self).plan_ref(plan).tell(message) {
            Ok(()) => done.map(|outcome| Ok(Answer(answer(outcome)))),
            Err(error) => Completion::done(Err(ConnectError::Refused(not_taken(error.kind)))),
        }
    }

    /// Says something to a plan of this world.
    pub(crate) fn say(self: &Arc<Self>, plan: PlanId, word: Word) -> Result<(), String> {
        let plan = World::of(self).plan_ref(plan);
        let refused = match word {
            Word::Begin { caller, lineage, trace, action, input, priority, labels } => plan
                .tell(BeginChild { caller, lineage, trace, action, input, priority, labels })
                .map_err(|error| error.kind),
            Word::Cancel { is_forced, by } => {
                let (reply, _answer) = completion();
                let order = Order { kind: OrderKind::Cancel { is_forced }, by, reply };
                plan.tell(order).map_err(|error| error.kind)
            }
            Word::Follow { follower } => plan.tell(Follow { follower }).map_err(|error| error.kind),
            Word::Ended { plan: ended, result } => {
                plan.tell(PlanEnded { plan: ended, result }).map_err(|error| error.kind)
            }
            Word::Wake => plan.tell(Wake).map_err(|error| error.kind),
            Word::AskAgain => plan.tell(AskAgain).map_err(|error| error.kind),
        };
        refused.map_err(not_taken)
    }
}
