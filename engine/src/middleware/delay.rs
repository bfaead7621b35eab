//! A plan that is being delayed: middleware sees and changes what is stored.

use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use serde::Serialize;

use super::AnyMiddleware;
use crate::action::{panic_message, AnyAction};
use crate::error::ActionError;
use crate::id::PlanId;
use crate::payload::Payload;
use crate::plan::{Created, Record};
use crate::time::Time;
use crate::world::check_labels;

/// Subject of a middleware when a plan is delayed, in the thread that delays it.
pub struct AroundDelay<'a> {
    rest: &'a [Arc<dyn AnyMiddleware>],
    plan: PlanId,
    created: &'a mut Created,
    start_at: &'a mut Option<Time>,
    start_before: &'a mut Option<Time>,
    is_passed: &'a mut bool,
}

impl fmt::Debug for AroundDelay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AroundDelay").field("action", &self.created.action).finish_non_exhaustive()
    }
}

impl AroundDelay<'_> {
    /// Calls the next middleware inside; at last the plan is stored in its current form.
    ///
    /// # Errors
    ///
    /// Those of the inner calls.
    pub fn pass(&mut self) -> Result<(), ActionError> {
        let Some((next, rest)) = self.rest.split_first() else {
            *self.is_passed = true;
            return Ok(());
        };
        next.delay(&mut AroundDelay {
            rest,
            plan: self.plan,
            created: &mut *self.created,
            start_at: &mut *self.start_at,
            start_before: &mut *self.start_before,
            is_passed: &mut *self.is_passed,
        })
    }

    /// The plan.
    pub fn plan_id(&self) -> PlanId {
        self.plan
    }

    /// The name of the root action.
    pub fn action(&self) -> &str {
        &self.created.action
    }

    /// Its input.
    pub fn input(&self) -> &Payload {
        &self.created.input
    }

    /// Changes the input that is stored; planning and running see it later.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub fn set_input<T: Serialize + ?Sized>(&mut self, input: &T) -> Result<(), ActionError> {
        let input = Payload::of(input);
        self.created.input = input.map_err(|error| error.of("the input", &self.created.action))?;
        Ok(())
    }

    /// Not before which time the plan is planned.
    pub fn start_at(&self) -> Option<Time> {
        *self.start_at
    }

    /// Changes the earliest time; `None` is at once.
    pub fn set_start_at(&mut self, time: Option<Time>) {
        *self.start_at = time;
    }

    /// After which time the plan is not planned any more.
    pub fn start_before(&self) -> Option<Time> {
        *self.start_before
    }

    /// Changes the latest time.
    pub fn set_start_before(&mut self, time: Option<Time>) {
        *self.start_before = time;
    }

    /// The principal that delays it.
    pub fn by(&self) -> &str {
        &self.created.by
    }

    /// The labels of the plan.
    pub fn labels(&self) -> &[(String, String)] {
        &self.created.labels
    }

    /// Gives the plan a label; the same name again replaces the value.
    pub fn set_label(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.created.labels.retain(|(known, _)| *known != name);
        self.created.labels.push((name, value.into()));
    }
}

/// Passes a delayed plan through a chain. The changed input must be one of the action.
pub(crate) fn delay(
    chain: &[Arc<dyn AnyMiddleware>],
    plan: PlanId,
    action: &dyn AnyAction,
    created: &mut Created,
    delayed: &mut Record,
) -> Result<(), ActionError> {
    let Record::Delayed { start_at, start_before, .. } = delayed else { return Ok(()) };
    let before = created.input.clone();
    let mut is_passed = false;
    let mut around = AroundDelay {
        rest: chain,
        plan,
        created,
        start_at,
        start_before,
        is_passed: &mut is_passed,
    };
    let passed = catch_unwind(AssertUnwindSafe(|| around.pass()));
    passed.unwrap_or_else(|panic| Err(ActionError::new("panic", panic_message(panic))))?;
    if !is_passed {
        let message = format!("a middleware around the delay of «{}» did not pass", created.action);
        return Err(ActionError::new("not_passed", message).and_final());
    }
    check_labels(&created.labels).map_err(|error| ActionError::new("label", error).and_final())?;
    if created.input == before {
        return Ok(());
    }
    action.check(action.version(), &created.input, &Payload::null())
}
