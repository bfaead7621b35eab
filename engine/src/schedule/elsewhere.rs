//! Requests about schedules at any world: the world that serves the schedule is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completion, Failure};

use super::expected::Expected;
use super::requests::Asked;
use super::state::Spec;
use super::{ScheduleError, ScheduleView, Schedules};
use crate::connect::{Answer, AnswerKind, ConnectError, Request, RequestKind};
use crate::error::unanswered;
use crate::id::PlanId;
use crate::limits::{REQUEST_AGAIN, REQUEST_LIMIT};
use crate::store::{slot_of_schedule, Owner};
use crate::time::Time;
use crate::world::{within, Hub, Patience, World, ONCE};

/// A request about schedules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ScheduleRequest {
    Put {
        name: String,
        spec: Spec,
    },
    Get {
        name: String,
    },
    List {
        after: String,
        limit: u64,
    },
    Pause {
        name: String,
        by: String,
        why: String,
    },
    Unpause {
        name: String,
    },
    Remove {
        name: String,
    },
    Trigger {
        name: String,
        by: String,
        number: Option<u64>,
    },
    Backfill {
        name: String,
        from: Time,
        until: Time,
    },
    Times {
        name: String,
        after: Time,
        limit: u64,
    },
    /// A change of a certain state.
    Expecting {
        expected: Expected,
        request: Box<ScheduleRequest>,
    },
}

impl ScheduleRequest {
    /// Whether it makes a schedule or changes one.
    pub(crate) fn puts(&self) -> bool {
        match self {
            Self::Put { .. } => true,
            Self::Expecting { request, .. } => request.puts(),
            _ => false,
        }
    }
}

/// The answer to a request about schedules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ScheduleAnswer {
    View(Box<ScheduleView>),
    Views(Vec<ScheduleView>),
    Done,
    Plan(PlanId),
    Count(u64),
    Times(Vec<Time>),
}

type Taken = Completion<Result<ScheduleAnswer, ScheduleError>>;

/// An answer, on both ways.
pub(super) trait Carried: Sized + Send + 'static {
    fn to_answer(self) -> ScheduleAnswer;
    fn of_answer(answer: ScheduleAnswer) -> Option<Self>;
}

macro_rules! carried {
    ($($kind:ty => $variant:ident),* $(,)?) => {$(
        impl Carried for $kind {
            fn to_answer(self) -> ScheduleAnswer {
                ScheduleAnswer::$variant(self.into())
            }

            fn of_answer(answer: ScheduleAnswer) -> Option<Self> {
                match answer {
                    ScheduleAnswer::$variant(it) => Some(carried!(@own $variant it)),
                    _ => None,
                }
            }
        }
    )*};
    (@own View $it:ident) => { *$it };
    (@own $variant:ident $it:ident) => { $it };
}

carried! {
    ScheduleView => View,
    Vec<ScheduleView> => Views,
    PlanId => Plan,
    u64 => Count,
    Vec<Time> => Times,
}

impl Carried for () {
    fn to_answer(self) -> ScheduleAnswer {
        ScheduleAnswer::Done
    }

    fn of_answer(answer: ScheduleAnswer) -> Option<Self> {
        matches!(answer, ScheduleAnswer::Done).then_some(())
    }
}

/// The refusal while no world runs plans.
fn unserved() -> ScheduleError {
    ScheduleError::Refused("no executor serves the schedules now: try again".to_owned())
}

fn refused(error: ConnectError) -> ScheduleError {
    match error {
        ConnectError::NoExecutor { .. } => unserved(),
        error => ScheduleError::Refused(error.to_string()),
    }
}

fn unserved_by(failure: &Failure) -> ScheduleError {
    ScheduleError::Refused(unanswered(failure))
}

fn of_answer<T: Carried>(answer: ScheduleAnswer) -> Result<T, ScheduleError> {
    let strange = || ScheduleError::Refused("the answer makes no sense".to_owned());
    T::of_answer(answer).ok_or_else(strange)
}

fn read<T: Carried>(answer: Answer) -> Result<T, ScheduleError> {
    match answer {
        Answer(AnswerKind::Schedules(outcome)) => of_answer(outcome?),
        other => Err(ScheduleError::Refused(format!("it is answered by {other:?}"))),
    }
}

