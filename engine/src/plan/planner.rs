//! Planning: actions make steps, in the thread that triggers the plan.

use std::marker::PhantomData;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use super::flow::{Flow, Graph};
use super::record::{Planned as PlannedRecord, PlannedAction, PlannedStep};
use super::reference::{needs_of, OutputRef};
use super::state::StepKind;
use crate::action::{panic_message, Action, PlanLock, Registry, DEFAULT_QUEUE};
use crate::error::{cut, ActionError, TextTooLong, UNKNOWN_ACTION};
use crate::id::{ActionId, PlanId, StepId};
use crate::limits::{LOCK_NAME_BYTES_MAX, PLANNING_DEPTH_MAX, PLAN_LABEL_BYTES_MAX, STEPS_MAX};
use crate::payload::Payload;
use crate::time::Time;

/// Thousandths in the weight 1, which is that of a step by default.
pub(crate) const WEIGHT_ONE: u32 = 1_000;

/// Tool with which an action's [`plan`](Action::plan) makes the plan.
pub struct Planner<'a, A: Action> {
    planning: &'a mut Planning,
    id: ActionId,
    extended: Option<&'static str>,
    action: PhantomData<fn() -> A>,
}

impl<A: Action> std::fmt::Debug for Planner<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planner").field("action", &A::NAME).finish_non_exhaustive()
    }
}

/// An action that was planned: for references to its output.
pub struct ActionRef<A: Action> {
    plan: PlanId,
    run: Option<StepId>,
    action: PhantomData<fn() -> A>,
}

impl<A: Action> std::fmt::Debug for ActionRef<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActionRef").field("action", &A::NAME).field("run", &self.run).finish()
    }
}

impl<A: Action> ActionRef<A> {
    /// A reference to the whole output.
    ///
    /// # Errors
    ///
    /// The action has planned no run step, so it will have no output.
    pub fn output(&self) -> Result<OutputRef<A::Output>, ActionError> {
        self.reference(&[], |output| output)
    }

    /// Implementation of [`output!`](crate::output): a reference to a field, whose type comes from
    /// the function.
    ///
    /// # Errors
    ///
    /// As [`ActionRef::output`].
    #[doc(hidden)]
    pub fn reference<T>(
        &self,
        path: &[&str],
        typed: fn(&A::Output) -> &T,
    ) -> Result<OutputRef<T>, ActionError> {
        let _ = typed;
        let Some(run) = self.run else {
            let message = format!("«{}» has planned no run step, so it has no output", A::NAME);
            return Err(ActionError::new("no_output", message).and_final());
        };
        Ok(OutputRef::new(self.plan, run, path))
    }
}

impl<A: Action> Planner<'_, A> {
    /// The plan's id.
    pub fn plan_id(&self) -> PlanId {
        self.planning.plan
    }

    /// Adds this action's own steps, one for each phase it has besides planning, with this input.
    ///
    /// # Errors
    ///
    /// The input cannot be written as JSON, refers to what is not in this plan, or the plan has
    /// [`STEPS_MAX`] steps.
    pub fn plan_self(&mut self, input: A::Input) -> Result<ActionRef<A>, ActionError> {
        let input = Payload::of(&input).map_err(|error| error.of("the input", A::NAME))?;
        self.planning.plan_self(self.id, input)?;
        Ok(self.planning.reference(self.id))
    }

    /// Plans another action as a part of this plan: its own [`plan`](Action::plan) is called.
    ///
    /// # Errors
    ///
    /// The error of its planning, also recorded at its step; it is not registered; or the plan is
    /// too deep or too large.
    pub fn plan_action<B: Action>(&mut self, input: B::Input) -> Result<ActionRef<B>, ActionError> {
        let id = self.planning.plan_child::<B>(Some(self.id), None, input)?;
        Ok(self.planning.reference(id))
    }

    /// The name of the action whose planning this one has joined, if it is planned because it
    /// [extends](crate::WorldBuilder::extend) that; `None` if it was planned by name.
    pub fn extended(&self) -> Option<&'static str> {
        self.extended
    }

    /// Actions planned inside run one after the other.
    ///
    /// # Errors
    ///
    /// Those of the function.
    pub fn sequence<R>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<R, ActionError>,
    ) -> Result<R, ActionError> {
        self.scope(part, Flow::Sequence)
    }

    /// Actions planned inside run at the same time, as far as none needs the output of another.
    /// This is the default outside of sequences.
    ///
    /// # Errors
    ///
    /// Those of the function.
    pub fn concurrence<R>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<R, ActionError>,
    ) -> Result<R, ActionError> {
        self.scope(part, Flow::Concurrence)
    }

    /// Sets the label of the plan, by default the name of its root action. Only the root action's
    /// label counts. One of more than [`PLAN_LABEL_BYTES_MAX`] fails the planning.
    pub fn label(&mut self, label: impl Into<String>) {
        if self.id == ActionId(1) {
            self.planning.label = Some(label.into());
        }
    }

    fn scope<R>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<R, ActionError>,
        kind: fn(Vec<Flow>) -> Flow,
    ) -> Result<R, ActionError> {
        self.planning.scopes.push(Vec::new());
        let result = part(self);
        self.planning.close_scope(kind);
        result
    }
}

