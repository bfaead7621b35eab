//! What a world does with the plans that its store has when it is opened.

use super::{World, WorldBuilder};
use crate::connect::Word;
use crate::id::PlanId;

/// What a world does with the plans that its store has when it is opened, and with its schedules.
///
/// ```
/// use turnwheel_engine::{MemoryStore, Opening, World};
///
/// // For a tool that changes a plan while no service is there: nothing of it runs.
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
    /// No code of an action is called at all. Orders and events are written down: what follows from
    /// them without code is done, and the rest when a world goes on with the plan. Steps that would be
    /// called wait for a place, so that no attempt is lost.
    AtRest,
}

impl WorldBuilder {
    /// What it does with the plans of its store; [`Opening::GoOn`] unless said otherwise.
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
