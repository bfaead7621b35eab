//! The bytes of the journal: a version, then the records.
//!
//! The envelope is [postcard](https://postcard.jamesmunns.com/wire-format); inputs, outputs and
//! events in it are JSON text, which an operator can read with any tool that shows strings.

use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::error::StoreError;
use crate::id::PlanId;
use crate::plan::{Plan, Record};

/// The first byte of everything that is written. Readers know all versions up to theirs.
const VERSION: u8 = 1;

/// The records of one entry.
pub(crate) fn encode(records: &[Record]) -> Vec<u8> {
    write(&records)
}

/// The records of an entry.
pub(crate) fn decode(plan: PlanId, bytes: &[u8]) -> Result<Vec<Record>, StoreError> {
    read(plan, bytes)
}

/// A whole plan.
pub(crate) fn encode_plan(plan: &Plan) -> Vec<u8> {
    write(plan)
}

/// A whole plan.
pub(crate) fn decode_plan(plan: PlanId, bytes: &[u8]) -> Result<Plan, StoreError> {
    let mut plan: Plan = read(plan, bytes)?;
    plan.rebuild();
    Ok(plan)
}

fn write<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![VERSION])
        .expect("records have no maps of unknown length and memory is there")
}

fn read<T: DeserializeOwned>(plan: PlanId, bytes: &[u8]) -> Result<T, StoreError> {
    match bytes.split_first() {
        Some((&VERSION, body)) => postcard::from_bytes(body).map_err(|error| {
            StoreError::Corrupt(format!("plan {plan}: an entry cannot be understood: {error}"))
        }),
        Some((version, _)) => Err(StoreError::TooNew {
            store: format!("of plan {plan}"),
            found: u32::from(*version),
            known: u32::from(VERSION),
        }),
        None => Err(StoreError::Corrupt(format!("plan {plan}: an entry is empty"))),
    }
}
