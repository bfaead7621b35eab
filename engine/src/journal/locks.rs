//! The locks that plans hold, as of the last commit, and the plans that wait for them.
//!
//! The store decides who gets a lock. This copy spares plans requests in vain, and knows the
//! waiters to wake when a lock is freed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use parking_lot::Mutex;

use super::waits::Waits;
use crate::action::{PlanLock, WhenTaken};
use crate::error::{ActionError, StoreError};
use crate::id::PlanId;
use crate::plan::Planned;
use crate::store::{Append, Filter, Order, Seq, StoreReader, StoreWriter};

/// A lock that is held or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    /// Its name.
    pub name: String,
    /// The plan that holds it.
    pub holder: Option<PlanId>,
    /// The plans that wait for it and are in their turn, the next one first.
    pub waiting: Vec<PlanId>,
}

/// A lock is held by another plan, or others wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    name: String,
    by: PlanId,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "already active: plan {} has the lock «{}»", self.by, self.name)
    }
}

/// The locks of a world.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    locks: BTreeMap<String, Lock>,
    waits: Waits,
}

/// Why a plan may not begin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// It waits. These plans have to be cancelled, because it is to replace them.
    Waits(Vec<PlanId>),
    /// It would wait for itself: by which chain.
    ForEver(ActionError),
}

/// Free locks without waiters are not stored.
#[derive(Debug, Default)]
struct Lock {
    holder: Option<PlanId>,
    /// Older plans have smaller ids.
    waiting: BTreeSet<PlanId>,
}

/// Sets the locks that plans hold. Locks of plans that do not exist are freed: no other code does
/// it, and plans that wait for them would wait for ever. `behind` are the plans whose rows are
/// outdated.
pub(super) fn held(
    writer: &mut dyn StoreWriter,
    reader: &mut dyn StoreReader,
    behind: &[(PlanId, Seq)],
) -> Result<Vec<(String, PlanId)>, StoreError> {
    let (mut held, mut stale) = (Vec::new(), Vec::new());
    for lock in reader.locks()? {
        let exists =
            behind.iter().any(|(plan, _)| *plan == lock.1) || has_row(&mut *reader, lock.1)?;
        if exists { &mut held } else { &mut stale }.push(lock);
    }
    if stale.is_empty() {
        return Ok(held);
    }
    writer.free(&stale)?;
    for (lock, plan) in stale {
        tracing::warn!(lock, %plan, "a lock is freed: the plan that had it does not exist");
    }
    Ok(held)
}

fn has_row(reader: &mut dyn StoreReader, plan: PlanId) -> Result<bool, StoreError> {
    let before = PlanId::from_bytes((plan.uuid().as_u128().saturating_sub(1)).to_be_bytes());
    let order = Order::OldestFirst;
    let filter = Filter { after: Some(before), order, limit: 1, ..Filter::default() };
    Ok(reader.list(&filter)?.first().is_some_and(|row| row.id == plan))
}

impl Locks {
    pub(crate) fn new(held: Vec<(String, PlanId)>) -> Self {
        let lock = |holder| Lock { holder: Some(holder), waiting: BTreeSet::new() };
        let locks = held.into_iter().map(|(name, holder)| (name, lock(holder))).collect();
        Self(Mutex::new(State { locks, waits: Waits::default() }))
    }

    /// The holders, as the store has them. Returns the first waiters of the free locks.
    pub(super) fn hold(&self, held: Vec<(String, PlanId)>) -> Vec<PlanId> {
        let locks = &mut self.0.lock().locks;
        locks.values_mut().for_each(|lock| lock.holder = None);
        for (name, holder) in held {
            locks.entry(name).or_default().holder = Some(holder);
        }
        locks.retain(|_, lock| !lock.is_idle());
        let free = locks.values().filter(|lock| lock.holder.is_none());
        free.filter_map(|lock| lock.waiting.first().copied()).collect()
    }

    /// A plan of another process has a lock.
    pub(super) fn taken(&self, name: &str, holder: PlanId) {
        self.0.lock().locks.entry(name.to_owned()).or_default().holder = Some(holder);
    }

    /// Whether plans wait for locks here.
    pub(super) fn are_waited_for(&self) -> bool {
        self.0.lock().locks.values().any(|lock| !lock.waiting.is_empty())
    }

