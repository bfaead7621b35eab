//! Plans that a step asks for.

use super::step::Facts;
use super::{Action, StepContext};
use crate::error::{ActionError, TextTooLong};
use crate::id::PlanId;
use crate::limits::NAME_BYTES_MAX;
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
    key: Option<String>,
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

    /// The key of the plan among those that its step asks for. A step that asks for a key again,
    /// also in a later attempt, gets the same plan, as long as that is under way or was successful;
    /// a plan that has not ended well is replaced by a new one. So a fan-out that is tried again
    /// repeats what failed only. A retry is called for the same cause as the attempt that failed: if
    /// that is the end of its sub-plans, it has to ask for them again itself.
    ///
    /// The key alone decides: input and labels of a plan that is found again are as they were. A
    /// step that had ended well and [begins again](crate::PlanHandle::restart_from) asks for new
    /// plans.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// A label without a value.
    pub fn tag(self, name: impl Into<String>) -> Self {
        self.label(name, "")
    }

    /// It has the labels of the plan that asks for it, too, as they are when it is made. One of its
    /// own with the same name goes before. More than [there may be](crate::limits::LABELS_MAX) are
    /// left out, those with the last names, and the log says so.
    pub fn inherit_labels(mut self) -> Self {
        self.labels.is_inheriting = true;
        self
    }
}

impl<A: Action> StepContext<A> {
    /// Asks for a plan of its own. When the call ends with
    /// [`wait_for_sub_plans`](StepContext::wait_for_sub_plans), the plans
    /// it has asked for are made and run; when all are over the step is called again, with
    /// [`Cause::SubPlans`](super::Cause::SubPlans). They are made once, whatever happens in
    /// between.
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
        let SubPlanOptions { labels, key } = options;
        check_labels(&labels.own)
            .map_err(|problem| ActionError::new("label", problem).and_final())?;
        if let Some(key) = &key {
            TextTooLong::check("key of a sub-plan", key, NAME_BYTES_MAX)
                .map_err(|error| ActionError::new("key", error).and_final())?;
            let known = self.wishes.plans.find(key);
            let asked = self.facts.asked.as_ref();
            if let Some(plan) =
                known.or_else(|| asked.and_then(|asked| asked.keyed.get(key).copied()))
            {
                self.wishes.plans.name(plan, Some(key))?;
                return Ok(plan);
            }
        }
        let input = Payload::of(input).map_err(|error| error.of("the input", B::NAME))?;
        let Facts { world, ids, now, .. } = &*self.facts;
        let plan = self.wishes.places.next(world, B::NAME, ids, *now);
        self.wishes.plans.name(plan, key.as_deref())?;
        self.wishes.plans.push(SubPlan { plan, action: B::NAME.to_owned(), input, labels });
        Ok(plan)
    }

    /// Asks for one plan for each input, with keys of this name and their positions: a later
    /// attempt finds the plans of the former one [again](SubPlanOptions::key). Their outputs are
    /// read by [`child_outputs`](StepContext::child_outputs).
    ///
    /// # Errors
    ///
    /// As of [`trigger_with`](StepContext::trigger_with); of more than
    /// [`SUB_PLANS_NAMED_MAX`](crate::limits::SUB_PLANS_NAMED_MAX) inputs none of the rest is asked
    /// for.
    pub fn trigger_each<'i, B: Action>(
        &mut self,
        name: &str,
        inputs: impl IntoIterator<Item = &'i B::Input>,
    ) -> Result<(), ActionError>
    where
        B::Input: 'i,
    {
        for (position, input) in inputs.into_iter().enumerate() {
            let options = SubPlanOptions::new().key(format!("{name}/{position}"));
            self.trigger_with::<B>(options, input)?;
        }
        Ok(())
    }

    /// Lets at most so many of the plans that this call asks for be under way at once:
    /// [`SUB_PLANS_AT_ONCE`](crate::limits::SUB_PLANS_AT_ONCE) if nothing is said, and never more
    /// than [`SUB_PLANS_AT_ONCE_MAX`](crate::limits::SUB_PLANS_AT_ONCE_MAX).
    pub fn limit_sub_plans(&mut self, at_once: u32) {
        self.wishes.at_once = Some(at_once.max(1));
    }
}
