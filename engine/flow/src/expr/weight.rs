//! The weight of values: how large and how deep they are when they are written out.
//!
//! Values share their parts, so a few operations make one whose text would be endless. A value that
//! grows by an element at a time must not be weighed as a whole each time, either. So the weights of
//! large lists and objects are kept, by their address. A weak reference keeps an address from being
//! used again, and `Arc::make_mut` moves a list that has one: what is at an address stays the same.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use jaq_json::{Map, Num, Val};

/// Bytes of a text, or parts of a value, which are its elements and its texts by [`TEXT_PART`] bytes.
pub(super) const SIZE_MAX: usize = 4 << 20;

/// Maximum depth of values: the same as that of JSON that is read.
pub(super) const DEPTH_MAX: usize = 100;

/// Bits of an integer.
const INTEGER_BITS_MAX: u64 = 8_192;

/// Elements that an object counts for, without its fields.
pub(super) const OBJECT_ELEMENTS: usize = 4;

/// Bytes of a text that count as one more element.
const TEXT_PART: usize = 8;

/// Weights that are kept: one holds about 150 bytes.
const KNOWN_MAX: usize = 4_096;

/// Elements of a value whose weight is kept, if it is weighed itself.
const WHOLE_MIN: usize = 64;

/// Elements of a part whose weight is kept.
const PART_MIN: usize = 1_024;

/// Elements of a list that is looked for among the known ones, however deep it is.
const LOOKED_UP_MIN: usize = 16;

/// Levels at which every list is looked for among the known ones.
const LOOKED_UP_LEVELS: usize = 2;

pub(super) const TOO_LARGE: &str = "a value becomes too large";
pub(super) const TOO_DEEP: &str = "a value is nested too deep";

/// Weight of a value with all that is in it. The depth may be less than this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) size: usize,
    /// Bytes of its texts.
    pub(super) bytes: usize,
    pub(super) depth: usize,
}

impl Weight {
    pub(super) fn of_text(bytes: usize) -> Self {
        Self { size: 1 + bytes / TEXT_PART, bytes, depth: 0 }
    }
}

/// The parts that were visited to weigh a value.
#[derive(Debug, Default)]
pub(super) struct Visited {
    pub(super) elements: usize,
    pub(super) bytes: usize,
}

/// Keeps an address from being used again.
enum Pin {
    List { _list: Weak<Vec<Val>> },
    Object { _fields: Weak<Map> },
}

struct Known {
    weight: Weight,
    slot: usize,
    _pin: Pin,
}

/// The weights that are known.
#[derive(Default)]
pub(super) struct Scales {
    known: HashMap<usize, Known>,
    /// The addresses, in the order in which they make way.
    slots: Vec<usize>,
    next: usize,
    /// Slots of addresses that were forgotten.
    free: Vec<usize>,
}