impl ScheduleRequest {
    /// The schedule that it is about; none if it is about all.
    fn name(&self) -> Option<&str> {
        match self {
            Self::List { .. } => None,
            Self::Expecting { request, .. } => request.name(),
            Self::Put { name, .. }
            | Self::Get { name }
            | Self::Pause { name, .. }
            | Self::Unpause { name }
            | Self::Remove { name }
            | Self::Trigger { name, .. }
            | Self::Backfill { name, .. }
            | Self::Times { name, .. } => Some(name),
        }
    }

    /// Whether it changes nothing.
    fn is_question(&self) -> bool {
        matches!(self, Self::Get { .. } | Self::List { .. } | Self::Times { .. })
    }

    /// Whether it may be asked again when nobody knows whether it was done: done twice, it is as if
    /// it were done once. A change of a certain state finds its own change the second time.
    fn may_repeat(&self) -> bool {
        match self {
            Self::Put { .. }
            | Self::Pause { .. }
            | Self::Unpause { .. }
            | Self::Backfill { .. }
            | Self::Remove { .. } => true,
            Self::Trigger { number, .. } => number.is_some(),
            Self::Expecting { request, .. } => request.is_question(),
            question => question.is_question(),
        }
    }
}

impl Schedules<'_> {
    /// Whether this world has all slots of a store that no other process shares.
    pub(super) fn is_alone(&self) -> bool {
        let world = self.world().shared();
        let is_own =
            || world.hub().worlds().owners().iter().all(|owner| owner.world == world.epoch());
        world.journal().lease().is_none() && is_own()
    }

    /// Asks the world that serves the schedule, whichever that is by then.
    pub(super) fn at_owner<T: Carried>(&self, request: ScheduleRequest) -> Asked<T> {
        let request = match self.expected() {
            Expected::Any => request,
            expected => ScheduleRequest::Expecting {
                expected: expected.clone(),
                request: Box::new(request),
            },
        };
        if self.is_alone() {
            return self.take(request).map(|taken| taken.and_then(of_answer));
        }
        let slot = slot_of_schedule(request.name().unwrap_or_default());
        let world = self.world().shared();
        let (reply, asked) = completion();
        let (hub, from) = (Arc::clone(world.hub()), world.epoch());
        // At once, so that requests of one caller keep their order.
        let here = hub.member(hub.worlds().owner(slot));
        let here = here.map(|world| World::of(&world).schedules().take(request.clone()));
        world.hub().spawn(async move {
            if let Some(taken) = here {
                let taken = taken.await;
                let taken = taken.unwrap_or_else(|failure| Err(unserved_by(&failure)));
                let answer = Answer(AnswerKind::Schedules(taken));
                if !answer.is_moved() {
                    let _gone = reply.complete(read(answer));
                    return;
                }
            }
            let answer = reach(&hub, from, slot, &request);
            let answer = within(&hub.group, REQUEST_LIMIT, answer).await;
            // The caller may have given up.
            let _gone = reply.complete(answer.map_err(refused).and_then(read));
        });
        asked
    }

    /// Asks all worlds that serve schedules.
    pub(super) fn of_all(&self, after: &str, limit: usize) -> Asked<Vec<ScheduleView>> {
        let request = ScheduleRequest::List { after: after.to_owned(), limit: limit as u64 };
        if self.is_alone() {
            return self.at_owner(request);
        }
        let world = self.world().shared();
        let (reply, asked) = completion();
        let (hub, from) = (Arc::clone(world.hub()), world.epoch());
        world.hub().spawn(async move {
            let listed = within(&hub.group, REQUEST_LIMIT, list_all(&hub, from, &request)).await;
            let listed = listed.map_err(refused).map(|mut views| {
                views.truncate(limit);
                views
            });
            // The caller may have given up.
            let _gone = reply.complete(listed);
        });
        asked
    }

    /// Serves a request of this world or another one.
    pub(crate) fn take(&self, request: ScheduleRequest) -> Taken {
        fn carried<T: Carried>(asked: Asked<T>) -> Taken {
            asked.map(|outcome| outcome.map(T::to_answer))
        }
        let count = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        match request {
            ScheduleRequest::Put { name, spec } => carried(self.put_here(name, spec)),
            ScheduleRequest::Get { name } => carried(self.get_here(name)),
            ScheduleRequest::List { after, limit } => carried(self.list_here(after, count(limit))),
            ScheduleRequest::Pause { name, by, why } => carried(self.pause_here(name, by, why)),
            ScheduleRequest::Unpause { name } => carried(self.unpause_here(name)),
            ScheduleRequest::Remove { name } => carried(self.remove_here(name)),
            ScheduleRequest::Trigger { name, by, number } => {
                carried(self.trigger_here(name, by, number))
            }
            ScheduleRequest::Backfill { name, from, until } => {
                carried(self.backfill_here(name, from, until))
            }
            ScheduleRequest::Times { name, after, limit } => {
                carried(self.times_here(name, after, count(limit)))
            }
            ScheduleRequest::Expecting { expected, request } => {
                self.world().schedules().expecting(expected).take(*request)
            }
        }
    }
}

