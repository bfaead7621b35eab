//! Index of the steps that listen for events: by the type of the event, then by the correlation
//! value.
//!
//! The steps of one task of a definition share its compiled filters, so an event is compared with
//! them once, regardless of the number of listening plans. A step whose plan has set a correlation
//! value is found by that value. Comparing needs no lock; look-ups do.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;
use turnwheel_engine::{PlanId, StepId};

use crate::event::CloudEvent;
use crate::interest::{Interests, Judged, Meant};

/// A step of a plan.
pub(super) type Place = (PlanId, StepId);

/// A task of a definition: the hash of that, and where the task is in it.
pub(super) type TaskKey = (String, String);

/// For each filter of a task, the value that each of its correlations must have, if that is known.
pub(super) type Expected = Vec<Vec<Option<Value>>>;

#[derive(Debug, Default)]
pub(super) struct Listeners {
    tasks: HashMap<TaskKey, Task>,
    by_type: HashMap<String, BTreeSet<TaskKey>>,
    /// Tasks that may mean events of any type.
    any_type: BTreeSet<TaskKey>,
    by_plan: HashMap<PlanId, BTreeMap<StepId, TaskKey>>,
}

/// The steps that listen for one task.
#[derive(Debug)]
struct Task {
    interests: Arc<Interests>,
    steps: HashMap<Place, Expected>,
    /// By filter, correlation and value.
    by_value: HashMap<(usize, usize, String), BTreeSet<Place>>,
    /// By filter: steps of which no value is known.
    others: HashMap<usize, BTreeSet<Place>>,
}

impl Listeners {
    /// Adds a step, or changes what it expects. `interests` are made if its task is new here.
    pub(super) fn insert(
        &mut self,
        place: Place,
        key: TaskKey,
        expected: Expected,
        interests: impl FnOnce() -> Interests,
    ) {
        self.remove(place);
        let (by_type, any_type) = (&mut self.by_type, &mut self.any_type);
        let task = self.tasks.entry(key.clone()).or_insert_with(|| {
            let interests = Arc::new(interests());
            match interests.types() {
                Some(types) => types.into_iter().for_each(|kind| {
                    by_type.entry(kind.to_owned()).or_default().insert(key.clone());
                }),
                None => drop(any_type.insert(key.clone())),
            }
            Task {
                interests,
                steps: HashMap::new(),
                by_value: HashMap::new(),
                others: HashMap::new(),
            }
        });
        for filter in 0..task.interests.len() {
            match known(expected.get(filter)) {
                Some((correlation, value)) => {
                    let at = task.by_value.entry((filter, correlation, value)).or_default();
                    at.insert(place);
                }
                None => drop(task.others.entry(filter).or_default().insert(place)),
            }
        }
        task.steps.insert(place, expected);
        self.by_plan.entry(place.0).or_default().insert(place.1, key);
    }

    pub(super) fn remove(&mut self, place: Place) {
        let Some(steps) = self.by_plan.get_mut(&place.0) else { return };
        let Some(key) = steps.remove(&place.1) else { return };
        if steps.is_empty() {
            self.by_plan.remove(&place.0);
        }
        let Some(task) = self.tasks.get_mut(&key) else { return };
        let expected = task.steps.remove(&place).unwrap_or_default();
        for filter in 0..task.interests.len() {
            match known(expected.get(filter)) {
                Some((correlation, value)) => {
                    take_from(&mut task.by_value, &(filter, correlation, value), place);
                }
                None => take_from(&mut task.others, &filter, place),
            }
        }
        if !task.steps.is_empty() {
            return;
        }
        for kind in task.interests.types().unwrap_or_default() {
            if let Some(tasks) = self.by_type.get_mut(kind) {
                tasks.remove(&key);
                if tasks.is_empty() {
                    self.by_type.remove(kind);
                }
            }
        }
        self.any_type.remove(&key);
        self.tasks.remove(&key);
    }

    /// Removes the steps of a plan that do not listen any more.
    pub(super) fn retain(&mut self, plan: PlanId, listens: impl Fn(StepId) -> bool) {
        let Some(steps) = self.by_plan.get(&plan) else { return };
        let over: Vec<StepId> = steps.keys().copied().filter(|step| !listens(*step)).collect();
        over.into_iter().for_each(|step| self.remove((plan, step)));
    }

    /// Removes the steps of all other plans.
    pub(super) fn keep_only(&mut self, owns: &dyn Fn(PlanId) -> bool) {
        let lost: Vec<PlanId> = self.by_plan.keys().copied().filter(|plan| !owns(*plan)).collect();
        lost.into_iter().for_each(|plan| self.retain(plan, |_| false));
    }

    /// The task of a step that listens.
    pub(super) fn task_of(&self, place: Place) -> Option<&TaskKey> {
        self.by_plan.get(&place.0)?.get(&place.1)
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.values().map(|task| task.steps.len()).sum()
    }

    /// The tasks that an event of a type may be for.
    pub(super) fn tasks_for(&self, event: &CloudEvent) -> Vec<(TaskKey, Arc<Interests>)> {
        let of_type = self.by_type.get(&event.kind).into_iter().flatten();
        let keys = of_type.chain(&self.any_type);
        keys.map(|key| (key.clone(), Arc::clone(&self.tasks[key].interests))).collect()
    }

    /// The steps of a task that an event is for, by what its filters say of it.
    pub(super) fn steps_for(
        &self,
        key: &TaskKey,
        judged: &[Judged],
        found: &mut BTreeMap<Place, Meant>,
    ) {
        let Some(task) = self.tasks.get(key) else { return };
        for Judged { filter, meant, correlated } in judged {
            let others = task.others.get(filter).into_iter().flatten();
            let mut places: Vec<Place> = others.copied().collect();
            for (correlation, value) in correlated.iter().enumerate() {
                let Some(value) = value.as_ref().and_then(text_of) else { continue };
                let there = task.by_value.get(&(*filter, correlation, value));
                places.extend(there.into_iter().flatten());
            }
            for place in places {
                let expected = task.steps.get(&place).and_then(|expected| expected.get(*filter));
                if let Some(meant) = agreed(*meant, correlated, expected) {
                    let known = found.entry(place).or_insert(meant);
                    *known = meant.max(*known);
                }
            }
        }
    }
}

/// Whether what an event correlates by is what a step expects; nothing if it is something else.
fn agreed(
    meant: Meant,
    correlated: &[Option<Value>],
    expected: Option<&Vec<Option<Value>>>,
) -> Option<Meant> {
    let mut meant = meant;
    for (place, value) in correlated.iter().enumerate() {
        let wanted = expected.and_then(|expected| expected.get(place)?.as_ref());
        match (value, wanted) {
            (Some(value), Some(wanted)) if value != wanted => return None,
            (Some(_), Some(_)) => {}
            _ => meant = Meant::Open,
        }
    }
    Some(meant)
}

/// The first correlation of a filter whose value is known and can be looked up.
fn known(expected: Option<&Vec<Option<Value>>>) -> Option<(usize, String)> {
    let values = expected?.iter().enumerate();
    values.into_iter().find_map(|(place, value)| Some((place, text_of(value.as_ref()?)?)))
}

/// A value as text, if two that are equal have the same one.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn take_from<K: std::hash::Hash + Eq>(
    index: &mut HashMap<K, BTreeSet<Place>>,
    key: &K,
    place: Place,
) {
    if let Some(places) = index.get_mut(key) {
        places.remove(&place);
        if places.is_empty() {
            index.remove(key);
        }
    }
}
