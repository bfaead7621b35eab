//! The codes of problems: each has a page in `docs/errors.md`.

use axum::http::StatusCode;

macro_rules! codes {
    ($($name:ident = $code:literal, $status:ident, $title:literal;)*) => {
        /// The code of a problem, for programs. Codes never change; new ones may be added.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $title] $name,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As in the answer.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The status of the code.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// A short title.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

codes! {
    ActionUnknown = "action-unknown", UNPROCESSABLE_ENTITY, "There is no such action";
    BodyInvalid = "body-invalid", UNPROCESSABLE_ENTITY, "The body does not say what is needed";
    BodyNotJson = "body-not-json", BAD_REQUEST, "The body is not JSON";
    BodyTooLarge = "body-too-large", PAYLOAD_TOO_LARGE, "The body is too large";
    BodyTooSlow = "body-too-slow", REQUEST_TIMEOUT, "The body did not come in time";
    BodyTypeWrong = "body-type-wrong", UNSUPPORTED_MEDIA_TYPE, "The body has the wrong type";
    CallbackUnknown = "callback-unknown", NOT_FOUND, "There is no such callback";
    ConnectionsFull = "connections-full", SERVICE_UNAVAILABLE, "All connections have requests under way";
    CursorInvalid = "cursor-invalid", BAD_REQUEST, "The cursor is not one of this list";
    EntityUnknown = "entity-unknown", NOT_FOUND, "There is no such type of entities, or no such key";
    EventInvalid = "event-invalid", BAD_REQUEST, "The request is no event";
    FlowExists = "flow-exists", CONFLICT, "This version of the flow has another content";
    FlowInUse = "flow-in-use", CONFLICT, "Plans or schedules use the flow";
    FlowInvalid = "flow-invalid", UNPROCESSABLE_ENTITY, "The flow cannot be used";
    FlowUnknown = "flow-unknown", NOT_FOUND, "There is no such flow";
    Forbidden = "forbidden", FORBIDDEN, "The role does not allow this";
    HostRefused = "host-refused", MISDIRECTED_REQUEST, "The request names another host";
    IdInvalid = "id-invalid", BAD_REQUEST, "The path names something that cannot be";
    InputInvalid = "input-invalid", UNPROCESSABLE_ENTITY, "The input does not fit the action";
    Internal = "internal", INTERNAL_SERVER_ERROR, "The server has failed";
    JobInvalid = "job-invalid", BAD_REQUEST, "The job cannot be as it is described";
    JobState = "job-state", CONFLICT, "The job is not in a state for this";
    JobUnknown = "job-unknown", NOT_FOUND, "There is no such job or launch";
    JobsPaused = "jobs-paused", SERVICE_UNAVAILABLE, "Changes of jobs are paused";
    JourneyInvalid = "journey-invalid", UNPROCESSABLE_ENTITY, "The journey or its request cannot be as it is described";
    JourneyUnknown = "journey-unknown", NOT_FOUND, "There is no such journey";
    KeyReused = "key-reused", UNPROCESSABLE_ENTITY, "The idempotency key was used for another request";
    LeaseLost = "lease-lost", CONFLICT, "The task is not this worker's any more";
    LetterUnknown = "letter-unknown", NOT_FOUND, "There is no such dead letter";
    MessageUnknown = "message-unknown", NOT_FOUND, "The user has no such message that was given up";
    MethodWrong = "method-wrong", METHOD_NOT_ALLOWED, "The method is not allowed here";
    NodeUnknown = "node-unknown", NOT_FOUND, "There is no such node";
    OriginRefused = "origin-refused", FORBIDDEN, "The request comes from another site";
    PathUnknown = "path-unknown", NOT_FOUND, "There is nothing at this path";
    PlanExists = "plan-exists", CONFLICT, "A plan with this id exists";
    PlanNotPlanned = "plan-not-planned", UNPROCESSABLE_ENTITY, "Planning failed";
    PlanRefused = "plan-refused", SERVICE_UNAVAILABLE, "The plan could not be reached";
    PlanState = "plan-state", CONFLICT, "The plan is not in a state for this";
    PlanTimedOut = "plan-timed-out", GATEWAY_TIMEOUT, "The plan did not answer in time";
    PlanUnknown = "plan-unknown", NOT_FOUND, "There is no such plan";
    PreconditionFailed = "precondition-failed", PRECONDITION_FAILED, "It was changed since it was read";
    QueryInvalid = "query-invalid", BAD_REQUEST, "The query asks for something that cannot be";
    ScheduleInvalid = "schedule-invalid", UNPROCESSABLE_ENTITY, "The schedule cannot be as it is described";
    ScheduleState = "schedule-state", CONFLICT, "The schedule is not in a state for this";
    ScheduleUnknown = "schedule-unknown", NOT_FOUND, "There is no such schedule";
    StepUnknown = "step-unknown", NOT_FOUND, "The plan has no such step";
    StopUnderWay = "stop-under-way", SERVICE_UNAVAILABLE, "The server is stopping";
    StoreDamaged = "store-damaged", INTERNAL_SERVER_ERROR, "The store is damaged";
    StoreFailed = "store-failed", SERVICE_UNAVAILABLE, "The store has failed";
    StoreFull = "store-full", INSUFFICIENT_STORAGE, "The store is full";
    StoreLost = "store-lost", SERVICE_UNAVAILABLE, "Another server has taken over the store";
    TooManyRequests = "too-many-requests", TOO_MANY_REQUESTS, "Too many requests";
    Unauthorized = "unauthorized", UNAUTHORIZED, "Who is asking is not known";
    UserChanged = "user-changed", CONFLICT, "The attributes of the user were changed since they were read";
}
