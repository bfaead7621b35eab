//! Requests about schedules at a world that does not serve them: the world that does is asked.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completion;

use super::expected::Expected;
use super::requests::Asked;
use super::state::Spec;
use super::{ScheduleError, ScheduleView, Schedules};
use crate::connect::{Answer, AnswerKind, Request, RequestKind};
use crate::id::PlanId;
use crate::time::Time;

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

impl Schedules<'_> {
    /// Asks the world of another process that serves the schedules; nothing if none does.
    pub(super) fn elsewhere<T: Carried>(&self, request: ScheduleRequest) -> Option<Asked<T>> {
        let world = self.world().shared();
        if world.server_of_schedules().is_some() || !world.has_server_of_schedules() {
            return None;
        }
        let request = match self.expected() {
            Expected::Any => request,
            expected => ScheduleRequest::Expecting {
                expected: expected.clone(),
                request: Box::new(request),
            },
        };
        let (reply, asked) = completion();
        let (hub, from) = (Arc::clone(world.hub()), world.epoch());
        world.hub().spawn(async move {
            let request = Request(RequestKind::Schedules { request: Box::new(request) });
            let refused = |problem: String| Err(ScheduleError::Refused(problem));
            let outcome = match hub.reach_schedules(from, request).await {
                Ok(Answer(AnswerKind::Schedules(outcome))) => outcome.and_then(|answer| {
                    let strange = || refused("the answer makes no sense".to_owned());
                    T::of_answer(answer).map_or_else(strange, Ok)
                }),
                Ok(other) => refused(format!("it is answered by {other:?}")),
                Err(error) => refused(error.to_string()),
            };
            // The caller may have given up.
            let _gone = reply.complete(outcome);
        });
        Some(asked)
    }

    /// Serves a request of another world.
    pub(crate) fn take(&self, request: ScheduleRequest) -> Taken {
        fn carried<T: Carried>(asked: Asked<T>) -> Taken {
            asked.map(|outcome| outcome.map(T::to_answer))
        }
        let count = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        match request {
            ScheduleRequest::Put { name, spec } => carried(self.put_spec(name, spec)),
            ScheduleRequest::Get { name } => carried(self.get(&name)),
            ScheduleRequest::List { after, limit } => carried(self.list(&after, count(limit))),
            ScheduleRequest::Pause { name, by, why } => carried(self.pause(&name, &by, &why)),
            ScheduleRequest::Unpause { name } => carried(self.unpause(&name)),
            ScheduleRequest::Remove { name } => carried(self.remove(&name)),
            ScheduleRequest::Trigger { name, by, number } => {
                carried(self.trigger(&name, &by, number))
            }
            ScheduleRequest::Backfill { name, from, until } => {
                carried(self.backfill(&name, from, until))
            }
            ScheduleRequest::Times { name, after, limit } => {
                carried(self.times(&name, after, count(limit)))
            }
            ScheduleRequest::Expecting { expected, request } => {
                self.world().schedules().expecting(expected).take(*request)
            }
        }
    }
}
