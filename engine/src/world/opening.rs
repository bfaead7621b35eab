//! Treatment of the stored plans when a world opens its store.

use super::{World, WorldBuilder};
use crate::connect::Word;
use crate::id::PlanId;

/// Treatment of the stored plans and schedules when a world opens its store.
///
/// ```
/// use turnwheel_engine::{MemoryStore, Opening, World};
///
/// // For a tool that changes a plan while no service runs: no step of it is called.
/// let world = World::builder().opening(Opening::AtRest).build(MemoryStore::new())?;
/// # world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// It goes on with all that was under way, and launches what its schedules say.
    #[default]
    GoOn,
    /// It runs what is triggered, and goes on with plans that it is [asked](World::go_on) for, alone.
    /// Schedules can be asked for and changed, but launch nothing.
    OnRequest,
    /// No code of an action is called at all. Orders and events are recorded: consequences without
    /// code follow at once, the rest when a world continues the plan. Steps to be called wait for a
    /// place, so that no attempt is lost.
    AtRest,
}

impl WorldBuilder {
    /// Sets the treatment of stored plans; [`Opening::GoOn`] by default.
    pub fn opening(mut self, opening: Opening) -> Self {
        self.opening = opening;
        self
    }
}

impl World {
    /// Goes on with a plan, and with the plans that its steps have asked for, in a world that was opened
    /// [on request](Opening::OnRequest). Elsewhere, and for a plan that is over, nothing happens.
    pub fn go_on(&self, plan: PlanId) {
        // Its children are asked for again when it is loaded, and go on by that.
        let shared = self.shared();
        if shared.owns(plan) {
            if let Err(problem) = shared.say(plan, Word::Wake) {
                tracing::error!(%plan, problem, "a plan does not go on");
            }
        }
    }
}