    /// Other plans than these wait elsewhere now.
    pub(super) fn forget_waiting(&self, stays: impl Fn(&PlanId) -> bool) {
        let State { locks, waits } = &mut *self.0.lock();
        for lock in locks.values_mut() {
            let gone: Vec<PlanId> = lock.waiting.iter().filter(|it| !stays(it)).copied().collect();
            for plan in gone {
                lock.waiting.remove(&plan);
                waits.remove(plan);
            }
        }
        locks.retain(|_, lock| !lock.is_idle());
    }

    /// Whether no plan has a lock or waits for one.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().locks.is_empty()
    }

    pub(crate) fn all(&self) -> Vec<LockView> {
        let view = |(name, lock): (&String, &Lock)| LockView {
            name: name.clone(),
            holder: lock.holder,
            waiting: lock.waiting.iter().copied().collect(),
        };
        self.0.lock().locks.iter().map(view).collect()
    }

    /// An entry is durable.
    pub(crate) fn changed(&self, append: &Append) {
        if append.take.is_empty() && append.release.is_empty() {
            return;
        }
        let State { locks, waits } = &mut *self.0.lock();
        if !append.take.is_empty() {
            waits.remove(append.plan);
        }
        for name in &append.take {
            let lock = locks.entry(name.clone()).or_default();
            lock.holder = Some(append.plan);
            lock.waiting.remove(&append.plan);
        }
        for name in &append.release {
            if let Some(lock) = locks.get_mut(name) {
                lock.holder = lock.holder.filter(|holder| *holder != append.plan);
                if lock.is_idle() {
                    locks.remove(name);
                }
            }
        }
    }

    /// Whether a plan may go on that needs these locks.
    pub(crate) fn check(&self, needed: &[PlanLock], plan: PlanId) -> Result<(), Taken> {
        let locks = &self.0.lock().locks;
        let taken = |lock: &PlanLock| {
            let by = locks.get(&lock.name)?.holder.filter(|holder| *holder != plan)?;
            Some(Taken { name: lock.name.clone(), by })
        };
        needed.iter().find_map(taken).map_or(Ok(()), Err)
    }

    /// The lock that a plan waits for, and the plan that has it or is before it, for people;
    /// nothing if it waits for none.
    pub(crate) fn waited_for(&self, plan: PlanId) -> Option<String> {
        let State { locks, waits } = &*self.0.lock();
        waits.locks_of(plan).iter().find_map(|name| {
            let lock = locks.get(name)?;
            let holder = lock.holder.filter(|holder| *holder != plan);
            let holder = holder.map(|holder| format!("which plan {holder} has"));
            let first = || lock.waiting.range(..plan).next();
            let first = || first().map(|first| format!("for which plan {first} waits before it"));
            Some(format!("the lock «{name}», {}", holder.or_else(first)?))
        })
    }

    /// Checks the locks of a newly planned plan and fails it if it must not wait. `lineage` are the
    /// plans that wait for its end: with one of them as holder it would wait for ever.
    pub(crate) fn admit(&self, planned: &mut Planned, plan: PlanId, lineage: &[PlanId]) {
        if planned.error.is_some() {
            planned.locks.clear();
        }
        let Err(taken) = self.check(&planned.locks, plan) else { return };
        let rejects = |lock: &PlanLock| lock.taken == WhenTaken::Reject;
        let error = if planned.locks.iter().any(rejects) {
            Some(ActionError::new("already_active", &taken))
        } else {
            let mut state = self.0.lock();
            let error = state.wait(&planned.locks, plan, lineage).err();
            // It is no plan yet: it waits when it begins.
            state.waits.remove(plan);
            error
        };
        if let Some(error) = error.map(ActionError::and_final) {
            if let Some(root) = planned.steps.first_mut() {
                root.error = Some(error.clone());
            }
            planned.error = Some(error);
            planned.locks.clear();
        }
    }

    /// Whether a planned plan may begin now. If not, it waits from now on for its locks, unless it would
    /// wait for ever.
    pub(crate) fn begin(
        &self,
        needed: &[PlanLock],
        plan: PlanId,
        lineage: &[PlanId],
    ) -> Result<(), Held> {
        let mut state = self.0.lock();
        let mut before = BTreeSet::new();
        let mut is_free = true;
        for PlanLock { name, taken } in needed {
            let Some(lock) = state.locks.get(name) else { continue };
            let others = lock.holder.into_iter().chain(lock.waiting.range(..plan).copied());
            let others: Vec<PlanId> = others.filter(|other| *other != plan).collect();
            is_free &= others.is_empty();
            if *taken == WhenTaken::Replace {
                before.extend(others);
            }
        }
        if is_free {
            return Ok(());
        }
        state.wait(needed, plan, lineage).map_err(Held::ForEver)?;
        for lock in needed {
            state.locks.entry(lock.name.clone()).or_default().waiting.insert(plan);
        }
        Err(Held::Waits(before.into_iter().collect()))
    }

    /// A plan needs its locks no more, and leaves the queues of all for which it waits. The plans
    /// that may begin by that.
    pub(crate) fn leave(&self, needed: &[PlanLock], plan: PlanId) -> Vec<PlanId> {
        let State { locks, waits } = &mut *self.0.lock();
        let needed = needed.iter().map(|lock| lock.name.clone());
        let names: BTreeSet<String> = waits.locks_of(plan).iter().cloned().chain(needed).collect();
        waits.remove(plan);
        let mut next = Vec::new();
        for name in &names {
            let Some(lock) = locks.get_mut(name) else { continue };
            lock.waiting.remove(&plan);
            if lock.holder.is_none() {
                next.extend(lock.waiting.first().copied());
            }
            if lock.is_idle() {
                locks.remove(name);
            }
        }
        next
    }
}