impl Scales {
    /// Weighs a value; an error if it is too large or too deep.
    pub(super) fn weigh(
        &mut self,
        value: &Val,
        visited: &mut Visited,
    ) -> Result<Weight, &'static str> {
        let outcome = self.part(value, 0, visited);
        if outcome.is_ok() || self.known.is_empty() {
            return outcome;
        }
        // A known depth may be more than the true one.
        *self = Self::default();
        self.part(value, 0, visited)
    }

    fn part(
        &mut self,
        value: &Val,
        level: usize,
        visited: &mut Visited,
    ) -> Result<Weight, &'static str> {
        if level > DEPTH_MAX {
            return Err(TOO_DEEP);
        }
        visited.elements += 1;
        match value {
            Val::Num(Num::BigInt(number)) if number.bits() > INTEGER_BITS_MAX => {
                Err("a number becomes too large")
            }
            Val::Null | Val::Bool(_) | Val::Num(_) => Ok(Weight { size: 1, ..Weight::default() }),
            Val::BStr(text) | Val::TStr(text) if text.len() > SIZE_MAX => Err(TOO_LARGE),
            Val::BStr(text) | Val::TStr(text) => {
                visited.bytes += text.len();
                Ok(Weight::of_text(text.len()))
            }
            Val::Arr(elements) => self.list(value, elements.len(), level, visited),
            Val::Obj(fields) => self.list(value, fields.len(), level, visited),
        }
    }

    /// A list or an object.
    fn list(
        &mut self,
        value: &Val,
        length: usize,
        level: usize,
        visited: &mut Visited,
    ) -> Result<Weight, &'static str> {
        if level <= LOOKED_UP_LEVELS || length >= LOOKED_UP_MIN {
            if let Some(known) = address(value).and_then(|address| self.known.get(&address)) {
                let is_bearable = level + known.weight.depth <= DEPTH_MAX;
                return if is_bearable { Ok(known.weight) } else { Err(TOO_DEEP) };
            }
        }
        let before = visited.elements;
        let mut whole = Weight { size: 1, ..Weight::default() };
        let put = |whole: &mut Weight, part: Weight| {
            whole.size += part.size;
            whole.bytes += part.bytes;
            whole.depth = whole.depth.max(part.depth + 1);
            if whole.size > SIZE_MAX {
                Err(TOO_LARGE)
            } else {
                Ok(())
            }
        };
        match value {
            Val::Obj(fields) => {
                whole.size = OBJECT_ELEMENTS;
                visited.elements += OBJECT_ELEMENTS - 1;
                for (key, field) in fields.iter() {
                    put(&mut whole, self.part(key, level + 1, visited)?)?;
                    put(&mut whole, self.part(field, level + 1, visited)?)?;
                }
            }
            Val::Arr(elements) => {
                for element in elements.iter() {
                    put(&mut whole, self.part(element, level + 1, visited)?)?;
                }
            }
            _ => {}
        }
        if visited.elements - before >= if level == 0 { WHOLE_MIN } else { PART_MIN } {
            self.keep(value, whole);
        }
        Ok(whole)
    }

    /// Keeps the weight of a list or an object.
    pub(super) fn keep(&mut self, value: &Val, weight: Weight) {
        let (Some(address), Some(pin)) = (address(value), pin(value)) else { return };
        if weight.size < WHOLE_MIN {
            return;
        }
        let slot = match self.known.get(&address) {
            Some(known) => known.slot,
            None => self.slot_for(address),
        };
        self.known.insert(address, Known { weight, slot, _pin: pin });
    }

    fn slot_for(&mut self, address: usize) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = address;
            return slot;
        }
        if self.slots.len() < KNOWN_MAX {
            self.slots.push(address);
            return self.slots.len() - 1;
        }
        let slot = self.next;
        self.next = (slot + 1) % KNOWN_MAX;
        let before = std::mem::replace(&mut self.slots[slot], address);
        self.known.remove(&before);
        slot
    }

    /// Forgets a value that is about to be changed in its place, so that it need not move.
    pub(super) fn forget(&mut self, value: &Val) {
        let known = address(value).and_then(|address| self.known.remove(&address));
        self.free.extend(known.map(|known| known.slot));
    }
}

/// Whether somebody else holds a list, an object or a text, so that it is copied before a change.
pub(super) fn is_shared(value: &Val) -> bool {
    match value {
        Val::Arr(elements) => Arc::strong_count(elements) > 1,
        Val::Obj(fields) => Arc::strong_count(fields) > 1,
        Val::BStr(text) | Val::TStr(text) => !text.is_unique(),
        _ => false,
    }
}

fn address(value: &Val) -> Option<usize> {
    match value {
        Val::Arr(elements) => Some(Arc::as_ptr(elements) as usize),
        Val::Obj(fields) => Some(Arc::as_ptr(fields) as usize),
        _ => None,
    }
}

fn pin(value: &Val) -> Option<Pin> {
    match value {
        Val::Arr(elements) => Some(Pin::List { _list: Arc::downgrade(elements) }),
        Val::Obj(fields) => Some(Pin::Object { _fields: Arc::downgrade(fields) }),
        _ => None,
    }
}
