//! What a world does with the plans that its store has when it is opened.

use turnwheel_runtime::Failure;

use super::{World, WorldBuilder, START_PAGE};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::time::Time;

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
        self.wake(plan);
    }

    /// Goes on with what the store says was under way, and sets the alarm for what sleeps.
    pub(super) async fn recover(&self) -> Result<(), StoreError> {
        let journal = &self.shared.journal;
        let lost = |failure: Failure| StoreError::Failed(failure.to_string());
        if self.shared.opening != Opening::GoOn {
            return self.restore_schedules().await;
        }
        journal.behind().into_iter().for_each(|plan| self.wake(plan));
        let mut from = None;
        loop {
            let page = journal.read(move |reader| reader.busy(from, START_PAGE));
            let page = page.await.map_err(lost)??;
            page.iter().for_each(|plan| self.wake(*plan));
            from = page.last().copied();
            if page.len() < START_PAGE {
                break;
            }
        }
        let all = journal.read(|reader| reader.wakes(Time(u64::MAX), usize::MAX));
        for (at, plan) in all.await.map_err(lost)?? {
            self.shared.wakes().set(plan, at);
        }
        self.restore_schedules().await
    }
}
