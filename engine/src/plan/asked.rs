//! The sub-plans that steps have asked for: those of the newest round in their order, and those
//! with keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::id::{PlanId, StepId};
use crate::payload::Payload;

/// A plan that a step asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubPlan {
    /// Its id, given before it is made: however often it is asked for, it is made once.
    pub plan: PlanId,
    /// Name of its root action.
    pub action: String,
    /// Its input.
    pub input: Payload,
    /// Labels for searches.
    pub labels: SubPlanLabels,
}

/// The labels of a plan that a step asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubPlanLabels {
    /// Its own.
    pub own: Vec<(String, String)>,
    /// Whether it has those of the plan that asks for it, too, as they are when it is made.
    pub is_inheriting: bool,
}

/// A sub-plan with the key that its step has given it.
pub(crate) type Named = (PlanId, Option<String>);

/// The sub-plans of all steps by what was asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Asked(BTreeMap<StepId, OfStep>);

/// The sub-plans of a step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OfStep {
    /// Those of the newest round, in the order in which they were asked for.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    round: Arc<Ids>,
    /// Those with a key that are not over, or over with success.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    keyed: Arc<BTreeMap<String, PlanId>>,
    /// Those of pages that a call has written before its end.
    ahead: Ids,
    /// All of the call that is ending, if some of them have keys.
    order: Vec<PlanId>,
}

impl OfStep {
    /// The answer to a call.
    pub(crate) fn facts(&self) -> AskedFacts {
        let (round, keyed) = (Arc::clone(&self.round), Arc::clone(&self.keyed));
        AskedFacts { round, keyed }
    }
}

/// The sub-plans of a step, as its call is told.
#[derive(Clone, Debug)]
pub(crate) struct AskedFacts {
    /// Those of the newest round, in the order in which they were asked for.
    pub(crate) round: Arc<Ids>,
    /// Those with a key that are not over, or over with success.
    pub(crate) keyed: Arc<BTreeMap<String, PlanId>>,
}

fn write<T: Serialize, S: Serializer>(value: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
    T::serialize(value, to)
}

fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Arc<T>, D::Error> {
    T::deserialize(from).map(Arc::new)
}

impl Asked {
    pub(super) fn of(&self, step: StepId) -> Option<&OfStep> {
        self.0.get(&step)
    }

    /// A round begins: these of the round before belong to it.
    pub(super) fn begin_round(&mut self, step: StepId, stays: impl Fn(&PlanId) -> bool) {
        if let Some(of) = self.0.get_mut(&step).filter(|of| of.round.count > 0) {
            of.round = Arc::new(of.round.iter().filter(stays).collect());
        }
    }

    /// A call has asked for these and some plans with keys, new ones or known ones.
    pub(super) fn name(&mut self, step: StepId, plans: &[Named]) {
        let of = self.0.entry(step).or_default();
        of.order.extend(plans.iter().map(|(plan, _)| *plan));
        let keys = plans.iter().filter_map(|(plan, key)| Some((key.clone()?, *plan)));
        Arc::make_mut(&mut of.keyed).extend(keys);
    }

    pub(super) fn ahead(&mut self, step: StepId, plans: &[SubPlan]) {
        self.0.entry(step).or_default().ahead.extend(plans.iter().map(|plan| plan.plan));
    }

    /// Takes back the requests that a call has made ahead.
    pub(super) fn forget_ahead(&mut self, step: StepId) {
        if let Some(of) = self.0.get_mut(&step) {
            of.ahead = Ids::default();
        }
    }

    /// A call that has asked for new plans, and perhaps for known ones, has ended. Returns the
    /// number of known ones that join the round: they were over before it began.
    pub(super) fn add(&mut self, step: StepId, plans: &[SubPlan]) -> u32 {
        let of = self.0.entry(step).or_default();
        let ahead = std::mem::take(&mut of.ahead);
        let new = ahead.iter().chain(plans.iter().map(|plan| plan.plan));
        let order = std::mem::take(&mut of.order);
        if order.is_empty() {
            let round = Arc::make_mut(&mut of.round);
            new.for_each(|plan| round.push(plan));
            return 0;
        }
        let new: BTreeSet<PlanId> = new.collect();
        let before: BTreeSet<PlanId> = of.round.iter().collect();
        let mut named = BTreeSet::new();
        let order: Vec<PlanId> = order.into_iter().filter(|plan| named.insert(*plan)).collect();
        let joins = |plan: &&PlanId| !new.contains(plan) && !before.contains(plan);
        let joined = order.iter().filter(joins).count();
        // A plan of an earlier call is where it is asked for now.
        let stay = of.round.iter().filter(|plan| !named.contains(plan));
        of.round = Arc::new(stay.chain(order.iter().copied()).collect());
        joined as u32
    }