/// Asks the owner of a slot, and the next one if it has gone without an answer.
async fn reach(
    hub: &Hub,
    from: u64,
    slot: usize,
    request: &ScheduleRequest,
) -> Result<Answer, ConnectError> {
    let what = || format!("the schedule «{}»", request.name().unwrap_or_default());
    let send = |patience| {
        let kind = RequestKind::Schedules { request: Box::new(request.clone()) };
        hub.reach_slot(from, slot, what, Request(kind), patience)
    };
    // Of a removal it has to be known whether it was asked once.
    let is_removal = matches!(request, ScheduleRequest::Remove { .. });
    let repeats = request.may_repeat() && !is_removal;
    match send(Patience { repeats, ..ONCE }).await {
        Err(ConnectError::Gone { .. }) if is_removal => {
            let answer = send(Patience { repeats: true, ..ONCE }).await?;
            Ok(as_if_removed_once(answer))
        }
        outcome => outcome,
    }
}

/// The answer to a removal that was asked twice: the schedule is not there the second time.
fn as_if_removed_once(answer: Answer) -> Answer {
    match answer.0 {
        AnswerKind::Schedules(Err(ScheduleError::Unknown(_))) => {
            Answer(AnswerKind::Schedules(Ok(ScheduleAnswer::Done)))
        }
        kind => Answer(kind),
    }
}

/// Asks a world, directly if it is of this process.
async fn ask(
    hub: &Hub,
    from: u64,
    to: u64,
    request: &ScheduleRequest,
) -> Result<Answer, ConnectError> {
    let Some(world) = hub.member(to) else {
        let kind = RequestKind::Schedules { request: Box::new(request.clone()) };
        return hub.call(from, to, Request(kind)).await;
    };
    let taken = World::of(&world).schedules().take(request.clone()).await;
    let taken = taken.unwrap_or_else(|failure| Err(unserved_by(&failure)));
    Ok(Answer(AnswerKind::Schedules(taken)))
}

/// The schedules of all worlds, by name. While slots move it asks again, so that none is left out.
async fn list_all(
    hub: &Hub,
    from: u64,
    request: &ScheduleRequest,
) -> Result<Vec<ScheduleView>, ConnectError> {
    let owners = || -> Vec<Owner> { hub.worlds().owners().to_vec() };
    loop {
        let before = owners();
        let worlds: BTreeSet<u64> = before.iter().map(|owner| owner.world).collect();
        if worlds.contains(&0) {
            return Err(ConnectError::NoExecutor { what: "schedules".to_owned() });
        }
        let asked: Vec<_> = worlds.into_iter().map(|to| ask(hub, from, to, request)).collect();
        let (mut views, mut failed) = (BTreeMap::new(), None);
        for answer in asked {
            match answer.await.map(read::<Vec<ScheduleView>>) {
                Ok(Ok(some)) => {
                    views.extend(some.into_iter().map(|view| (view.name.clone(), view)));
                }
                Ok(Err(error)) => failed = Some(ConnectError::Refused(error.to_string())),
                Err(error) => failed = Some(error),
            }
        }
        let have_moved = owners() != before;
        match failed {
            None if !have_moved => return Ok(views.into_values().collect()),
            // It is about to go, or has joined a moment ago.
            Some(ConnectError::Refused(problem)) if !have_moved => {
                return Err(ConnectError::Refused(problem));
            }
            _ => hub.pause(REQUEST_AGAIN).await,
        }
    }
}
