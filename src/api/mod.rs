//! The shapes of the HTTP API: what goes over the wire, for the server and for its clients.
//!
//! Times are texts of RFC 3339 in UTC, durations are numbers whose names end with their unit. Fields may
//! be added within a version of the API; none is taken away, and none changes its meaning.

mod order;
mod plan;
mod problem;
mod schedule;
mod start;
mod step;
mod world;

pub use order::{BulkDone, BulkOrder, BulkPlan, ManyOrder, Order, OrderDone};
pub use plan::{
    CallerInfo, CancelInfo, DelayInfo, Filter, HistoryLine, PlanDetail, PlanPage, PlanSummary,
    SubPlanInfo, TimerInfo,
};
pub use problem::Problem;
pub use schedule::{
    Backfill, BackfillDone, CatchUpSpec, LaunchInfo, OverlapSpec, PauseInfo, ScheduleInfo,
    SchedulePage, SchedulePause, ScheduleSpec, ScheduleSpecInfo, ScheduleTimes, TimingSpec,
};
pub use start::{Start, Started};
pub use step::{
    ErrorInfo, EventDone, EventFor, FlowNode, Graph, HeartbeatFor, Node, StepInfo, StepPage,
};
pub use world::{ActionEntry, Actions, Health, LockInfo, Locks, QueueInfo, Queues, Stats};
