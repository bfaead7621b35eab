//! The content of a commit as arrays, one for each column.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use tokio_postgres::types::Type;
use turnwheel_actors::entity::{MissedTicks, ReminderId};
use turnwheel_engine::store::aside::parts;
use turnwheel_engine::store::{slot_of, Append, Change};
use turnwheel_engine::PlanId;
use uuid::Uuid;

use crate::cell::{digest, epoch, number, text};
use crate::session::Value;

/// The slots of a commit, each once, in their order; places count from 1.
pub(crate) struct Held {
    pub(crate) slots: Vec<i32>,
    places: HashMap<usize, i32>,
}

impl Held {
    pub(crate) fn of(slots: impl Iterator<Item = usize>) -> Self {
        let slots: BTreeSet<usize> = slots.collect();
        let places = slots.iter().zip(1..).map(|(slot, place)| (*slot, place)).collect();
        Self { slots: slots.into_iter().map(|slot| slot as i32).collect(), places }
    }

    /// The place of a slot; 0 if the write names none.
    pub(crate) fn place(&self, slot: usize) -> i32 {
        self.places.get(&slot).copied().unwrap_or(0)
    }
}

/// Large values, each with the number of its entry or row.
#[derive(Default)]
pub(crate) struct Large<'a> {
    pub(crate) of: Vec<i32>,
    pub(crate) ids: Vec<Vec<u8>>,
    pub(crate) bytes: Vec<&'a [u8]>,
}

impl<'a> Large<'a> {
    /// The bytes to write in the place of these, whose large values are kept apart.
    pub(crate) fn take(&mut self, of: usize, whole: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(parts) = parts(whole) else { return Cow::Borrowed(whole) };
        for (id, value) in &parts.values {
            self.of.push(of as i32);
            self.ids.push(id.to_vec());
            self.bytes.push(value);
        }
        Cow::Owned(parts.rest())
    }
}

/// Kinds of what entries take and give.
const KEY: i32 = 1;
const TAKE: i32 = 2;
const RELEASE: i32 = 3;
const FOLLOW: i32 = 4;
const UNFOLLOW: i32 = 5;

/// Entries of the journal.
#[derive(Default)]
pub(crate) struct Appends<'a> {
    plans: Vec<Uuid>,
    at: Vec<i32>,
    epochs: Vec<i64>,
    prevs: Vec<i64>,
    records: Vec<Cow<'a, [u8]>>,
    order_of: Vec<i32>,
    kinds: Vec<i32>,
    digests: Vec<Option<Vec<u8>>>,
    texts: Vec<Option<Cow<'a, str>>>,
    others: Vec<Option<Uuid>>,
    large: Large<'a>,
}

impl<'a> Appends<'a> {
    pub(crate) fn of(appends: &'a [Append], held: &Held) -> Self {
        let mut all = Self::default();
        for (index, append) in (1..).zip(appends) {
            all.plans.push(append.plan.uuid());
            all.at.push(held.place(slot_of(append.plan)));
            all.epochs.push(epoch(append.epoch));
            all.prevs.push(number(append.prev));
            all.records.push(all.large.take(index, &append.records));
            append.key.iter().for_each(|key| all.name(index, KEY, key));
            append.take.iter().for_each(|name| all.name(index, TAKE, name));
            append.release.iter().for_each(|name| all.name(index, RELEASE, name));
            append.follow.iter().for_each(|plan| all.other(index, FOLLOW, *plan));
            append.unfollow.iter().for_each(|plan| all.other(index, UNFOLLOW, *plan));
        }
        all
    }

    fn name(&mut self, index: usize, kind: i32, name: &'a str) {
        self.order(index, kind);
        self.digests.push(Some(digest(&[name])));
        self.texts.push(Some(text(name)));
        self.others.push(None);
    }

    fn other(&mut self, index: usize, kind: i32, plan: PlanId) {
        self.order(index, kind);
        self.digests.push(None);
        self.texts.push(None);
        self.others.push(Some(plan.uuid()));
    }

    fn order(&mut self, index: usize, kind: i32) {
        self.order_of.push(index as i32);
        self.kinds.push(kind);
    }

    pub(crate) fn values(&self) -> [Value<'_>; 13] {
        [
            (&self.plans, Type::UUID_ARRAY),
            (&self.at, Type::INT4_ARRAY),
            (&self.epochs, Type::INT8_ARRAY),
            (&self.prevs, Type::INT8_ARRAY),
            (&self.records, Type::BYTEA_ARRAY),
            (&self.order_of, Type::INT4_ARRAY),
            (&self.kinds, Type::INT4_ARRAY),
            (&self.digests, Type::BYTEA_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
            (&self.others, Type::UUID_ARRAY),
            (&self.large.of, Type::INT4_ARRAY),
            (&self.large.ids, Type::BYTEA_ARRAY),
            (&self.large.bytes, Type::BYTEA_ARRAY),
        ]
    }
}

/// Changes of what is kept beside plans.
#[derive(Default)]
pub(crate) struct Changes<'a> {
    kinds: Vec<i32>,
    at: Vec<i32>,
    holds: Vec<i64>,
    expected: Vec<i64>,
    epochs: Vec<i64>,
    digests: Vec<Option<Vec<u8>>>,
    of: Vec<Option<Vec<u8>>>,
    texts: Vec<Option<Cow<'a, str>>>,
    bytes: Vec<Option<&'a [u8]>>,
    numbers: Vec<Option<i64>>,
}

