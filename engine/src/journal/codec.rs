//! The bytes of the journal: a version, a checksum, then the records.
//!
//! The envelope is [postcard](https://postcard.jamesmunns.com/wire-format); inputs, outputs and
//! events in it are JSON text, which an operator can read with any tool that shows strings. Large values
//! inside of these texts are [values aside](crate::store::aside), which a store keeps once for each plan:
//! the input of a plan is also in the inputs and outputs of its steps, and is not stored with each.
//!
//! ```text
//! version 1: 1, checksum of the records, records
//! version 2: 2, checksum of the rest, records (checksums in the place of large texts), least length
//! version 3: 3, checksum of the whole records, count, count × place, records without large values
//! ```
//! Version 2 is read and not written any more. A place is that of a value in the whole records; count and
//! places have eight bytes, the lowest first.

use std::ops::Range;

use postcard::{de_flavors, ser_flavors};
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::error::StoreError;
use crate::id::PlanId;
use crate::limits::VALUE_ASIDE_BYTES;
use crate::plan::{Plan, Record};
use crate::store::aside::{id_of, parts, Parts, ValueId};
use crate::store::{undecodable, CODED};

/// The first byte of everything that is written. Readers know all versions up to theirs.
const VERSION: u8 = 1;

/// The first byte of what has large texts aside: the last four bytes say from which length on they are.
const VERSION_ASIDE: u8 = 2;

/// The first byte of what has values of texts aside.
const VERSION_VALUES: u8 = 3;

/// Values of a text are stored aside from this length on.
const VALUE_BYTES: usize = 4 * 1_024;

/// Values of one text that are stored aside, at most: of a text with more of them larger ones are.
const VALUES_MAX: usize = 64;

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
    write(&(plan, plan.more()))
}

/// A whole plan.
pub fn decode_plan(plan: PlanId, bytes: &[u8]) -> Result<Plan, StoreError> {
    let (mut plan, more) = read_with_rest::<Plan>(plan, bytes)?;
    plan.take_more(&more);
    plan.rebuild();
    Ok(plan)
}

/// Bytes before the body: the version and the checksum.
const HEAD: usize = 5;

/// Room for the entry of a step, so that its bytes are allocated once.
const ENTRY_BYTES: usize = 192;

fn write<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ENTRY_BYTES);
    bytes.resize(HEAD, VERSION);
    let sink = Sink { bytes, values: Vec::new() };
    let Sink { mut bytes, values } = postcard::serialize_with_flavor(value, sink)
        .expect("records have no maps of unknown length and memory is there");
    let checksum = checksum(&bytes[HEAD..]);
    bytes[1..HEAD].copy_from_slice(&checksum);
    if values.is_empty() {
        return bytes;
    }
    let mut body = vec![VERSION_VALUES];
    body.extend(checksum);
    body.extend((values.len() as u64).to_le_bytes());
    values.iter().for_each(|value| body.extend((value.start as u64).to_le_bytes()));
    let mut from = HEAD;
    for value in &values {
        body.extend(&bytes[from..value.start]);
        from = value.end;
    }
    body.extend(&bytes[from..]);
    let values = values.into_iter().map(|value| &bytes[value]);
    Parts { body: &body, values: values.map(|value| (id_of(value), value)).collect() }.whole()
}

/// The whole records of version 3, with the bytes before them.
fn with_values(bytes: &[u8], values: &[(ValueId, &[u8])]) -> Option<Vec<u8>> {
    let (head, body) = bytes.split_at_checked(HEAD)?;
    let (count, body) = body.split_first_chunk()?;
    if u64::from_le_bytes(*count) != values.len() as u64 {
        return None;
    }
    let (places, mut rest) = body.split_at_checked(values.len() * 8)?;
    let mut whole = head.to_vec();
    for (place, (_, value)) in places.chunks_exact(8).zip(values) {
        let place = usize::try_from(u64::from_le_bytes(place.try_into().ok()?)).ok()?;
        let (before, after) = rest.split_at_checked(place.checked_sub(whole.len())?)?;
        whole.extend(before);
        whole.extend(*value);
        rest = after;
    }
    whole.extend(rest);
    Some(whole)
}

/// The innermost values of a JSON text that have at least so many bytes, in their order: the same value
/// has the same bytes in every text. Nothing is assumed of the text; other texts have some parts or none.
fn large_values(text: &[u8], least: usize) -> Option<Vec<Range<usize>>> {
    let (mut open, mut found, mut at) = (Vec::new(), Vec::new(), 0);
    while at < text.len() {
        let (value, is_inner) = match text[at] {
            b'"' => (at..end_of_string(text, at)?, true),
            b'{' | b'[' => {
                open.push((at, true));
                at += 1;
                continue;
            }
            b'}' | b']' => {
                let (start, is_inner) = open.pop()?;
                (start..at + 1, is_inner)
            }
            _ => {
                at += 1;
                continue;
            }
        };
        at = value.end;
        if value.len() >= least {
            if let Some((_, is_inner)) = open.last_mut() {
                *is_inner = false;
            }
            if is_inner {
                found.push(value);
            }
        }
    }
    Some(found)
}

