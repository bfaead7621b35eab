//! What one action has planned.

use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;
use turnwheel_engine::action::Action;
use turnwheel_engine::plan::{Flow, Planned, PlannedAction, StepKind, StepState};
use turnwheel_engine::{ActionError, ActionId, Payload, StepId};

/// What an action has planned, the actions in it only noted. Made by
/// [`ActionKit::plan`](crate::ActionKit::plan).
pub struct PlannedAlone<A: Action> {
    planned: Planned,
    action: PhantomData<fn() -> A>,
}

impl<A: Action> fmt::Debug for PlannedAlone<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedAlone").field("planned", &self.planned).finish()
    }
}

impl<A: Action> PlannedAlone<A> {
    pub(super) fn new(planned: Planned) -> Self {
        Self { planned, action: PhantomData }
    }

    /// Whether planning has ended well.
    pub fn state(&self) -> StepState {
        if self.planned.error.is_none() {
            StepState::Success
        } else {
            StepState::Error
        }
    }

    /// Why planning has failed.
    pub fn error(&self) -> Option<&ActionError> {
        self.planned.error.as_ref()
    }

    /// What the plan is called.
    pub fn label(&self) -> &str {
        &self.planned.label
    }

    /// The input that the action has planned itself with, if it has.
    pub fn input(&self) -> Option<A::Input> {
        let own = self.planned.actions.first().filter(|action| !action.input.is_null())?;
        own.input.read().ok()
    }

    /// Whether the action has planned a run phase of its own.
    pub fn runs(&self) -> bool {
        self.has(StepKind::Run)
    }

    /// Whether the action has planned a finalize phase of its own.
    pub fn finalizes(&self) -> bool {
        self.has(StepKind::Finalize)
    }

    fn has(&self, kind: StepKind) -> bool {
        self.planned.steps.iter().any(|step| step.action == ActionId(1) && step.kind == kind)
    }

    fn all<B: Action>(&self) -> impl Iterator<Item = &PlannedAction> {
        self.planned.actions.iter().skip(1).filter(|action| action.name == B::NAME)
    }

    /// The inputs of the actions of a type that were planned, in their order.
    ///
    /// # Panics
    ///
    /// One of them cannot be read again as its type.
    pub fn planned<B: Action>(&self) -> Vec<B::Input> {
        let read = |action: &PlannedAction| match action.input.read() {
            Ok(input) => input,
            Err(error) => panic!("the input of «{}» {error}: {}", B::NAME, action.input),
        };
        self.all::<B>().map(read).collect()
    }

    /// Asserts that an action of this type was planned.
    ///
    /// # Panics
    ///
    /// None was.
    #[track_caller]
    pub fn assert_planned<B: Action>(&self) -> &Self {
        assert!(self.all::<B>().next().is_some(), "no «{}» was planned; {}", B::NAME, self.names());
        self
    }

    /// Asserts that an action of this type was planned with this input, compared as JSON.
    ///
    /// # Panics
    ///
    /// None was; the message has the inputs with which it was planned.
    #[track_caller]
    pub fn assert_planned_with<B: Action>(&self, input: &B::Input) -> &Self {
        let expected = match Payload::of(input) {
            Ok(input) => input,
            Err(error) => panic!("the expected input of «{}» {error}", B::NAME),
        };
        let value = |payload: &Payload| payload.read::<Value>().unwrap_or_default();
        let is_there = self.all::<B>().any(|action| value(&action.input) == value(&expected));
        let found: Vec<String> = self.all::<B>().map(|action| action.input.to_string()).collect();
        assert!(
            is_there,
            "no «{}» was planned with {expected}, but with {}; {}",
            B::NAME,
            if found.is_empty() { "nothing".to_owned() } else { found.join(", ") },
            self.names()
        );
        self
    }

    /// Asserts that an action of this type was planned with an input that fits.
    ///
    /// # Panics
    ///
    /// None was.
    #[track_caller]
    pub fn assert_planned_where<B: Action>(&self, fits: impl Fn(&B::Input) -> bool) -> &Self {
        let is_there = self.planned::<B>().iter().any(fits);
        assert!(is_there, "no «{}» was planned that fits; {}", B::NAME, self.names());
        self
    }

    /// Asserts that no action of this type was planned.
    ///
    /// # Panics
    ///
    /// One was.
    #[track_caller]
    pub fn assert_not_planned<B: Action>(&self) -> &Self {
        assert!(self.all::<B>().next().is_none(), "«{}» was planned; {}", B::NAME, self.names());
        self
    }

    /// The order of the run phase by names: `ci | review | review > merge` for three at the same time and
    /// then one. What waits only because it needs an output stands beside what it waits for: that is in
    /// [`PlannedAlone::needs`].
    pub fn order(&self) -> String {
        self.written(&self.planned.run, false)
    }

    fn written(&self, flow: &Flow, is_inner: bool) -> String {
        let (parts, sign) = match flow {
            Flow::Step(step) => return self.name(*step).to_owned(),
            Flow::Sequence(parts) => (parts, " > "),
            Flow::Concurrence(parts) => (parts, " | "),
        };
        let parts: Vec<String> = parts.iter().map(|part| self.written(part, true)).collect();
        match is_inner && sign == " > " {
            true => format!("({})", parts.join(sign)),
            false => parts.join(sign),
        }
    }

    /// The names of the actions whose outputs the inputs of a type name, in their order.
    pub fn needs<B: Action>(&self) -> Vec<&str> {
        let needs = self.planned.actions.iter().filter(|action| action.name == B::NAME);
        needs.flat_map(|action| &action.needs).map(|step| self.name(*step)).collect()
    }

    fn name(&self, step: StepId) -> &str {
        let action = self.planned.steps[step.0 as usize - 1].action;
        &self.planned.actions[action.0 as usize - 1].name
    }

    fn names(&self) -> String {
        let names: Vec<&str> =
            self.planned.actions.iter().skip(1).map(|action| action.name.as_str()).collect();
        match (&self.planned.error, names.as_slice()) {
            (Some(error), _) => format!("planning failed: {error}"),
            (None, []) => "nothing else was".to_owned(),
            (None, names) => format!("there are: {}", names.join(", ")),
        }
    }
}