impl<'a> Changes<'a> {
    pub(crate) fn of(changes: &'a [Change], held: &Held) -> Self {
        let mut all = Self::default();
        for change in changes {
            let (hold, change) = change.parts();
            all.at.push(hold.map_or(0, |hold| held.place(hold.slot)));
            all.holds.push(hold.map_or(0, |hold| epoch(hold.epoch)));
            all.push(change);
        }
        all
    }

    fn push(&mut self, change: &'a Change) {
        let mut numbers = [None; 8];
        let mut missed = None;
        match change {
            Change::State { entity, key, bytes, due, expected, epoch } => {
                self.head(1, *expected, *epoch, digest(&[entity, key]), None);
                self.bytes.push(bytes.as_deref());
                self.texts.extend([Some(text(entity)), Some(text(key)), None]);
                numbers[4] = due.map(|due| number(due.0));
            }
            Change::Reminder { row, epoch } => {
                self.reminder(2, &row.id, row.version, *epoch);
                let own = [
                    Some(row.first_due_ms),
                    row.delay_ms,
                    row.period_ms,
                    Some(row.planned_ms),
                    Some(row.due_ms),
                    Some(u64::from(row.failures)),
                    Some(row.skipped),
                    Some(row.revision),
                ];
                numbers = own.map(|own| own.map(number));
                missed = Some(Cow::Borrowed(missed_name(row.missed)));
            }
            Change::ReminderGone { id, expected, epoch } => {
                self.reminder(3, id, *expected, *epoch);
            }
            // States that are gone are deleted beside the function of the commit.
            Change::StateGone { .. } | Change::Work(_) | Change::Under { .. } => {
                self.head(0, 0, 0, Vec::new(), None);
                self.bytes.push(None);
                self.texts.extend([None, None, None]);
            }
        }
        self.texts.push(missed);
        self.numbers.extend(numbers);
    }

    fn reminder(&mut self, kind: i32, id: &'a ReminderId, expected: u64, epoch: u64) {
        let all = digest(&[&id.entity, &id.key, &id.name]);
        self.head(kind, expected, epoch, all, Some(digest(&[&id.entity, &id.key])));
        self.bytes.push(None);
        self.texts.extend([&id.entity, &id.key, &id.name].map(|each| Some(text(each))));
    }

    fn head(&mut self, kind: i32, expected: u64, epoch: u64, all: Vec<u8>, of: Option<Vec<u8>>) {
        self.kinds.push(kind);
        self.expected.push(number(expected));
        self.epochs.push(number(epoch));
        self.digests.push(Some(all));
        self.of.push(of);
    }

    pub(crate) fn values(&self) -> [Value<'_>; 10] {
        [
            (&self.kinds, Type::INT4_ARRAY),
            (&self.at, Type::INT4_ARRAY),
            (&self.holds, Type::INT8_ARRAY),
            (&self.expected, Type::INT8_ARRAY),
            (&self.epochs, Type::INT8_ARRAY),
            (&self.digests, Type::BYTEA_ARRAY),
            (&self.of, Type::BYTEA_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
            (&self.bytes, Type::BYTEA_ARRAY),
            (&self.numbers, Type::INT8_ARRAY),
        ]
    }
}

/// The digests of states that are gone, each once and in their order. Writers may still lock them
/// in another one: a commit that ends by a deadlock is made again.
pub(crate) fn gone(changes: &[Change]) -> Vec<Vec<u8>> {
    let digest_of = |change: &Change| match change {
        Change::StateGone { entity, key } => Some(digest(&[entity, key])),
        _ => None,
    };
    let digests: BTreeSet<Vec<u8>> = changes.iter().filter_map(digest_of).collect();
    digests.into_iter().collect()
}

pub(crate) fn missed_name(missed: MissedTicks) -> &'static str {
    match missed {
        MissedTicks::Once => "once",
        MissedTicks::Every => "every",
        _ => "skip",
    }
}

pub(crate) fn missed_of(name: &str) -> Option<MissedTicks> {
    match name {
        "skip" => Some(MissedTicks::Skip),
        "once" => Some(MissedTicks::Once),
        "every" => Some(MissedTicks::Every),
        _ => None,
    }
}
