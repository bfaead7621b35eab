//! Plans that wait for locks, and whether they would wait for one another for ever.
//!
//! A plan that holds a lock and has asked for plans of its own is over only when they are. So a plan that
//! waits for a lock waits for its holder, and that for each plan below it that waits for a lock itself. A
//! circle is found in the moment in which a plan would close it by beginning to wait.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use crate::action::{PlanLock, WhenTaken};
use crate::id::PlanId;

/// Plans that wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    plans: HashMap<PlanId, Waiting>,
    /// Of plans that have plans below them that wait: for which locks, and which plans.
    below: HashMap<PlanId, BTreeMap<String, BTreeSet<PlanId>>>,
    /// Plans that wait for several locks: plans behind them wait for those as well.
    several: HashMap<String, BTreeSet<PlanId>>,
}

#[derive(Debug)]
struct Waiting {
    /// All that it waits for.
    all: Vec<String>,
    /// Locks for which it could wait for ever.
    locks: Vec<String>,
    lineage: Vec<PlanId>,
}

/// A lock on a path of waits: its waiter, the place on the path that leads to it, and the lock of
/// that edge.
struct Place<'a> {
    lock: &'a str,
    by: PlanId,
    from: Option<(usize, String)>,
}

impl Waits {
    /// A plan begins to wait for locks. `lineage` are the plans that wait for its end, the oldest first.
    pub(super) fn add(&mut self, plan: PlanId, needed: &[PlanLock], lineage: &[PlanId]) {
        self.remove(plan);
        // A replaced plan is cancelled, with all its sub-plans: a wait for them ends.
        let all = needed.iter().map(|lock| lock.name.clone()).collect();
        let locks = needed.iter().filter(|lock| lock.taken != WhenTaken::Replace);
        let locks: Vec<String> = locks.map(|lock| lock.name.clone()).collect();
        for lock in &locks {
            for above in lineage {
                let waiting = self.below.entry(*above).or_default();
                waiting.entry(lock.clone()).or_default().insert(plan);
            }
            if locks.len() > 1 {
                self.several.entry(lock.clone()).or_default().insert(plan);
            }
        }
        self.plans.insert(plan, Waiting { all, locks, lineage: lineage.to_vec() });
    }

    /// A plan does not wait any more.
    pub(super) fn remove(&mut self, plan: PlanId) {
        let Some(Waiting { locks, lineage, .. }) = self.plans.remove(&plan) else { return };
        for lock in &locks {
            for above in &lineage {
                let Some(waiting) = self.below.get_mut(above) else { continue };
                if let Some(plans) = waiting.get_mut(lock) {
                    plans.remove(&plan);
                }
                waiting.retain(|_, plans| !plans.is_empty());
                if waiting.is_empty() {
                    self.below.remove(above);
                }
            }
            if let Some(plans) = self.several.get_mut(lock) {
                plans.remove(&plan);
                if plans.is_empty() {
                    self.several.remove(lock);
                }
            }
        }
    }

    /// The locks that a plan waits for.
    pub(super) fn locks_of(&self, plan: PlanId) -> &[String] {
        self.plans.get(&plan).map_or(&[], |waiting| &waiting.all)
    }

    /// The chain by which a plan that waits waits for itself, for people; `None` if it does not.
    ///
    /// Cost: the locks that are reached, each once. A plan that nobody waits for is not looked at.
    pub(super) fn circle(
        &self,
        plan: PlanId,
        holder: impl Fn(&str) -> Option<PlanId>,
    ) -> Option<String> {
        let start = self.plans.get(&plan)?;
        if start.lineage.is_empty() && start.locks.len() < 2 {
            return None;
        }
        let mut places: Vec<Place<'_>> = Vec::new();
        let mut seen = HashSet::new();
        let mut next = VecDeque::new();
        for lock in &start.locks {
            seen.insert(lock.as_str());
            places.push(Place { lock, by: plan, from: None });
            next.push_back(places.len() - 1);
        }
        while let Some(at) = next.pop_front() {
            let Place { lock, by, .. } = places[at];
            let mut reached: Vec<(&str, PlanId, String)> = Vec::new();
            if let Some(holder) = holder(lock).filter(|holder| *holder != by) {
                if start.lineage.contains(&holder) {
                    let end =
                        format!("which plan {holder} has, and plan {holder} waits for plan {plan}");
                    return Some(chain(&places, at, &end));
                }
                for (lock, plans) in self.below.get(&holder).into_iter().flatten() {
                    let Some(below) = plans.last() else { continue };
                    let how = format!(
                        "which plan {holder} has, and plan {holder} waits for plan {below}"
                    );
                    reached.push((lock, *below, how));
                }
            }
            for before in self.several.get(lock).into_iter().flat_map(|plans| plans.range(..by)) {
                if *before == plan {
                    let end = format!("for which plan {plan} has waited before");
                    return Some(chain(&places, at, &end));
                }
                for other in self.plans.get(before).into_iter().flat_map(|waiting| &waiting.locks) {
                    reached.push((
                        other,
                        *before,
                        format!("for which plan {before} has waited before"),
                    ));
                }
            }
            for (lock, by, how) in reached {
                if seen.insert(lock) {
                    places.push(Place { lock, by, from: Some((at, how)) });
                    next.push_back(places.len() - 1);
                }
            }
        }
        None
    }
}

/// The way to a place, and its end.
fn chain(places: &[Place<'_>], last: usize, end: &str) -> String {
    let mut parts = vec![end.to_owned()];
    let mut at = last;
    loop {
        let place = &places[at];
        parts.push(format!("plan {} waits for the lock «{}»", place.by, place.lock));
        let Some((before, how)) = &place.from else { break };
        parts.push(how.clone());
        at = *before;
    }
    parts.reverse();
    parts.join(", ")
}
