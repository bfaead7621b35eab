//! Presentation of actions: sensitive values masked, states and outputs in their words.

use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use serde_json::Value;

use super::{panic_message, AnyAction, Registry};
use crate::id::ActionId;
use crate::middleware::AnyMiddleware;
use crate::payload::Payload;
use crate::plan::{ActionData, Plan, PlanResult, PlanState, StepState};

/// Text in place of a masked value.
pub const MASK: &str = "••••";

/// A plan as people see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlanShown {
    /// Its label.
    pub label: String,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Its state.
    pub state: PlanState,
    /// Its result.
    pub result: PlanResult,
    /// Its progress, from 0 to 1.
    pub progress: f64,
    /// Its actions, the root first.
    pub actions: Vec<Shown>,
}

/// An action as people see it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shown {
    /// Its id in the plan.
    pub id: ActionId,
    /// Its name.
    pub name: String,
    /// The action that planned it.
    pub parent: Option<ActionId>,
    /// Whether this world knows the action; else it is shown as it was stored.
    pub is_known: bool,
    /// Its state, in words.
    pub state: String,
    /// Its result, in a sentence, if the action provides one.
    pub summary: Option<String>,
    /// Its input.
    pub input: Value,
    /// Its output.
    pub output: Value,
}

/// An action about to be shown; changes of it change no stored data.
pub struct ActionView<'a> {
    /// The data to show.
    pub shown: Shown,
    plan: &'a Plan,
    rest: &'a [Arc<dyn AnyMiddleware>],
    action: Option<&'a Arc<dyn AnyAction>>,
}

impl fmt::Debug for ActionView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActionView").field(&self.shown.name).finish()
    }
}

impl ActionView<'_> {
    /// Goes on: the next middleware inside, at last the action. For middleware only; an action that
    /// calls it shows itself twice.
    pub fn pass(&mut self) {
        match self.rest.split_first() {
            Some((next, rest)) => {
                let before = std::mem::replace(&mut self.rest, rest);
                next.present(self);
                self.rest = before;
            }
            None => {
                if let Some(action) = self.action.take() {
                    action.present(self);
                    self.action = Some(action);
                }
            }
        }
    }

    /// Hides a value of the input and of the output: a JSON pointer such as `/card/number`.
    pub fn mask(&mut self, pointer: &str) {
        let values = [&mut self.shown.input, &mut self.shown.output];
        for value in values.into_iter().filter_map(|value| value.pointer_mut(pointer)) {
            *value = Value::from(MASK);
        }
    }

    /// Says what came of the action.
    pub fn summary(&mut self, summary: impl Into<String>) {
        self.shown.summary = Some(summary.into());
    }

    /// Says where the action is, in other words than the engine's.
    pub fn state(&mut self, state: impl Into<String>) {
        self.shown.state = state.into();
    }

    /// The plan, as it is stored: nothing is masked in it.
    pub fn plan(&self) -> &Plan {
        self.plan
    }

    /// The actions that this one has planned itself.
    pub fn planned(&self) -> impl Iterator<Item = &ActionData> {
        self.plan.children(self.shown.id)
    }

    /// The actions that this one has planned, or those that it has planned have, and so on, in the
    /// order of planning.
    pub fn all_planned(&self) -> Vec<&ActionData> {
        let mut is_below = vec![false; self.plan.actions.len()];
        let mut all = Vec::new();
        // Children come after their parents.
        for action in &self.plan.actions {
            let Some(parent) = action.parent else { continue };
            if parent == self.shown.id || is_below[parent.index()] {
                is_below[action.id.index()] = true;
                all.push(action);
            }
        }
        all
    }
}

/// Shows all actions of a plan.
pub(crate) fn show(registry: &Registry, plan: &Plan) -> PlanShown {
    PlanShown {
        label: plan.label.clone(),
        labels: plan.labels.clone().into_iter().collect(),
        state: plan.state,
        result: plan.result(),
        progress: plan.progress(),
        actions: plan.actions.iter().map(|data| show_one(registry, plan, data)).collect(),
    }
}

/// Shows one action of a plan.
pub(crate) fn show_one(registry: &Registry, plan: &Plan, data: &ActionData) -> Shown {
    let action = registry.find(&data.name);
    let value =
        |payload: &Payload| payload.read().unwrap_or_else(|_| Value::from(payload.as_str()));
    let shown = Shown {
        id: data.id,
        name: data.name.clone(),
        parent: data.parent,
        is_known: action.is_some(),
        state: state_of(plan, data).name().to_owned(),
        summary: None,
        input: value(&plan.input_seen(data)),
        output: value(&data.output),
    };
    let rest = registry.chains().of(&data.name).map_or(&[][..], |chain| &chain[..]);
    let mut view = ActionView { shown, plan, rest, action };
    let outcome = catch_unwind(AssertUnwindSafe(|| view.pass()));
    let mut shown = view.shown;
    if let Err(panic) = outcome {
        // A value to be masked could be visible: nothing is shown.
        let message = panic_message(panic);
        tracing::error!(plan = %plan.id, action = data.name, message, "an action cannot be shown");
        shown.summary = Some(format!("cannot be shown: {message}"));
        (shown.input, shown.output) = (Value::from(MASK), Value::from(MASK));
    }
    shown
}

/// The state of an action is that of its last step that has begun; planning counts only if that is all
/// there is, or has failed.
fn state_of(plan: &Plan, action: &ActionData) -> StepState {
    let state = |step| plan.step(step).state;
    let planned = action.plan_step.map_or(StepState::Pending, state);
    if planned == StepState::Error {
        return planned;
    }
    let later = [action.finalize_step, action.run_step];
    let mut states = later.into_iter().flatten().map(state).peekable();
    if states.peek().is_none() {
        return planned;
    }
    states.find(|state| *state != StepState::Pending).unwrap_or(StepState::Pending)
}
