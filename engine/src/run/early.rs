//! Messages to a plan that is being planned on the pool and has no record yet: its parent cancels
//! it, or another plan waits for its end. They are handled, in order, after the planning.

use std::fmt;

use turnwheel_actors::Handler;

use super::PlanActor;
use crate::limits::EARLY_MESSAGES_MAX;

/// A message, with what brings it to its handler.
type Brought = Box<dyn FnOnce(&PlanActor) + Send>;

/// Messages that came too early.
#[derive(Default)]
pub(super) struct Early(Vec<Brought>);

impl fmt::Debug for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Early").field(&self.0.len()).finish()
    }
}

impl PlanActor {
    /// Whether there is no plan yet, and its planning is under way.
    pub(super) fn is_unborn(&self) -> bool {
        self.plan.is_none() && self.is_planning
    }

    /// Keeps a message until the planning has ended.
    pub(super) fn hear_later<M: Send + 'static>(&mut self, message: M)
    where
        Self: Handler<M>,
    {
        if self.early.0.len() >= EARLY_MESSAGES_MAX {
            // The sender notices by the drop of its reply.
            return tracing::warn!(plan = %self.id, "a message to a plan that is being planned is refused");
        }
        self.early.0.push(Box::new(move |myself| myself.pass_on(message)));
    }

    /// The planning has ended: handles the early messages now.
    pub(super) fn hear_what_came_early(&mut self) {
        for message in std::mem::take(&mut self.early.0) {
            message(self);
        }
    }
}
