//! Rows of plans as arrays, one for each column.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use tokio_postgres::types::Type;
use turnwheel_engine::store::{slot_of, PlanRow, RowWrite};
use turnwheel_engine::PlanId;
use uuid::Uuid;

use crate::batch::{Held, Large};
use crate::cell::{epoch, moment, number, text};
use crate::session::Value;

#[derive(Default)]
pub(crate) struct Rows<'a> {
    at: Vec<i32>,
    epochs: Vec<i64>,
    refreshes: Vec<bool>,
    ids: Vec<Uuid>,
    heads: Vec<i64>,
    states: Vec<&'static str>,
    results: Vec<&'static str>,
    labels: Vec<Cow<'a, str>>,
    actions: Vec<Cow<'a, str>>,
    by: Vec<Cow<'a, str>>,
    label_texts: Vec<Cow<'a, str>>,
    created: Vec<i64>,
    started: Vec<Option<i64>>,
    ended: Vec<Option<i64>>,
    wakes: Vec<Option<i64>>,
    busy: Vec<bool>,
    callers: Vec<Option<Uuid>>,
    steps: Vec<Option<i64>>,
    waits: Vec<&'static str>,
    waits_for: Vec<Cow<'a, str>>,
    places: Vec<Option<i64>>,
    snapshots: Vec<Option<Cow<'a, [u8]>>>,
    label_of: Vec<i32>,
    label_names: Vec<Cow<'a, str>>,
    label_values: Vec<Cow<'a, str>>,
    large: Large<'a>,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(writes: &'a [RowWrite], held: &Held) -> Self {
        let mut all = Self::default();
        // One statement writes a row once: the newest of a plan, and the newest snapshot of it.
        let mut newest: HashMap<PlanId, usize> = HashMap::new();
        let mut snapshots: HashMap<PlanId, &'a (u64, Vec<u8>)> = HashMap::new();
        for (index, write) in writes.iter().enumerate() {
            newest.insert(write.row.id, index);
            if let Some(snapshot) = &write.row.snapshot {
                snapshots.insert(write.row.id, snapshot);
            }
        }
        let is_newest =
            |(index, write): &(usize, &RowWrite)| newest.get(&write.row.id) == Some(index);
        for (_, write) in writes.iter().enumerate().filter(is_newest) {
            all.push(write, held, snapshots.get(&write.row.id).copied());
        }
        all
    }

    fn push(&mut self, write: &'a RowWrite, held: &Held, snapshot: Option<&'a (u64, Vec<u8>)>) {
        let row: &PlanRow = &write.row;
        let index = self.ids.len() + 1;
        self.at.push(held.place(slot_of(row.id)));
        self.epochs.push(epoch(write.epoch));
        self.refreshes.push(write.is_refresh);
        self.ids.push(row.id.uuid());
        self.heads.push(number(row.head));
        self.states.push(row.state.name());
        self.results.push(row.result.name());
        self.labels.push(text(&row.label));
        self.actions.push(text(&row.action));
        self.by.push(text(&row.by));
        self.label_texts.push(as_json(&row.labels));
        self.created.push(moment(row.created_at));
        self.started.push(row.started_at.map(moment));
        self.ended.push(row.ended_at.map(moment));
        self.wakes.push(row.wakes_at.map(moment));
        self.busy.push(row.is_busy);
        self.callers.push(row.caller.map(|(plan, _)| plan.uuid()));
        self.steps.push(row.caller.map(|(_, step)| i64::from(step.0)));
        self.waits.push(row.waits.name());
        self.waits_for.push(text(&row.waits_for));
        self.places.push(snapshot.map(|(place, _)| number(*place)));
        self.snapshots.push(snapshot.map(|(_, bytes)| self.large.take(index, bytes)));
        for (name, value) in &row.labels {
            self.label_of.push(index as i32);
            self.label_names.push(text(name));
            self.label_values.push(text(value));
        }
    }

    pub(crate) fn values(&self) -> [Value<'_>; 28] {
        [
            (&self.at, Type::INT4_ARRAY),
            (&self.epochs, Type::INT8_ARRAY),
            (&self.refreshes, Type::BOOL_ARRAY),
            (&self.ids, Type::UUID_ARRAY),
            (&self.heads, Type::INT8_ARRAY),
            (&self.states, Type::TEXT_ARRAY),
            (&self.results, Type::TEXT_ARRAY),
            (&self.labels, Type::TEXT_ARRAY),
            (&self.actions, Type::TEXT_ARRAY),
            (&self.by, Type::TEXT_ARRAY),
            (&self.label_texts, Type::TEXT_ARRAY),
            (&self.created, Type::INT8_ARRAY),
            (&self.started, Type::INT8_ARRAY),
            (&self.ended, Type::INT8_ARRAY),
            (&self.wakes, Type::INT8_ARRAY),
            (&self.busy, Type::BOOL_ARRAY),
            (&self.callers, Type::UUID_ARRAY),
            (&self.steps, Type::INT8_ARRAY),
            (&self.waits, Type::TEXT_ARRAY),
            (&self.waits_for, Type::TEXT_ARRAY),
            (&self.places, Type::INT8_ARRAY),
            (&self.snapshots, Type::BYTEA_ARRAY),
            (&self.label_of, Type::INT4_ARRAY),
            (&self.label_names, Type::TEXT_ARRAY),
            (&self.label_values, Type::TEXT_ARRAY),
            (&self.large.of, Type::INT4_ARRAY),
            (&self.large.ids, Type::BYTEA_ARRAY),
            (&self.large.bytes, Type::BYTEA_ARRAY),
        ]
    }
}

/// Labels as an object of JSON, in which U+0000 is escaped.
fn as_json(labels: &BTreeMap<String, String>) -> Cow<'static, str> {
    if labels.is_empty() {
        return Cow::Borrowed("{}");
    }
    Cow::Owned(serde_json::to_string(labels).expect("texts are JSON"))
}
