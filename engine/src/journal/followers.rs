//! Plans that wait for the end of others, as of the last commit: a plan that ends notifies them,
//! however old their request is.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::id::PlanId;
use crate::store::Append;

/// Pairs of plans: the one that must be over first, and the one that waits for it.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<BTreeSet<(PlanId, PlanId)>>);

impl Followers {
    pub(crate) fn new(stored: Vec<(PlanId, PlanId)>) -> Self {
        Self(Mutex::new(stored.into_iter().collect()))
    }

    /// All pairs, as the store has them.
    pub(super) fn hold(&self, stored: Vec<(PlanId, PlanId)>) {
        *self.0.lock() = stored.into_iter().collect();
    }

    /// A plan of another process waits for this one: that is stored.
    pub(crate) fn add(&self, plan: PlanId, follower: PlanId) {
        self.0.lock().insert((plan, follower));
    }

    /// The plans that wait for the end of this one.
    pub(crate) fn of(&self, plan: PlanId) -> Vec<PlanId> {
        let (first, last) = (PlanId::from_bytes([0; 16]), PlanId::from_bytes([u8::MAX; 16]));
        let all = self.0.lock();
        all.range((plan, first)..=(plan, last)).map(|(_, follower)| *follower).collect()
    }

    /// The plans for whose end this one waits. Cost: a look at all pairs.
    pub(crate) fn before(&self, follower: PlanId) -> Vec<PlanId> {
        let all = self.0.lock();
        all.iter().filter(|pair| pair.1 == follower).map(|(before, _)| *before).collect()
    }

    /// Whether it is stored that a plan waits for another one.
    pub(crate) fn has(&self, plan: PlanId, follower: PlanId) -> bool {
        self.0.lock().contains(&(plan, follower))
    }

    /// An entry is durable.
    pub(super) fn changed(&self, append: &Append) {
        if append.follow.is_empty() && append.unfollow.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        all.extend(append.follow.iter().map(|before| (*before, append.plan)));
        append.unfollow.iter().for_each(|before| {
            all.remove(&(*before, append.plan));
        });
    }
}
