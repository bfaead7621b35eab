//! The bytes of the journal: a version, a checksum, then the records.
//!
//! The envelope is [postcard](https://postcard.jamesmunns.com/wire-format); inputs, outputs and
//! events in it are JSON text, which an operator can read with any tool that shows strings.

use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::error::StoreError;
use crate::id::PlanId;
use crate::plan::{Plan, Record};
use crate::store::{undecodable, CODED};

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

/// Bytes before the body: the version and the checksum.
const HEAD: usize = 5;

fn write<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = postcard::to_extend(value, vec![VERSION; HEAD])
        .expect("records have no maps of unknown length and memory is there");
    let checksum = checksum(&bytes[HEAD..]);
    bytes[1..HEAD].copy_from_slice(&checksum);
    bytes
}

fn read<T: DeserializeOwned>(plan: PlanId, bytes: &[u8]) -> Result<T, StoreError> {
    let corrupt = |problem: &dyn std::fmt::Display| {
        StoreError::Corrupt(format!("plan {plan}: an entry cannot be understood: {problem}"))
    };
    let Some(version) = bytes.first() else { return Err(corrupt(&"it is empty")) };
    if *version == CODED {
        return Err(undecodable(bytes, "this world has no codec"));
    }
    if *version != VERSION {
        return Err(StoreError::TooNew {
            store: format!("of plan {plan}"),
            found: u32::from(*version),
            known: u32::from(VERSION),
        });
    }
    let Some((head, body)) = bytes.split_at_checked(HEAD) else {
        return Err(corrupt(&"it is cut off"));
    };
    if head[1..] != checksum(body) {
        return Err(corrupt(&"it is not what was written"));
    }
    postcard::from_bytes(body).map_err(|error| corrupt(&error))
}

/// Finds what a disk has changed: files have no checksums of their own but in the write-ahead log. A
/// change within eight bytes gives another sum before it is folded to 32 bits, since each round is a
/// bijection of them.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(MIX);
        sum ^= sum >> 32;
    }
    ((sum ^ (sum >> 32)) as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn every_changed_bit_is_found() {
        let plan = PlanId::from_bytes([7; 16]);
        let records = [Record::Note { at: Time(1), text: "a line of some length".to_owned() }];
        let bytes = encode(&records);
        assert_eq!(decode(plan, &bytes).expect("it is whole"), records);
        for bit in 0..bytes.len() * 8 {
            let mut hit = bytes.clone();
            hit[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(plan, &hit).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode(plan, &bytes[..length]).is_err(), "{length} bytes");
        }
    }
}