fn end_of_string(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Parts of a text that are stored aside.
fn parts_aside(text: &[u8]) -> Vec<Range<usize>> {
    let mut least = VALUE_BYTES;
    let mut found = large_values(text, least).unwrap_or_default();
    while found.len() > VALUES_MAX {
        least *= 4;
        found = large_values(text, least).unwrap_or_default();
    }
    if found.is_empty() && text.len() >= VALUE_ASIDE_BYTES {
        found.push(0..text.len());
    }
    found
}

/// Destination of encoded records.
struct Sink {
    bytes: Vec<u8>,
    /// Places of values that are stored aside.
    values: Vec<Range<usize>>,
}

impl ser_flavors::Flavor for Sink {
    type Output = Self;

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.bytes.push(data);
        Ok(())
    }

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        if data.len() >= VALUE_BYTES {
            let from = self.bytes.len();
            let parts = parts_aside(data).into_iter();
            self.values.extend(parts.map(|part| from + part.start..from + part.end));
        }
        self.bytes.extend(data);
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
    read_with_rest(plan, bytes).map(|(value, _)| value)
}

/// A value, and the bytes behind it: later versions add theirs there.
fn read_with_rest<T: DeserializeOwned>(
    plan: PlanId,
    bytes: &[u8],
) -> Result<(T, Vec<u8>), StoreError> {
    let corrupt = |problem: &dyn std::fmt::Display| {
        StoreError::Corrupt(format!("plan {plan}: an entry cannot be understood: {problem}"))
    };
    let Parts { body: bytes, values } =
        parts(bytes).unwrap_or_else(|| Parts { body: bytes, values: Vec::new() });
    let Some(version) = bytes.first() else { return Err(corrupt(&"it is empty")) };
    if *version == CODED {
        return Err(undecodable(bytes, "this world has no codec"));
    }
    if ![VERSION, VERSION_ASIDE, VERSION_VALUES].contains(version) {
        return Err(StoreError::TooNew {
            store: format!("of plan {plan}"),
            found: u32::from(*version),
            known: u32::from(VERSION_VALUES),
        });
    }
    if *version == VERSION_VALUES {
        let mut whole = with_values(bytes, &values).ok_or_else(|| corrupt(&"it is cut off"))?;
        whole[0] = VERSION;
        return read_with_rest(plan, &whole);
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
    let value = T::deserialize(&mut reading).map_err(|error| corrupt(&error))?;
    let rest = reading.finalize().map_err(|error| corrupt(&error))?;
    Ok((value, rest.to_vec()))
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

    /// As versions before this one wrote it.
    fn version_2(records: &[Record]) -> Vec<u8> {
        let plain = postcard::to_stdvec(records).expect("memory is there");
        let text =
            plain.windows(VALUE_ASIDE_BYTES).position(|part| part.iter().all(|b| *b == b'x'));
        let text = text.expect("it has a large text");
        let (before, value) = plain.split_at(text);
        let mut body = [&[VERSION_ASIDE, 0, 0, 0, 0], before, &checksum(value)].concat();
        body.extend((VALUE_ASIDE_BYTES as u32).to_le_bytes());
        let sum = checksum(&body[HEAD..]);
        body[1..HEAD].copy_from_slice(&sum);
        Parts { body: &body, values: vec![(id_of(value), value)] }.whole()
    }

    #[test]
    fn entries_of_the_version_before_are_read() {
        let plan = PlanId::from_bytes([7; 16]);
        let text = "x".repeat(VALUE_ASIDE_BYTES);
        let records = [Record::Note { at: Time(1), text }];
        let bytes = version_2(&records);
        assert_eq!(decode(plan, &bytes).expect("it is whole"), records);
        for place in [bytes.len() - 1, bytes.len() - VALUE_ASIDE_BYTES - 1] {
            let mut hit = bytes.clone();
            hit[place] ^= 1;
            assert!(decode(plan, &hit).is_err(), "byte {place}");
        }
    }

    #[test]
    fn value_inside_of_several_texts_is_one_value_aside() {
        let plan = PlanId::from_bytes([7; 16]);
        let input = format!("{{\"a\":[1,\"{}\"],\"b\":\"\\\\\\\"\"}}", "y".repeat(VALUE_BYTES));
        let texts = [
            input.clone(),
            format!("{{\"input\":{input},\"of\":\"a\"}}"),
            format!("{{\"outcome\":{{\"output\":{input}}},\"cursor\":{{\"value\":{input}}}}}"),
        ];
        let records = texts.map(|text| Record::Note { at: Time(1), text });
        let bytes = encode(&records);
        let all = parts(&bytes).expect("it has values");
        assert_eq!(all.values.len(), 4);
        assert!(all.values.iter().all(|value| *value == all.values[0]) && all.body.len() < 400);
        assert_eq!(decode(plan, &bytes).expect("it is whole"), records);
    }

    #[test]
    fn large_values_are_the_innermost_ones_and_of_many_the_larger_ones() {
        let long = "z".repeat(VALUE_BYTES);
        let spans = |text: &str| parts_aside(text.as_bytes());
        let many = format!("[{}]", vec![format!("\"{long}\""); 3].join(","));
        assert_eq!(spans(&many).iter().map(Range::len).collect::<Vec<_>>(), [VALUE_BYTES + 2; 3]);
        let small = format!("{{\"a\":[{}]}}", vec!["{\"n\":1}"; VALUE_BYTES / 4].join(","));
        assert_eq!(spans(&small).first(), Some(&(5..small.len() - 1)), "the list as a whole");
        let crowd = format!("[{}]", vec![format!("\"{long}\""); VALUES_MAX + 1].join(","));
        assert_eq!(spans(&crowd).first(), Some(&(0..crowd.len())));
        // No JSON, or cut off: nothing is assumed.
        for text in ["\"", "]]", "{\"a\\", &long, &format!("{{\"{long}")] {
            assert!(spans(text).is_empty(), "{}", &text[..1]);
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
