//! The owners of entities: those of their slots.

use turnwheel_actors::entity::{Ownership, Placement};

use super::Nodes;
use crate::store::slot_of_entity;

impl Placement for Nodes {
    /// A key is of this world while it has the slot, does not give it away, and has its lease.
    fn place(&self, entity: &str, key: &str) -> Ownership {
        let Some(world) = self.world.upgrade() else {
            return Ownership { is_local: false, epoch: 0 };
        };
        let slot = slot_of_entity(entity, key);
        let owner = world.hub.worlds().owners()[slot];
        let now_ns = world.hub.group.now_ns();
        let is_over = world.journal.lease().is_some_and(|lease| lease.is_over(now_ns));
        let is_leaving = world.is_ending() || world.busy.is_closed(slot);
        let is_local = owner.world == world.epoch && !is_leaving && !is_over;
        Ownership { is_local, epoch: owner.epoch }
    }

    fn owner(&self, entity: &str, key: &str) -> Option<String> {
        let worlds = self.world.upgrade()?.hub.worlds();
        let owner = worlds.find(worlds.owner(slot_of_entity(entity, key)))?;
        Some(owner.name.clone())
    }
}
