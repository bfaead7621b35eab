//! Messages to a plan's actor.

use std::sync::Arc;

use turnwheel_runtime::Completer;

use super::OrderKind;
use crate::action::Returned;
use crate::error::{ActionError, PlanError, TriggerError};
use crate::id::{PlanId, StepId};
use crate::journal::EntryOutcome;
use crate::payload::Payload;
use crate::plan::{Created, Plan, PlanResult, Planned, Record, Trace};

/// The plan begins.
pub(crate) struct Begin {
    pub(crate) created: Box<Created>,
    pub(crate) planned: Box<Planned>,
    pub(crate) reply: Completer<Result<Begun, TriggerError>>,
}

/// The plan has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// The plan: another one if that has taken the idempotency key before.
    pub(crate) plan: PlanId,
}

/// An event for a step.
pub(crate) struct Deliver {
    pub(crate) step: StepId,
    pub(crate) id: Option<String>,
    pub(crate) payload: Payload,
    /// Sender; `None` for the program itself.
    pub(crate) by: Option<String>,
    pub(crate) reply: Completer<Result<Delivered, PlanError>>,
    /// Whether it is a dead letter if it is refused.
    pub(crate) is_kept: bool,
}

/// When a step got an event that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// By this request.
    Now,
    /// By an earlier one with the same id.
    Before,
}

/// Somebody wants something done with the plan.
pub(crate) struct Order {
    pub(crate) kind: OrderKind,
    pub(crate) by: String,
    pub(crate) reply: Completer<Result<(), PlanError>>,
}

/// Time has come for something, or the plan is to be looked at after a start.
pub(crate) struct Wake;

/// Tell who waits for the plan if it is not under way.
pub(crate) struct Report {
    pub(crate) view: Option<Completer<Result<Arc<Plan>, PlanError>>>,
}

/// News of the entry under way.
pub(super) struct Committed(pub(super) EntryOutcome);

/// The pause after a failed commit is over.
pub(super) struct WriteAgain;

/// A call of a step's code has ended.
pub(super) struct CallReturned {
    pub(super) step: StepId,
    pub(super) call: u32,
    pub(super) returned: Returned,
    pub(super) ran_us: u64,
}

/// Hooks were told of the plan's changes up to this number.
pub(super) struct HooksTold {
    pub(super) last: u32,
}

/// The plan begins, to be planned later.
pub(crate) struct Delay {
    pub(crate) created: Box<Created>,
    /// [`Record::Delayed`].
    pub(crate) delayed: Record,
    pub(crate) reply: Completer<Result<Begun, TriggerError>>,
}

/// A step of another plan starts this one; it is created if it does not exist.
pub(crate) struct BeginChild {
    pub(crate) caller: (PlanId, StepId),
    /// The plans that wait for it, by way of that one too.
    pub(crate) lineage: Vec<PlanId>,
    /// The trace that it belongs to, with the call of that step as the parent.
    pub(crate) trace: Option<Trace>,
    pub(crate) action: String,
    pub(crate) input: Payload,
    /// Of the plan that asks for it.
    pub(crate) priority: i32,
    pub(crate) labels: Vec<(String, String)>,
}

/// Another world has the plan begin here.
pub(crate) struct BeginElsewhere {
    pub(crate) created: Box<Created>,
    /// [`Record::Delayed`], if it is planned later.
    pub(crate) delayed: Option<Record>,
    /// Whether it must not exist: somebody has chosen its id.
    pub(crate) is_chosen: bool,
    pub(crate) reply: Completer<Result<Begun, TriggerError>>,
}

/// Plans that this one waits for may be in other worlds by now: it asks for them again.
pub(crate) struct AskAgain;

/// The planning of this plan has ended.
pub(super) struct PlannedNow {
    /// Its first record, if it does not exist yet.
    pub(super) created: Option<Box<Created>>,
    pub(super) planned: Result<Box<Planned>, ActionError>,
    /// The waiter for its begin.
    pub(super) reply: Option<Completer<Result<Begun, TriggerError>>>,
}

/// Another plan is over.
pub(crate) struct PlanEnded {
    pub(crate) plan: PlanId,
    pub(crate) result: PlanResult,
}

/// Another plan wants to know when this one is over.
pub(crate) struct Follow {
    pub(crate) follower: PlanId,
}
