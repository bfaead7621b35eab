//! Stores to try, and what is written to them.

use std::any::Any;
use std::collections::BTreeMap;

use turnwheel_engine::store::{
    Append, Batch, PlanRow, Removal, RowWrite, Seq, StoreReader, StoreWriter, Verdict,
};
use turnwheel_engine::{PlanId, PlanResult, PlanState, Store, Time, Waiting};

/// A store, and what has to live as long as it does.
pub(crate) struct Place {
    pub(crate) store: Box<dyn Store>,
    _beside: Box<dyn Any>,
}

impl Place {
    pub(crate) fn new(store: impl Store + 'static, beside: impl Any) -> Self {
        Self { store: Box::new(store), _beside: Box::new(beside) }
    }

    /// A writer and a reader.
    pub(crate) fn ends(&self) -> (Box<dyn StoreWriter>, Box<dyn StoreReader>) {
        (self.store.writer().expect("a writer"), self.store.reader().expect("a reader"))
    }
}

pub(crate) fn plan(number: u8) -> PlanId {
    let mut bytes = [0; 16];
    bytes[15] = number;
    PlanId::from_bytes(bytes)
}

pub(crate) fn entry(number: u8, prev: Seq, text: &str) -> Append {
    Append {
        plan: plan(number),
        prev,
        epoch: 0,
        records: text.as_bytes().to_vec(),
        key: None,
        take: vec![],
        release: vec![],
        follow: vec![],
        unfollow: vec![],
    }
}

pub(crate) fn keyed(number: u8, key: &str) -> Append {
    Append { key: Some(key.to_owned()), ..entry(number, 0, key) }
}

pub(crate) fn row(number: u8, head: Seq) -> PlanRow {
    PlanRow {
        id: plan(number),
        head,
        state: PlanState::Running,
        result: PlanResult::Pending,
        label: format!("label {}", number % 2).into(),
        action: "play".into(),
        by: "trigger".into(),
        labels: BTreeMap::new(),
        created_at: Time(u64::from(number)),
        started_at: None,
        ended_at: None,
        wakes_at: None,
        is_busy: false,
        caller: None,
        waits: Waiting::Nothing,
        waits_for: String::new(),
        snapshot: None,
    }
}

pub(crate) fn append(writer: &mut dyn StoreWriter, appends: &[Append]) -> Vec<Verdict> {
    writer.commit(&Batch { changes: &[], appends, rows: &[], projected: 0 }).expect("it is written")
}

pub(crate) fn write_rows(writer: &mut dyn StoreWriter, rows: &[PlanRow], projected: Seq) {
    let rows = current(rows);
    writer
        .commit(&Batch { changes: &[], appends: &[], rows: &rows, projected })
        .expect("they are written");
}

/// These rows as they are written to slots that no world ever had.
pub(crate) fn current(rows: &[PlanRow]) -> Vec<RowWrite> {
    rows.iter().map(|row| RowWrite { row: row.clone(), epoch: 0, is_refresh: false }).collect()
}

pub(crate) fn gone(number: u8, head: Seq) -> Removal {
    Removal { plan: plan(number), head, epoch: 0 }
}

pub(crate) fn texts(entries: &[(Seq, Vec<u8>)]) -> Vec<&str> {
    entries.iter().map(|(_, entry)| std::str::from_utf8(entry).expect("a text")).collect()
}

pub(crate) fn stopped(number: u8, head: Seq, ended: u64) -> PlanRow {
    let (state, result) = (PlanState::Stopped, PlanResult::Success);
    PlanRow { state, result, ended_at: Some(Time(ended)), ..row(number, head) }
}
