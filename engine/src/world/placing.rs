//! Where new plans begin: worlds that know their action take turns.

use std::sync::atomic::Ordering;
use std::sync::Weak;

use super::drain::is_draining;
use super::hub::Hub;
use super::ids::Ids;
use super::peers::Meta;
use super::shares::homes;
use super::Shared;
use crate::id::PlanId;
use crate::store::{WorldKind, WorldRow, Worlds};
use crate::time::Time;

/// Sub-plans of a call that stay at its node: a few are sooner over without messages between nodes.
const AT_HOME: usize = 16;

/// Places for the sub-plans of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    asked: usize,
    action: &'static str,
    slots: Vec<usize>,
}

impl Places {
    /// An id for the next sub-plan. Where nodes share the store, those of a large fan-out are dealt
    /// to all that know the action.
    pub(crate) fn next(
        &mut self,
        world: &Weak<Shared>,
        action: &'static str,
        ids: &Ids,
        now: Time,
    ) -> PlanId {
        self.asked += 1;
        if self.asked <= AT_HOME {
            return ids.next(now);
        }
        if self.action != action {
            let slots = world.upgrade().map(|world| world.hub().places(action));
            (self.action, self.slots) = (action, slots.unwrap_or_default());
        }
        match self.slots.get(self.asked % self.slots.len().max(1)) {
            Some(slot) => ids.next_in(now, *slot),
            None => ids.next(now),
        }
    }
}

impl Hub {
    /// A world that runs plans and knows an action; they take turns.
    pub(super) fn pick(&self, action: &str) -> Option<(u64, usize)> {
        let worlds = self.worlds();
        let fit = fitting(&worlds, action);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let row = fit.get(turn % fit.len().max(1))?;
        let homes = homes(&row.slots);
        Some((row.epoch, homes[turn / fit.len() % homes.len()]))
    }

    /// Whether a world that runs plans knows an action.
    pub(crate) fn has_action(&self, action: &str) -> bool {
        self.pick(action).is_some()
    }

    /// Slots of all nodes that know an action, one of each by turns; none without nodes.
    fn places(&self, action: &str) -> Vec<usize> {
        if self.node.is_none() {
            return Vec::new();
        }
        let worlds = self.worlds();
        let homes: Vec<_> = fitting(&worlds, action).iter().map(|row| homes(&row.slots)).collect();
        let most = homes.iter().map(Vec::len).max().unwrap_or_default();
        (0..most)
            .flat_map(|turn| homes.iter().filter_map(move |of| of.get(turn).copied()))
            .collect()
    }
}

/// The worlds with slots that know an action; those that drain only if there are no others.
fn fitting<'a>(worlds: &'a Worlds, action: &str) -> Vec<&'a WorldRow> {
    let fits = |row: &&WorldRow| {
        row.kind == WorldKind::Executor
            && !row.slots.is_empty()
            && Meta::of(row).actions.iter().any(|known| known == action)
    };
    let mut fit: Vec<_> = worlds.rows.iter().filter(fits).collect();
    if fit.iter().any(|row| !is_draining(row)) {
        fit.retain(|row| !is_draining(row));
    }
    fit
}
