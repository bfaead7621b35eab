//! Promises: values from outside, by a name and a key of the business.

use serde::de::DeserializeOwned;

use super::{Action, Next, StepContext};
use crate::error::{ActionError, TextTooLong};
use crate::limits::LABEL_NAME_BYTES_MAX;
use crate::plan::{is_promise, label_of};

impl<A: Action> StepContext<A> {
    /// Ends the call, and suspends the step until somebody completes the promise of this name and
    /// key by [`World::complete_named`](crate::World::complete_named), who need not know plan and
    /// step: «approval» of the order «42». The step waits durably, and for other events and timers
    /// as well; it stops waiting when it is completed, or when the step ends or begins anew.
    ///
    /// ```
    /// use turnwheel_engine::{action, ActionError, MemoryStore, Next, StepContext, World};
    ///
    /// #[action(output = bool)]
    /// fn approval(order: u64, step: &mut StepContext<Approval>) -> Result<Next, ActionError> {
    ///     match step.promise("approval")? {
    ///         Some(is_approved) => step.output = is_approved,
    ///         None => return step.wait_for_promise("approval", &order.to_string()),
    ///     }
    ///     Ok(Next::Done)
    /// }
    ///
    /// let world = World::builder().action(Approval).build(MemoryStore::new())?;
    /// let plan = world.trigger::<Approval>(42).wait()?;
    /// // Nothing waits at first: a completion that comes too early is refused, and not kept.
    /// while world.complete_named("approval", "42", &true, "ann").wait().is_err() {}
    /// assert!(plan.outcome::<Approval>().wait()?);
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The name is empty or has a `/`, or name and key are too long together.
    pub fn wait_for_promise(&mut self, name: &str, key: &str) -> Result<Next, ActionError> {
        let wrong = |problem: String| ActionError::new("promise", problem).and_final();
        if name.is_empty() || name.contains('/') {
            return Err(wrong(format!(
                "«{name}» is no name of a promise: it has a «/», or nothing"
            )));
        }
        TextTooLong::check("name and key of a promise", &label_of(name, key), LABEL_NAME_BYTES_MAX)
            .map_err(|error| wrong(error.to_string()))?;
        self.wishes.promises.push((name.to_owned(), key.to_owned()));
        Ok(Next::Event(format!("the promise «{name}» of «{key}»")))
    }

    /// The value of the promise of this name, if the call is for it.
    ///
    /// # Errors
    ///
    /// It cannot be understood as this type.
    pub fn promise<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ActionError> {
        let id = self.facts.event.as_ref().and_then(|event| event.id.as_deref());
        if id.is_some_and(|id| is_promise(id, name)) {
            self.event()
        } else {
            Ok(None)
        }
    }
}
