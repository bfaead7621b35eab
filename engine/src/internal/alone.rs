//! Phases of one action, called without a plan around them.

use std::sync::Arc;

use super::Later;
use crate::action::{
    Action, AnyAction, Begun, Call, CallKind, CancelFlag, Cause, Facts, Returned, DEFAULT_QUEUE,
};
use crate::error::ActionError;
use crate::id::{ActionId, StepId};
use crate::payload::Payload;
use crate::plan::{
    plan_alone as plan, Flow, Planned, PlannedAction, PlannedStep, StepKind, SubPlanCounts,
};
use crate::world::{Triggering, World};

/// Phase of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The run phase.
    Run,
    /// The finalize phase.
    Finalize,
    /// The compensation.
    Revert,
}

/// Call of a phase that has begun.
#[allow(missing_debug_implementations, reason = "it is a future or over")]
pub enum Calling {
    /// The call blocked, and is over.
    Over(Over),
    /// The call is polled.
    Polled(Later<'static, Over>),
}

/// End of a call.
#[derive(Debug)]
pub struct Over {
    /// Its result.
    pub result: Result<(), ActionError>,
    /// The output, if it changed.
    pub output: Option<Payload>,
}

impl From<Returned> for Over {
    fn from(returned: Returned) -> Self {
        Self { result: returned.result.map(|_| ()), output: returned.output }
    }
}

fn known<A: Action>(world: &World) -> &Arc<dyn AnyAction> {
    world.shared().registry().find(A::NAME).expect("the world was made with the action")
}

/// Whether an action of a world has a phase.
///
/// # Panics
///
/// The world does not know the action.
pub fn has_phase<A: Action>(world: &World, phase: Phase) -> bool {
    let known = known::<A>(world);
    match phase {
        Phase::Run => known.runs(),
        Phase::Finalize => known.finalizes(),
        Phase::Revert => known.reverts(),
    }
}

/// Calls the planning of an action. What it plans is noted and not planned itself.
pub fn plan_alone<A: Action>(world: &World, input: A::Input) -> Planned {
    let shared = world.shared();
    let id = shared.ids().next(shared.now());
    plan::<A>(shared.registry(), id, input, || shared.now())
}

/// Begins a plan of one run step, without planning.
pub fn run_alone<A: Action>(world: &World, input: Payload) -> Triggering {
    let planned = input.clone();
    world.begin_planned::<A>(input, move |_, at| Planned {
        began: at,
        at,
        label: A::NAME.to_owned(),
        actions: vec![PlannedAction {
            name: A::NAME.to_owned(),
            version: A::VERSION,
            parent: None,
            input: planned,
            needs: Vec::new(),
        }],
        steps: vec![step(StepKind::Plan), step(StepKind::Run)],
        run: Flow::Step(StepId(2)),
        finalize: Vec::new(),
        error: None,
        locks: Vec::new(),
    })
}

fn step(kind: StepKind) -> PlannedStep {
    let (action, queue) = (ActionId(1), DEFAULT_QUEUE.to_owned());
    PlannedStep { kind, action, weight: 1_000, queue, error: None }
}

/// Calls a phase of an action with this input and the output of the phases before it.
///
/// # Panics
///
/// The world does not know the action.
pub fn call_alone<A: Action>(
    world: &World,
    phase: Phase,
    input: Payload,
    output: Payload,
    failure: Option<ActionError>,
) -> Calling {
    let shared = world.shared();
    let now = shared.now();
    let kind = match phase {
        Phase::Run => CallKind::Run,
        Phase::Finalize => CallKind::Finalize,
        Phase::Revert => CallKind::Revert,
    };
    let facts = Facts {
        plan: shared.ids().next(now),
        step: StepId(2),
        action: ActionId(1),
        attempt: 1,
        is_first_call: true,
        run: 1,
        event: None,
        now,
        cause: Cause::Turn,
        cancelled: CancelFlag::default(),
        sub_plans: SubPlanCounts::default(),
        asked: None,
        ids: Arc::clone(shared.ids()),
        beat: None,
        world: Arc::downgrade(shared),
        root: input.clone(),
        created_at: now,
        failure,
        chunk_bytes: 0,
        trace: None,
    };
    let call = Call { kind, facts: Box::new(facts), input, output };
    match shared.registry().begin(A::NAME, known::<A>(world), call) {
        Begun::Blocking(code) => Calling::Over(code().into()),
        Begun::Async(future) => Calling::Polled(Box::pin(async { future.await.into() })),
    }
}
