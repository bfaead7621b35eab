//! Plans that a step asks for.

use super::{Action, StepContext};
use crate::error::ActionError;
use crate::id::PlanId;
use crate::payload::Payload;
use crate::plan::{SubPlan, SubPlanLabels};
use crate::world::check_labels;

/// Options of a sub-plan; everything has a default.
///
/// A sub-plan has no labels by default: ten thousand of them would clutter every search, and each
/// label is a row of an index. Labels for searches are set here.
///
/// ```
/// use turnwheel_engine::SubPlanOptions;
///
/// let options = SubPlanOptions::new().label("parcel", "17").inherit_labels();
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SubPlanOptions {
    labels: SubPlanLabels,
}

impl SubPlanOptions {
    /// Nothing said.
    pub fn new() -> Self {
        Self::default()
    }

    /// A label, as with [`TriggerOptions::label`](crate::TriggerOptions::label). The same name again
    /// replaces the value.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.labels.own.retain(|(known, _)| *known != name);
        self.labels.own.push((name, value.into()));
        self
    }

    /// A label without a value.
    pub fn tag(self, name: impl Into<String>) -> Self {
        self.label(name, "")
    }

    /// It has the labels of the plan that asks for it, too, as they are when it is made. One of its own with
    /// the same name goes before. More than [there may be](crate::limits::LABELS_MAX) are left out, those
    /// with the last names, and the log says so.
    pub fn inherit_labels(mut self) -> Self {
        self.labels.is_inheriting = true;
        self
    }
}

impl<A: Action> StepContext<A> {
    /// Asks for a plan of its own. When the call ends with
    /// [`wait_for_sub_plans`](StepContext::wait_for_sub_plans), the plans
    /// it has asked for are made and run; when all are over the step is called again, with
    /// [`Cause::SubPlans`](super::Cause::SubPlans). They are made once, whatever happens in between.
    ///
    /// # Errors
    ///
    /// The input cannot be written as JSON.
    pub fn trigger<B: Action>(&mut self, input: &B::Input) -> Result<PlanId, ActionError> {
        self.trigger_with::<B>(SubPlanOptions::new(), input)
    }

    /// As [`StepContext::trigger`], with more said about the plan.
    ///
    /// # Errors
    ///
    /// The input cannot be written as JSON, or a label cannot be stored.
    pub fn trigger_with<B: Action>(
        &mut self,
        options: SubPlanOptions,
        input: &B::Input,
    ) -> Result<PlanId, ActionError> {
        let labels = options.labels;
        check_labels(&labels.own)
            .map_err(|problem| ActionError::new("label", problem).and_final())?;
        let plan = self.facts.ids.next(self.facts.now);
        let input = Payload::of(input).map_err(|error| error.of("the input", B::NAME))?;
        self.wishes.plans.push(SubPlan { plan, action: B::NAME.to_owned(), input, labels });
        Ok(plan)
    }

    /// Lets at most so many of the plans that this call asks for be under way at once:
    /// [`SUB_PLANS_AT_ONCE`](crate::limits::SUB_PLANS_AT_ONCE) if nothing is said, and never more than
    /// [`SUB_PLANS_AT_ONCE_MAX`](crate::limits::SUB_PLANS_AT_ONCE_MAX).
    pub fn limit_sub_plans(&mut self, at_once: u32) {
        self.wishes.at_once = Some(at_once.max(1));
    }
}
