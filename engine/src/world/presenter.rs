//! Plans as people see them, without a world.

use std::fmt;

use super::{PlanView, WorldBuilder};
use crate::action::{show_one, Registry, Shown};
use crate::id::ActionId;

/// The actions of a described world, which show and mask plans that were read from a store.
///
/// ```
/// use turnwheel_engine::store::{Filter, StoreView};
/// use turnwheel_engine::{MemoryStore, World};
///
/// let presenter = World::builder().presenter();
/// let mut view = StoreView::of(&MemoryStore::new())?;
/// for row in view.list(&Filter::default())? {
///     let plan = view.plan(row.id)?;
///     let root = plan.actions.first().and_then(|root| presenter.present_action(&plan, root.id));
///     println!("{:?}", root.map(|root| root.output));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Presenter {
    registry: Registry,
}

impl fmt::Debug for Presenter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presenter").finish_non_exhaustive()
    }
}

impl WorldBuilder {
    /// The described actions as a [`Presenter`], for programs that only look at a store.
    pub fn presenter(self) -> Presenter {
        Presenter { registry: self.registry }
    }
}

impl Presenter {
    /// As [`World::present_action`](crate::World::present_action).
    pub fn present_action(&self, plan: &PlanView, action: ActionId) -> Option<Shown> {
        let data = plan.actions.get(action.index()).filter(|data| data.id == action)?;
        Some(show_one(&self.registry, plan, data))
    }
}
