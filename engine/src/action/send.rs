//! Events from one plan to another.

use serde::Serialize;

use super::{Action, StepContext};
use crate::error::{ActionError, TextTooLong};
use crate::limits::{EVENT_ID_BYTES_MAX, KEY_BYTES_MAX};
use crate::payload::Payload;
use crate::plan::EventTarget;
use crate::world::check_labels;

impl<A: Action> StepContext<A> {
    /// Sends an event to the run step of the action `B` in another plan, which is named by its id,
    /// idempotency key or a label. It is on its way when this call has ended well or with a
    /// suspension and that is durable; it is delivered at least once, also after a crash, and taken
    /// once: its id is made of plan, step and `name`. So a repeated call sends it again without
    /// effect, and a step that sends several events gives each another name.
    ///
    /// An event for a plan that is not there, has ended, or has no such step is given up: the
    /// history of this plan says so.
    ///
    /// ```
    /// use turnwheel_engine::{action, ActionError, MemoryStore, Next, StepContext, World};
    /// use turnwheel_engine::EventTarget;
    ///
    /// #[action(output = u32)]
    /// fn order(step: &mut StepContext<Order>) -> Result<Next, ActionError> {
    ///     match step.event()? {
    ///         Some(parcels) => step.output = parcels,
    ///         None => return Ok(step.wait_for_event("its parcels")),
    ///     }
    ///     Ok(Next::Done)
    /// }
    ///
    /// #[action]
    /// fn pack(order: &str, step: &mut StepContext<Pack>) -> Result<(), ActionError> {
    ///     let order = EventTarget::Key(order.to_owned());
    ///     step.send_event::<Order>(order, "packed", &3)
    /// }
    ///
    /// let world = World::builder().action(Order).action(Pack).build(MemoryStore::new())?;
    /// let order = world.trigger_once::<Order>("order 17", ()).wait()?;
    /// world.trigger::<Pack>("order 17".to_owned()).outcome::<Pack>().wait()?;
    /// assert_eq!(order.outcome::<Order>().wait()?, 3);
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The event cannot be written as JSON, or the name, or the key or label of the other plan, is
    /// too long.
    pub fn send_event<B: Action>(
        &mut self,
        to: impl Into<EventTarget>,
        name: &str,
        event: &impl Serialize,
    ) -> Result<(), ActionError> {
        let id = format!("{}/{name}", self.idempotency_key());
        TextTooLong::check("name of an event", &id, EVENT_ID_BYTES_MAX)
            .map_err(|error| ActionError::new("event", error).and_final())?;
        let event = Payload::of(event).map_err(|error| error.of("an event", A::NAME))?;
        let to = to.into();
        check(&to).map_err(|problem| ActionError::new("event", problem).and_final())?;
        self.wishes.sends.push((to, B::NAME, id, event));
        Ok(())
    }
}

/// No plan can have a key or a label that is too long.
fn check(to: &EventTarget) -> Result<(), String> {
    match to {
        EventTarget::Plan(_) => Ok(()),
        EventTarget::Key(key) => {
            TextTooLong::check("key of a plan", key, KEY_BYTES_MAX).map_err(|it| it.to_string())
        }
        EventTarget::Label(name, value) => check_labels(&[(name.clone(), value.clone())]),
    }
}
