//! The shapes of the HTTP API: the JSON of requests and answers, for the server and for its
//! clients.
//!
//! Times are texts of RFC 3339 in UTC, durations are numbers whose names end with their unit.
//! Fields may be added within a version of the API; none is removed, and none changes its meaning.

mod ended;
mod flow;
mod job;
mod journey;
mod launch;
mod live;
mod node;
mod order;
mod picture;
mod plan;
mod problem;
mod runtime;
mod schedule;
mod start;
mod step;
mod work;
mod world;

pub use ended::{Ended, EndedName, EndedPlans};
pub use flow::{
    EventTaker, EventsDone, FlowDetail, FlowInfo, FlowList, FlowProblem, FlowRun, FlowTaskInfo,
    PublishedEvent, RecentEvent, RecentEvents,
};
pub use job::{
    JobAfter, JobBackoff, JobDialect, JobEnd, JobEvent, JobGap, JobHash, JobMissed, JobNoNode,
    JobNodes, JobNotify, JobOverlap, JobSpec, JobUnknown,
};
pub use journey::{
    ElementCounts, JourneyCounts, JourneyElement, JourneyInfo, JourneyPage, JourneyTried,
    MessageInfo, MoveInfo, PassInfo, TriedMessage, TriedMove, TriedProblem, UserEventDone,
    UserEventsDone, UserForgotten, UserInfo, WaitInfo,
};
pub use launch::{
    JobCause, JobExecutorInfo, JobExecutors, JobHistory, JobInfo, JobLaunch, JobLaunchState,
    JobLaunched, JobOutcome, JobOutput, JobPage, JobRunInfo, JobRunState, JobTimes, JobsChecked,
};
pub use live::{CutOff, HappeningInfo};
pub use node::{NodeInfo, Nodes, SlotMap, SlotRun, LABEL};
pub use order::{BulkDone, BulkOrder, BulkPlan, ManyOrder, Order, OrderDone};
pub use picture::{
    Bar, CallInfo, Calls, Edge, Graph, GraphJoint, GraphNode, GraphRest, History, Node, Span,
    Timeline, Tree, TreeNode,
};
pub use plan::{
    CallerInfo, CancelInfo, DelayInfo, Filter, HistoryLine, PlanDetail, PlanPage, PlanSummary,
    SubPlanInfo, TimerInfo,
};
pub use problem::Problem;
pub use runtime::{
    BucketInfo, ClassInfo, EntityInfo, EntityTypeInfo, EntityTypes, GroupInfo, LatencyInfo,
    RuntimeInfo, StoredInfo, TurnInfo, WorkerInfo,
};
pub use schedule::{
    Backfill, BackfillDone, CatchUpSpec, LaunchInfo, OverlapSpec, PauseInfo, ScheduleInfo,
    SchedulePage, SchedulePause, ScheduleSpec, ScheduleSpecInfo, ScheduleTimes, TimingSpec,
};
pub use start::{Rerun, Start, Started};
pub use step::{ErrorInfo, EventDone, EventFor, HeartbeatFor, StepInfo, StepPage};
pub use work::{
    Callback, Lease, Leased, Task, TaskComplete, TaskDone, TaskFail, TaskHeartbeat, TaskHeld, Topic,
};
pub use world::{
    ActionEntry, Actions, CountInfo, DeadLetterInfo, DeadLetterPage, Health, IncidentInfo,
    LockInfo, Locks, QueueInfo, Queues, Redeliver, RetentionInfo, SessionInfo, SignIn, Stats,
    WaitingInfo, WorldInfo,
};
