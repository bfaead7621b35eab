//! The bytes of the journal: a version, a checksum, then the records.
//!
//! The envelope is [postcard](https://postcard.jamesmunns.com/wire-format); inputs, outputs and
//! events in it are JSON text, which an operator can read with any tool that shows strings. Texts that
//! are large are no part of it: they are [values aside](crate::store::aside), and their checksum stands
//! in their place.

use postcard::{de_flavors, ser_flavors};
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::error::StoreError;
use crate::id::PlanId;
use crate::limits::VALUE_ASIDE_BYTES;
use crate::plan::{Plan, Record};
use crate::store::aside::{id_of, parts, Parts};
use crate::store::{undecodable, CODED};

/// The first byte of everything that is written. Readers know all versions up to theirs.
const VERSION: u8 = 1;

/// The first byte of what has values aside: the last four bytes say from which length on they are.
const VERSION_ASIDE: u8 = 2;

/// The records of one entry.
pub(crate) fn encode(records: &[Record]) -> Vec<u8> {
    write(&records)
}

/// The records of an entry.
pub fn decode(plan: PlanId, bytes: &[u8]) -> Result<Vec<Record>, StoreError> {
    read(plan, bytes)
}

/// A whole plan.
pub fn encode_plan(plan: &Plan) -> Vec<u8> {
    write(plan)
}

/// A whole plan.
pub fn decode_plan(plan: PlanId, bytes: &[u8]) -> Result<Plan, StoreError> {
    let mut plan: Plan = read(plan, bytes)?;
    plan.rebuild();
    Ok(plan)
}

/// Bytes before the body: the version and the checksum.
const HEAD: usize = 5;

fn write<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let sink = Sink { bytes: vec![VERSION; HEAD], values: Vec::new() };
    let Sink { mut bytes, values } = postcard::serialize_with_flavor(value, sink)
        .expect("records have no maps of unknown length and memory is there");
    if !values.is_empty() {
        bytes[0] = VERSION_ASIDE;
        bytes.extend((VALUE_ASIDE_BYTES as u32).to_le_bytes());
    }
    let checksum = checksum(&bytes[HEAD..]);
    bytes[1..HEAD].copy_from_slice(&checksum);
    if values.is_empty() {
        return bytes;
    }
    let values = values.iter().map(|value| (id_of(value), &value[..])).collect();
    Parts { body: &bytes, values }.whole()
}

/// Destination of encoded records.
struct Sink {
    bytes: Vec<u8>,
    values: Vec<Vec<u8>>,
}

impl ser_flavors::Flavor for Sink {
    type Output = Self;

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.bytes.push(data);
        Ok(())
    }

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        if data.len() < VALUE_ASIDE_BYTES {
            self.bytes.extend(data);
        } else {
            self.bytes.extend(checksum(data));
            self.values.push(data.to_vec());
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Self> {
        Ok(self)
    }
}

/// Source of encoded records.
struct Source<'a> {
    body: &'a [u8],
    values: std::vec::IntoIter<&'a [u8]>,
    /// The length from which on texts are values.
    aside: usize,
}

impl<'a> Source<'a> {
    fn take(&mut self, count: usize) -> postcard::Result<&'a [u8]> {
        let split = self.body.split_at_checked(count);
        let (taken, rest) = split.ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.body = rest;
        Ok(taken)
    }
}

impl<'de> de_flavors::Flavor<'de> for Source<'de> {
    type Remainder = &'de [u8];
    type Source = &'de [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.body.len())
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'de [u8]> {
        if count < self.aside {
            return self.take(count);
        }
        let sum = self.take(4)?;
        let value =
            self.values.next().filter(|value| value.len() == count && checksum(value) == sum);
        value.ok_or(postcard::Error::DeserializeBadEncoding)
    }

    fn finalize(self) -> postcard::Result<&'de [u8]> {
        Ok(self.body)
    }
}

fn read<T: DeserializeOwned>(plan: PlanId, bytes: &[u8]) -> Result<T, StoreError> {
    let corrupt = |problem: &dyn std::fmt::Display| {
        StoreError::Corrupt(format!("plan {plan}: an entry cannot be understood: {problem}"))
    };
    let Parts { body: bytes, values } =
        parts(bytes).unwrap_or_else(|| Parts { body: bytes, values: Vec::new() });
    let Some(version) = bytes.first() else { return Err(corrupt(&"it is empty")) };
    if *version == CODED {
        return Err(undecodable(bytes, "this world has no codec"));
    }
    if *version != VERSION && *version != VERSION_ASIDE {
        return Err(StoreError::TooNew {
            store: format!("of plan {plan}"),
            found: u32::from(*version),
            known: u32::from(VERSION_ASIDE),
        });
    }
    let Some((head, body)) = bytes.split_at_checked(HEAD) else {
        return Err(corrupt(&"it is cut off"));
    };
    if head[1..] != checksum(body) {
        return Err(corrupt(&"it is not what was written"));
    }
    let (mut body, mut aside) = (body, usize::MAX);
    if *version == VERSION_ASIDE {
        let split = body.split_last_chunk().ok_or_else(|| corrupt(&"it is cut off"))?;
        (body, aside) = (split.0, u32::from_le_bytes(*split.1) as usize);
    }
    let values = values.into_iter().map(|(_, value)| value).collect::<Vec<_>>().into_iter();
    let mut reading = postcard::Deserializer::from_flavor(Source { body, values, aside });
    T::deserialize(&mut reading).map_err(|error| corrupt(&error))
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
    // Once more, so that each bit of the last word reaches those that are kept.
    ((sum.wrapping_mul(MIX) >> 32) as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn every_changed_bit_is_found() {
        let plan = PlanId::from_bytes([7; 16]);
        // The rest of the last eight bytes.
        for more in 0..8 {
            let text = "a line of some length".to_owned() + &"x".repeat(more);
            let records = [Record::Note { at: Time(1), text }];
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

    #[test]
    fn large_texts_are_values_aside_and_come_back_as_they_were() {
        let plan = PlanId::from_bytes([7; 16]);
        let note = |length: usize| Record::Note { at: Time(1), text: "x".repeat(length) };
        let aside = VALUE_ASIDE_BYTES;
        let records = [note(aside - 1), note(aside), note(3), note(2 * aside), note(aside)];
        let bytes = encode(&records);
        let all = parts(&bytes).expect("it has values");
        let lengths: Vec<usize> = all.values.iter().map(|(_, value)| value.len()).collect();
        assert_eq!(lengths, [aside, 2 * aside, aside]);
        assert!(all.body.len() < aside + 100 && all.values[0] == all.values[2]);
        assert_eq!(decode(plan, &bytes).expect("it is whole"), records);
        assert!(parts(&encode(&records[..1])).is_none());

        // A changed bit of a value or of the body is found, and so is a value that is gone or exchanged.
        let all = all.values.len() * 40 + 9;
        for place in [all, all + 3, all + aside, bytes.len() - 1, bytes.len() - aside - 1] {
            let mut hit = bytes.clone();
            hit[place] ^= 1;
            assert!(decode(plan, &hit).is_err(), "byte {place}");
        }
        let mut fewer = parts(&bytes).expect("it has values");
        fewer.values.swap(0, 1);
        assert!(decode(plan, &fewer.whole()).is_err());
        fewer.values.swap(0, 1);
        fewer.values.pop();
        assert!(decode(plan, &fewer.whole()).is_err());
    }
}
