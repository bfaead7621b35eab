//! The key of a plan's actor.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use turnwheel_actors::entity::EntityKey;

use crate::id::PlanId;
use crate::world::Shared;

/// The key of a plan's actor: the plan, with the world that it belongs to.
#[derive(Clone)]
pub(crate) struct PlanKey {
    pub(super) id: PlanId,
    pub(super) world: Arc<Shared>,
}

impl PlanKey {
    pub(crate) fn new(world: &Arc<Shared>, id: PlanId) -> Self {
        Self { id, world: Arc::clone(world) }
    }
}

impl PartialEq for PlanKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for PlanKey {}

impl Hash for PlanKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl EntityKey for PlanKey {
    fn text(&self) -> Cow<'_, str> {
        Cow::Owned(self.id.to_string())
    }

    fn is_too_long(&self) -> bool {
        false
    }
}