    /// A sub-plan has not ended well: its key is free.
    pub(super) fn failed(&mut self, step: StepId, plan: PlanId) {
        self.free(step, |known| known != plan);
    }

    /// Sub-plans between these two are not made: their keys are free.
    pub(super) fn lost(&mut self, step: StepId, from: PlanId, to: Option<PlanId>) {
        self.free(step, |plan| plan < from || to.is_some_and(|to| plan >= to));
    }

    fn free(&mut self, step: StepId, stays: impl Fn(PlanId) -> bool) {
        let Some(of) = self.0.get_mut(&step).filter(|of| !of.keyed.is_empty()) else { return };
        if of.keyed.values().any(|plan| !stays(*plan)) {
            Arc::make_mut(&mut of.keyed).retain(|_, plan| stays(*plan));
        }
    }

    /// A step that has ended well begins again: it asks for new plans.
    pub(super) fn forget(&mut self, step: StepId) {
        self.0.remove(&step);
    }

    /// The rounds of a plan whose snapshot has none.
    pub(super) fn guess(&mut self, step: StepId, round: Vec<PlanId>) {
        self.0.entry(step).or_default().round = Arc::new(round.into_iter().collect());
    }
}

/// Ids in a given order. Ids of one call are close to each other, and take about three bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ids {
    count: u32,
    last: u128,
    /// Differences to the id before, with the sign in the lowest bit, seven bits a byte.
    bytes: Vec<u8>,
}

impl Ids {
    fn push(&mut self, plan: PlanId) {
        let id = plan.uuid().as_u128();
        let change = id.wrapping_sub(self.last) as i128;
        let mut rest = ((change << 1) ^ (change >> 127)) as u128;
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
        (self.last, self.count) = (id, self.count + 1);
    }

    /// The ids from this place on.
    pub(crate) fn from(&self, place: Place) -> IdsFrom<'_> {
        IdsFrom { ids: self, place }
    }

    fn iter(&self) -> IdsFrom<'_> {
        self.from(Place::default())
    }
}

impl Extend<PlanId> for Ids {
    fn extend<T: IntoIterator<Item = PlanId>>(&mut self, plans: T) {
        plans.into_iter().for_each(|plan| self.push(plan));
    }
}

impl FromIterator<PlanId> for Ids {
    fn from_iter<T: IntoIterator<Item = PlanId>>(plans: T) -> Self {
        let mut ids = Self::default();
        ids.extend(plans);
        ids
    }
}

/// A place between two ids.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    at: usize,
    last: u128,
}

/// Ids from a place on.
#[derive(Debug)]
pub(crate) struct IdsFrom<'a> {
    ids: &'a Ids,
    pub(crate) place: Place,
}

impl Iterator for IdsFrom<'_> {
    type Item = PlanId;

    fn next(&mut self) -> Option<PlanId> {
        let (mut rest, mut shift) = (0_u128, 0);
        loop {
            let byte = *self.ids.bytes.get(self.place.at)?;
            self.place.at += 1;
            rest |= u128::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let change = (rest >> 1) as i128 ^ -((rest & 1) as i128);
        self.place.last = self.place.last.wrapping_add(change as u128);
        Some(PlanId::new(Uuid::from_u128(self.place.last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_in_their_order_and_from_any_place() {
        let id = |value: u128| PlanId::new(Uuid::from_u128(value));
        let near = 0x0192_0000_0000_7000_8000_0000_0000_0000;
        let all: Vec<PlanId> =
            [near, near + 1_024, near + 2_049, 3, u128::MAX, 0, near].map(id).into();
        let ids: Ids = all.iter().copied().collect();
        assert_eq!(ids.iter().collect::<Vec<_>>(), all);
        let mut reading = ids.from(Place::default());
        assert_eq!(reading.by_ref().take(2).collect::<Vec<_>>(), all[..2]);
        assert_eq!(ids.from(reading.place).collect::<Vec<_>>(), all[2..]);
        let close: Ids = (0..1_000).map(|n| id(near + n * 1_025)).collect();
        assert!(close.bytes.len() < 2_100, "{} bytes", close.bytes.len());
    }
}
