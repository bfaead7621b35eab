//! Large values are stored apart from their entry or snapshot, once for each plan, so that entries
//! and snapshots stay small however large the values are.
//!
//! Data at the interface of a store is always complete. A store with support for large values takes
//! [complete bytes](parts) apart, stores each value under the plan and its id, and the
//! [rest](Parts::rest) in the place of the bytes, in one commit; a reader [joins](whole_again) them
//! again. Other stores keep the complete bytes.
//!
//! ```text
//! whole: 0xc1, count, count × (id, length), body, values one after the other
//! rest:  0xc2, count, count × id, body
//! ```
//! Count and lengths have eight bytes, the lowest first; an id is the SHA-256 of the value before
//! it was encoded. So a snapshot refers to the values of the entries that it replaces.

use sha2::{Digest, Sha256};

use crate::error::StoreError;
use crate::id::PlanId;

/// Id of a large value within its plan.
pub type ValueId = [u8; 32];

/// The first bytes of a whole and of a rest. Nothing else that is stored begins with them.
const WHOLE: u8 = 0xc1;
const REST: u8 = 0xc2;

/// The id of a value.
pub(crate) fn id_of(value: &[u8]) -> ValueId {
    Sha256::digest(value).into()
}

/// An entry or snapshot with large values, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Bytes apart from the large values.
    pub body: &'a [u8],
    /// The large values, in their order; one may be there more than once.
    pub values: Vec<(ValueId, &'a [u8])>,
}

/// The parts of an entry or a snapshot; nothing if it has no large values.
pub fn parts(whole: &[u8]) -> Option<Parts<'_>> {
    let mut bytes = Bytes(whole.strip_prefix(&[WHOLE])?);
    let count = bytes.number()?;
    let mut heads = Vec::new();
    for _ in 0..count {
        heads.push((bytes.id()?, bytes.number()?));
    }
    let all = heads.iter().try_fold(0_usize, |sum, (_, length)| sum.checked_add(*length))?;
    let body = bytes.take(bytes.0.len().checked_sub(all)?)?;
    let values = heads.into_iter().map(|(id, length)| Some((id, bytes.take(length)?)));
    Some(Parts { body, values: values.collect::<Option<_>>()? })
}

impl Parts<'_> {
    /// The whole.
    pub fn whole(&self) -> Vec<u8> {
        let values: usize = self.values.iter().map(|(_, value)| value.len() + 40).sum();
        let mut whole = Vec::with_capacity(9 + values + self.body.len());
        whole.push(WHOLE);
        whole.extend((self.values.len() as u64).to_le_bytes());
        for (id, value) in &self.values {
            whole.extend(id);
            whole.extend((value.len() as u64).to_le_bytes());
        }
        whole.extend(self.body);
        self.values.iter().for_each(|(_, value)| whole.extend(*value));
        whole
    }

    /// Bytes stored in the place of the complete ones.
    pub fn rest(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(9 + self.values.len() * 32 + self.body.len());
        rest.push(REST);
        rest.extend((self.values.len() as u64).to_le_bytes());
        self.values.iter().for_each(|(id, _)| rest.extend(id));
        rest.extend(self.body);
        rest
    }
}

/// Joins stored bytes with the values that they refer to.
///
/// # Errors
///
/// The bytes are damaged, or a value is missing; those of `value`.
pub fn whole_again(
    plan: PlanId,
    kept: Vec<u8>,
    mut value: impl FnMut(&ValueId) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<Vec<u8>, StoreError> {
    let Some(rest) = kept.strip_prefix(&[REST]) else { return Ok(kept) };
    let corrupt = |what: &str| StoreError::Corrupt(format!("plan {plan}: {what}"));
    let mut bytes = Bytes(rest);
    let count = bytes.number().ok_or_else(|| corrupt("the head of an entry is damaged"))?;
    let mut values = Vec::new();
    for _ in 0..count {
        let id = bytes.id().ok_or_else(|| corrupt("the head of an entry is damaged"))?;
        let value = value(&id)?.ok_or_else(|| corrupt("a large value is missing"))?;
        values.push((id, value));
    }
    let values = values.iter().map(|(id, value)| (*id, &value[..])).collect();
    Ok(Parts { body: bytes.0, values }.whole())
}

/// Bytes that are taken from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.take(8)?.try_into().ok()?)).ok()
    }

    fn id(&mut self) -> Option<ValueId> {
        self.take(32)?.try_into().ok()
    }
}