impl State {
    /// A plan waits for these locks from now on, unless it would do so for ever.
    fn wait(
        &mut self,
        needed: &[PlanLock],
        plan: PlanId,
        lineage: &[PlanId],
    ) -> Result<(), ActionError> {
        let Self { locks, waits } = self;
        let holder = |name: &str| locks.get(name).and_then(|lock| lock.holder);
        for PlanLock { name, .. } in needed {
            if let Some(above) = holder(name).filter(|holder| lineage.contains(holder)) {
                return Err(deadlock(&format!(
                    "plan {plan} waits for the lock «{name}», which plan {above} has, and plan {above} \
                     waits for plan {plan}"
                )));
            }
        }
        waits.add(plan, needed, lineage);
        let Some(chain) = waits.circle(plan, holder) else { return Ok(()) };
        waits.remove(plan);
        Err(deadlock(&chain))
    }
}

fn deadlock(chain: &str) -> ActionError {
    let message = format!(
        "it would wait for ever: {chain}; let the plans above need no lock that those below need, or let \
         the singletons reject instead of wait"
    );
    ActionError::new("deadlock", message).and_final()
}

impl Lock {
    fn is_idle(&self) -> bool {
        self.holder.is_none() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn append(plan: u128, take: &[&str], release: &[&str]) -> Append {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Append {
            plan: PlanId::from_bytes(plan.to_be_bytes()),
            prev: 0,
            epoch: 1,
            records: Vec::new(),
            key: None,
            take: names(take),
            release: names(release),
            follow: Vec::new(),
            unfollow: Vec::new(),
        }
    }

    #[test]
    fn a_lock_that_is_given_back_is_not_known_any_more() {
        let locks = Locks::default();
        locks.changed(&append(1, &["a", "b"], &[]));
        locks.changed(&append(2, &[], &["a"]));
        assert_eq!(locks.all().len(), 2, "another plan has it");
        locks.changed(&append(1, &[], &["a", "c"]));
        assert_eq!(locks.all().len(), 1);
        locks.changed(&append(1, &["d"], &["b", "d"]));
        assert!(locks.is_empty());
    }

    #[test]
    fn a_change_of_a_lock_does_not_look_at_the_others() {
        let held =
            (0..100_000_u128).map(|n| (format!("lock {n}"), PlanId::from_bytes(n.to_be_bytes())));
        let locks = Locks::new(held.collect());
        #[expect(clippy::disallowed_methods, reason = "the cost is what is tested")]
        let begin = Instant::now();
        for _ in 0..20_000 {
            locks.changed(&append(1 << 64, &["another"], &[]));
            locks.changed(&append(1 << 64, &[], &["another"]));
        }
        // Each of 40,000 changes that looked at 100,000 locks would take 1 ms.
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
        assert_eq!(locks.all().len(), 100_000);
    }
}