/// A plan that is being made.
pub(crate) struct Planning {
    plan: PlanId,
    registry: Arc<Registry>,
    actions: Vec<PlannedAction>,
    /// The run step of each action.
    runs: Vec<Option<StepId>>,
    /// The queue of each action, its own or inherited.
    queues: Vec<Arc<str>>,
    locks: Vec<PlanLock>,
    steps: Vec<PlannedStep>,
    finalize: Vec<StepId>,
    scopes: Vec<Vec<Flow>>,
    depth: usize,
    label: Option<String>,
    /// Whether what the root plans is only noted, and not planned itself.
    is_alone: bool,
}

/// Plans an action as the root of a plan. The outcome is a record in every case.
pub(crate) fn plan_root<A: Action>(
    registry: &Arc<Registry>,
    plan: PlanId,
    input: Result<A::Input, ActionError>,
    clock: impl Fn() -> Time,
) -> PlannedRecord {
    plan_with::<A>(registry, plan, input, clock, false)
}

/// As [`plan_root`], but the actions that it plans are only noted, with their inputs and a run step each:
/// they need not be registered.
pub(crate) fn plan_alone<A: Action>(
    registry: &Arc<Registry>,
    plan: PlanId,
    input: A::Input,
    clock: impl Fn() -> Time,
) -> PlannedRecord {
    plan_with::<A>(registry, plan, Ok(input), clock, true)
}

fn plan_with<A: Action>(
    registry: &Arc<Registry>,
    plan: PlanId,
    input: Result<A::Input, ActionError>,
    clock: impl Fn() -> Time,
    is_alone: bool,
) -> PlannedRecord {
    let mut planning = Planning {
        plan,
        registry: Arc::clone(registry),
        actions: Vec::new(),
        runs: Vec::new(),
        queues: Vec::new(),
        locks: Vec::new(),
        steps: Vec::new(),
        finalize: Vec::new(),
        scopes: vec![Vec::new()],
        depth: 0,
        label: None,
        is_alone,
    };
    let began = clock();
    let outcome = input.and_then(|input| {
        let planned = catch_unwind(AssertUnwindSafe(|| planning.plan_all::<A>(input)));
        planned.unwrap_or_else(|panic| {
            Err(ActionError::new("panic", panic_message(panic)).and_final())
        })
    });
    planning.end(A::NAME, outcome.err(), began, clock())
}

