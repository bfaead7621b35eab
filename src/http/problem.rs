//! Refusals and failures as answers: `application/problem+json`.

use axum::http::{header, HeaderValue};
use axum::response::{IntoResponse, Response};
use turnwheel_engine::{ConnectError, PlanError, ScheduleError, StoreError, TriggerError};

use super::code::Code;
use crate::api;

/// Location of the pages of the codes.
const PAGES: &str = "https://github.com/turnwheel/turnwheel/blob/main/docs/errors.md";

/// The code of a problem, kept with its answer for figures and logs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused(pub(super) Code);

/// Why a request is not answered as it was meant.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(super) code: Code,
    detail: String,
    plan: Option<String>,
    problems: Vec<api::FlowProblem>,
    /// After how many seconds it may be tried again.
    again: Option<u64>,
}

impl Problem {
    /// A problem with its code, and the details.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), plan: None, problems: Vec::new(), again: None }
    }

    pub(super) fn of_plan(mut self, plan: impl ToString) -> Self {
        self.plan = Some(plan.to_string());
        self
    }

    pub(super) fn with_problems(mut self, problems: Vec<api::FlowProblem>) -> Self {
        self.problems = problems;
        self
    }

    pub(super) fn again_after(mut self, seconds: u64) -> Self {
        self.again = Some(seconds);
        self
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    fn shape(&self) -> api::Problem {
        let code = self.code;
        api::Problem {
            kind: format!("{PAGES}#{}", code.name()),
            title: code.title().to_owned(),
            status: code.status().as_u16(),
            detail: self.detail.clone(),
            code: code.name().to_owned(),
            plan: self.plan.clone(),
            problems: self.problems.clone(),
            trace: super::trace::current(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let code = self.code;
        let body = serde_json::to_vec(&self.shape()).unwrap_or_default();
        let mut answer = (code.status(), body).into_response();
        let headers = answer.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.again {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if code == Code::Unauthorized {
            // One header for each way: not every client parses a list of them.
            for way in ["Bearer realm=\"turnwheel\"", "Basic realm=\"turnwheel\""] {
                headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(way));
            }
        }
        answer.extensions_mut().insert(Refused(code));
        answer
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Full(_) => Code::StoreFull,
            StoreError::Corrupt(_) => Code::StoreDamaged,
            StoreError::Fenced { .. } | StoreError::InUse { .. } => Code::StoreLost,
            _ => Code::StoreFailed,
        };
        let problem = Self::new(code, error.to_string());
        match code {
            Code::StoreFull => problem.again_after(30),
            Code::StoreFailed => problem.again_after(1),
            _ => problem,
        }
    }
}

impl From<TriggerError> for Problem {
    fn from(error: TriggerError) -> Self {
        let detail = error.to_string();
        match error {
            TriggerError::UnknownAction(name) => Self::new(
                Code::ActionUnknown,
                format!("there is no action «{name}»: GET /api/v1/actions lists those there are"),
            ),
            TriggerError::Input { .. } => Self::new(Code::InputInvalid, detail),
            TriggerError::Planning { plan, .. } => {
                Self::new(Code::PlanNotPlanned, detail).of_plan(plan)
            }
            TriggerError::Exists(plan) => Self::new(Code::PlanExists, detail).of_plan(plan),
            TriggerError::KeyReused { plan, differs, key } => {
                let detail = match key.strip_prefix("retry:") {
                    Some(failed) => format!(
                        "plan {failed} was retried already, in another way, as plan {plan}: retry \
                         that plan"
                    ),
                    None => format!(
                        "the idempotency key has begun plan {plan} with {differs}: take a new key \
                         for a new plan"
                    ),
                };
                Self::new(Code::KeyReused, detail).of_plan(plan)
            }
            TriggerError::Store(error) => error.into(),
            TriggerError::Label(_) | TriggerError::Key(_) => {
                Self::new(Code::BodyInvalid, format!("the body: {detail}"))
            }
            _ => Self::new(Code::PlanRefused, detail).again_after(1),
        }
    }
}

impl From<PlanError> for Problem {
    fn from(error: PlanError) -> Self {
        let detail = error.to_string();
        match error {
            PlanError::Unknown(plan) => Self::new(Code::PlanUnknown, detail).of_plan(plan),
            PlanError::State { plan, .. } => Self::new(Code::PlanState, detail).of_plan(plan),
            PlanError::Content { plan, .. }
            | PlanError::Input { plan, .. }
            | PlanError::EventId { plan, .. } => {
                Self::new(Code::InputInvalid, detail).of_plan(plan)
            }
            PlanError::TimedOut { plan, .. } => Self::new(Code::PlanTimedOut, detail).of_plan(plan),
            PlanError::Store(error) => error.into(),
            PlanError::Refused { plan, .. } => {
                Self::new(Code::PlanRefused, detail).of_plan(plan).again_after(1)
            }
            PlanError::Connect { plan, error } => unreached(&error, detail).of_plan(plan),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

/// The node that has to answer did not: it may have done what was asked, or is not there now.
fn unreached(error: &ConnectError, detail: String) -> Problem {
    match error {
        ConnectError::TimedOut { .. } => Problem::new(Code::PlanTimedOut, detail),
        _ => Problem::new(Code::PlanRefused, detail).again_after(1),
    }
}

impl From<ScheduleError> for Problem {
    fn from(error: ScheduleError) -> Self {
        let detail = error.to_string();
        match error {
            ScheduleError::Unknown(_) => Self::new(Code::ScheduleUnknown, detail),
            ScheduleError::UnknownAction { .. } => Self::new(Code::ActionUnknown, detail),
            ScheduleError::Input { .. } => Self::new(Code::InputInvalid, detail),
            ScheduleError::Busy { .. } | ScheduleError::Changed(_) | ScheduleError::TooMany => {
                Self::new(Code::ScheduleState, detail)
            }
            ScheduleError::Edited { .. } => Self::new(Code::PreconditionFailed, detail),
            ScheduleError::Launch { error, .. } => error.into(),
            ScheduleError::Store(error) => error.into(),
            ScheduleError::Refused(_) => Self::new(Code::PlanRefused, detail).again_after(1),
            _ => Self::new(Code::ScheduleInvalid, detail),
        }
    }
}

/// The store of states and offers.
impl From<turnwheel_actors::entity::StoreError> for Problem {
    fn from(error: turnwheel_actors::entity::StoreError) -> Self {
        use turnwheel_actors::entity::StoreError;
        let code = match &error {
            StoreError::Fenced { .. } => Code::StoreLost,
            // The store reports it as text only.
            StoreError::Failed(problem) if problem.contains("is full") => Code::StoreFull,
            _ => Code::StoreFailed,
        };
        Self::new(code, error.to_string()).again_after(1)
    }
}

/// A message that was never answered: the world is going down.
impl From<turnwheel_runtime::Failure> for Problem {
    fn from(failure: turnwheel_runtime::Failure) -> Self {
        Self::new(Code::PlanRefused, format!("the request was not answered: {failure}"))
            .again_after(1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use turnwheel_engine::PlanId;
    use turnwheel_flow::FlowError;

    use super::*;

    #[test]
    fn node_that_does_not_answer_is_no_failure_of_this_server() {
        let plan = PlanId::from_bytes([1; 16]);
        let code = |error| Problem::from(PlanError::Connect { plan, error }).code;
        let limit = Duration::from_secs(30);
        assert_eq!(code(ConnectError::TimedOut { limit }), Code::PlanTimedOut);
        assert_eq!(code(ConnectError::Gone { world: 3 }), Code::PlanRefused);
        let what = "plans".to_owned();
        assert_eq!(code(ConnectError::NoExecutor { what }), Code::PlanRefused);
    }

    #[test]
    fn event_that_nobody_takes_now_may_come_again() {
        let failed = StoreError::Failed("read-only".to_owned());
        let stored = Problem::from(FlowError::Trigger(TriggerError::Store(failed)));
        assert_eq!((stored.code, stored.again), (Code::StoreFailed, Some(1)));
        let passing = Problem::from(FlowError::Passing("no answer".to_owned()));
        assert_eq!((passing.code, passing.again), (Code::PlanRefused, Some(1)));
    }
}