impl Planning {
    pub(super) fn plan_child<B: Action>(
        &mut self,
        parent: Option<ActionId>,
        extended: Option<&'static str>,
        input: B::Input,
    ) -> Result<ActionId, ActionError> {
        if self.is_alone && parent.is_some() {
            return self.note::<B>(parent, &input);
        }
        let Some(action) = self.registry.get::<B>() else {
            let message = format!("no action «{}» is registered with this world", B::NAME);
            return Err(ActionError::new(UNKNOWN_ACTION, message).and_final());
        };
        if self.depth >= PLANNING_DEPTH_MAX {
            return Err(self.too_deep(parent, B::NAME));
        }
        let id = ActionId::at(self.actions.len());
        self.actions.push(PlannedAction {
            name: B::NAME.to_owned(),
            version: B::VERSION,
            parent,
            input: Payload::null(),
            needs: Vec::new(),
        });
        self.runs.push(None);
        let inherited = || parent.map(|parent| Arc::clone(&self.queues[parent.index()]));
        let queue = action.queue().map(Arc::from).or_else(inherited);
        self.queues.push(queue.unwrap_or_else(|| Arc::from(DEFAULT_QUEUE)));
        let step = self.add_step(StepKind::Plan, id, WEIGHT_ONE, "")?;
        self.depth += 1;
        self.scopes.push(Vec::new());
        let scopes = self.scopes.len();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.lock(&*action, &input)?;
            self.plan_one::<B>(&action, id, extended, input)
        }));
        let outcome = outcome.unwrap_or_else(|panic| {
            Err(ActionError::new("panic", panic_message(panic)).and_final())
        });
        let outcome = outcome.map_err(ActionError::within_limits);
        // A panic inside of `sequence` has left its scope open.
        self.scopes.truncate(scopes);
        self.close_scope(Flow::Concurrence);
        self.depth -= 1;
        if let Err(error) = &outcome {
            self.steps[step.index()].error = Some(error.clone());
        }
        outcome.map(|()| id)
    }

    /// Notes an action that the root plans, with a run step that stands for all it may have.
    fn note<B: Action>(
        &mut self,
        parent: Option<ActionId>,
        input: &B::Input,
    ) -> Result<ActionId, ActionError> {
        let input = Payload::of(input).map_err(|error| error.of("the input", B::NAME))?;
        let needs = needs_of(&input).iter().map(|place| place.step).collect();
        let id = ActionId::at(self.actions.len());
        let (name, version) = (B::NAME.to_owned(), B::VERSION);
        self.actions.push(PlannedAction { name, version, parent, input, needs });
        self.queues.push(Arc::from(DEFAULT_QUEUE));
        let run = self.add_step(StepKind::Run, id, WEIGHT_ONE, DEFAULT_QUEUE)?;
        self.runs.push(Some(run));
        self.scope().push(Flow::Step(run));
        Ok(id)
    }

    /// The lock of an action, if it has one. The plan takes it once, however often it has the action.
    fn lock<B: Action>(&mut self, action: &B, input: &B::Input) -> Result<(), ActionError> {
        let Some(singleton) = action.singleton() else { return Ok(()) };
        let lock = singleton.lock(B::NAME, input);
        TextTooLong::check("name of the lock", &lock.name, LOCK_NAME_BYTES_MAX)
            .map_err(|error| ActionError::new("too_long", error).and_final())?;
        if !self.locks.contains(&lock) {
            self.locks.push(lock);
        }
        Ok(())
    }

    fn plan_self(&mut self, id: ActionId, input: Payload) -> Result<(), ActionError> {
        let name = &self.actions[id.index()].name;
        if self.run_step(id).is_some() {
            let message = format!("«{name}» has planned itself already");
            return Err(ActionError::new("planned_twice", message).and_final());
        }
        let mut needs = Vec::new();
        for place in needs_of(&input) {
            let known = self.steps.get(place.step.0.wrapping_sub(1) as usize);
            let is_run = known.is_some_and(|step| step.kind == StepKind::Run);
            if place.plan != self.plan || !is_run {
                let message = format!(
                    "the input of «{name}» refers to the output of step {} of plan {}, which is no \
                     run step of this plan",
                    place.step, place.plan
                );
                return Err(ActionError::new("foreign_reference", message).and_final());
            }
            needs.push(place.step);
        }
        needs.sort_unstable();
        needs.dedup();
        let known = self.registry.find(name).expect("it was found when its planning began");
        let known = Arc::clone(known);
        let action = &mut self.actions[id.index()];
        action.input = input;
        action.needs = needs;
        let queue = Arc::clone(&self.queues[id.index()]);
        if known.runs() {
            let run = self.add_step(StepKind::Run, id, known.run_weight(), &queue)?;
            self.runs[id.index()] = Some(run);
            self.scope().push(Flow::Step(run));
        }
        if known.finalizes() {
            let step = self.add_step(StepKind::Finalize, id, known.finalize_weight(), &queue)?;
            self.finalize.push(step);
        }
        Ok(())
    }

    fn add_step(
        &mut self,
        kind: StepKind,
        action: ActionId,
        weight: u32,
        queue: &str,
    ) -> Result<StepId, ActionError> {
        if self.steps.len() >= STEPS_MAX {
            let chain = self.chain(Some(action));
            let message = format!(
                "the plan has {STEPS_MAX} steps, which is the limit, in {chain}: use sub-plans"
            );
            return Err(ActionError::new("too_many_steps", message).and_final());
        }
        let id = StepId::at(self.steps.len());
        let queue = queue.to_owned();
        self.steps.push(PlannedStep { kind, action, weight, queue, error: None });
        Ok(id)
    }

    /// For references to the output of an action.
    pub(super) fn reference<B: Action>(&self, id: ActionId) -> ActionRef<B> {
        ActionRef { plan: self.plan, run: self.run_step(id), action: PhantomData }
    }

    pub(super) fn planner<B: Action>(
        &mut self,
        id: ActionId,
        extended: Option<&'static str>,
    ) -> Planner<'_, B> {
        Planner { planning: self, id, extended, action: PhantomData }
    }

    pub(super) fn plan_id(&self) -> PlanId {
        self.plan
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry)
    }

    pub(super) fn name_of(&self, action: ActionId) -> String {
        self.actions[action.index()].name.clone()
    }

    fn run_step(&self, action: ActionId) -> Option<StepId> {
        self.runs[action.index()]
    }

    fn scope(&mut self) -> &mut Vec<Flow> {
        self.scopes.last_mut().expect("the outermost scope is closed by `end`")
    }

    fn close_scope(&mut self, kind: fn(Vec<Flow>) -> Flow) {
        let parts = self.scopes.pop().unwrap_or_default();
        if !parts.is_empty() {
            self.scope().push(kind(parts));
        }
    }

    /// Whether what was planned can be run.
    pub(super) fn check(&self) -> Result<(), ActionError> {
        // A parent may have caught the failure of a child: the plan fails all the same.
        if let Some(error) = self.steps.iter().find_map(|step| step.error.clone()) {
            return Err(error);
        }
        let label = self.label.as_deref().unwrap_or_default();
        TextTooLong::check("label of the plan", label, PLAN_LABEL_BYTES_MAX)
            .map_err(|error| ActionError::new("too_long", error).and_final())?;
        if self.actions.iter().all(|action| action.needs.is_empty()) {
            // The order as written has no circles: only references can make one.
            return Ok(());
        }
        let mut graph = Graph::new(self.steps.len(), &Flow::Concurrence(self.scopes[0].clone()));
        for (index, action) in self.actions.iter().enumerate() {
            if let Some(later) = self.run_step(ActionId::at(index)) {
                action.needs.iter().for_each(|earlier| graph.add(*earlier, later));
            }
        }
        if graph.is_acyclic() {
            return Ok(());
        }
        let message =
            "steps wait for one another in a circle: a sequence puts the step that uses an \
                       output before the one that makes it";
        Err(ActionError::new("circle", message).and_final())
    }

    fn end(
        mut self,
        name: &str,
        error: Option<ActionError>,
        began: Time,
        at: Time,
    ) -> PlannedRecord {
        let run = Flow::Concurrence(std::mem::take(&mut self.scopes[0])).simplified();
        PlannedRecord {
            began,
            at,
            label: cut(self.label.unwrap_or_else(|| name.to_owned()), PLAN_LABEL_BYTES_MAX),
            actions: self.actions,
            steps: self.steps,
            run,
            finalize: self.finalize,
            error,
            locks: self.locks,
        }
    }

    fn too_deep(&self, parent: Option<ActionId>, name: &str) -> ActionError {
        let chain = self.chain(parent);
        let message = format!(
            "actions plan actions {PLANNING_DEPTH_MAX} deep, which is the limit: {chain} → {name}; \
             does one plan itself?"
        );
        ActionError::new("too_deep", message).and_final()
    }

    /// The names from the root to an action; of a long chain the ends.
    fn chain(&self, mut action: Option<ActionId>) -> String {
        let mut names = Vec::new();
        while let Some(id) = action {
            let data = &self.actions[id.index()];
            names.push(data.name.as_str());
            action = data.parent;
        }
        names.reverse();
        if names.len() > 8 {
            let last = names.split_off(names.len() - 4);
            names.truncate(4);
            names.push("…");
            names.extend(last);
        }
        names.join(" → ")
    }
}
