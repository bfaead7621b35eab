//! The budget of an evaluation: steps, stack, and room for values.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use jaq_core::{DataT, Lut};
use jaq_json::{Num, Val};

use super::pattern::Regex;
use super::quick;

/// Steps that one evaluation may take: about a second of work at most. Fewer in tests of this crate,
/// whose code is not optimized.
pub(super) const STEPS_MAX: u64 = if cfg!(test) { 100_000 } else { 5_000_000 };

/// Bytes of a text, or elements with all inside them, that a value may have.
pub(super) const SIZE_MAX: usize = 4 << 20;

/// Maximum depth of values: the same as that of JSON that is read.
pub(super) const DEPTH_MAX: usize = 100;

/// Bytes of stack that an evaluation may use.
pub(super) const STACK_MAX: usize = 3 << 20;

/// Bits of an integer.
const INTEGER_BITS_MAX: u64 = 8_192;

/// Elements visited for one step. An element takes some 40 bytes, so the values of one evaluation
/// stay below a gigabyte even if all of them are kept.
const ELEMENTS_PER_STEP: usize = 4;

/// Bytes of a text that are looked at for one step.
const BYTES_PER_STEP: usize = 64;

/// Pairs of elements that are compared for one step.
const PAIRS_PER_STEP: u64 = 64;

/// Elements that an object counts for, without its fields.
const OBJECT_ELEMENTS: usize = 4;

/// Regular expressions that are kept compiled for one evaluation.
const REGEXES_MAX: usize = 16;

/// The budget of an evaluation, and the part of it that is used.
pub(super) struct Budget<'a> {
    lut: &'a Lut<Limited>,
    steps: Cell<u64>,
    stack: usize,
    pub(super) now: f64,
    tripped: Cell<Option<&'static str>>,
    denied: RefCell<Option<String>>,
    regexes: RefCell<Vec<(String, String, Rc<Regex>)>>,
}

/// The kind of data that expressions work on.
pub(super) struct Limited;

impl DataT for Limited {
    type V<'a> = Val;
    type Data<'a> = &'a Budget<'a>;
}

impl<'a> jaq_core::data::HasLut<'a, Limited> for &'a Budget<'a> {
    fn lut(&self) -> &'a Lut<Limited> {
        self.lut
    }
}

impl<'a> Budget<'a> {
    pub(super) fn new(lut: &'a Lut<Limited>, now: f64) -> Self {
        let (steps, tripped) = (Cell::new(0), Cell::new(None));
        let (denied, regexes) = (RefCell::new(None), RefCell::default());
        Self { lut, steps, stack: stack_now(), now, tripped, denied, regexes }
    }

    /// The secret that the expression may not see.
    pub(super) fn denied(&self) -> Option<String> {
        self.denied.take()
    }

    /// Notes that the expression may not see a secret.
    pub(super) fn deny(&self, secret: String) {
        *self.denied.borrow_mut() = Some(secret);
    }

    /// The exceeded limit.
    pub(super) fn tripped(&self) -> Option<&'static str> {
        self.tripped.get()
    }

    /// Uses steps; false if there are none left.
    pub(super) fn spend(&self, steps: u64) -> bool {
        self.steps.set(self.steps.get().saturating_add(steps));
        if self.steps.get() > STEPS_MAX || !quick::spend(steps) {
            return self.trip("it takes too many steps");
        }
        if self.stack.abs_diff(stack_now()) > STACK_MAX {
            return self.trip("its definitions call themselves too deep");
        }
        true
    }

    pub(super) fn trip(&self, limit: &'static str) -> bool {
        self.tripped.set(Some(limit));
        false
    }

    /// Whether a value is of a bearable size.
    pub(super) fn bears(&self, value: &Val) -> bool {
        let mut weight = Weight { room: SIZE_MAX, bytes: 0 };
        if let Err(limit) = weigh(value, 0, &mut weight) {
            return self.trip(limit);
        }
        let elements = SIZE_MAX - weight.room - weight.bytes;
        self.spend(1 + (elements / ELEMENTS_PER_STEP + weight.bytes / BYTES_PER_STEP) as u64)
    }

    /// Uses steps for a value that is looked at or copied as a whole, in one go. Numbers and short
    /// texts are free.
    pub(super) fn looks_at(&self, value: &Val) -> bool {
        match value {
            Val::Null | Val::Bool(_) | Val::Num(_) => true,
            Val::BStr(text) | Val::TStr(text) if text.len() <= BYTES_PER_STEP => true,
            _ => self.bears(value),
        }
    }

    /// Uses steps for each element of one list that is compared with each of another one.
    pub(super) fn compares(&self, left: &Val, right: &Val) -> bool {
        let elements = |value: &Val| {
            let mut weight = Weight { room: SIZE_MAX, bytes: 0 };
            match value {
                Val::Arr(_) | Val::Obj(_) => match weigh(value, 0, &mut weight) {
                    Ok(()) => SIZE_MAX - weight.room,
                    Err(_) => SIZE_MAX,
                },
                _ => 0,
            }
        };
        let pairs = elements(left) as u64 * elements(right) as u64;
        self.looks_at(left) && self.looks_at(right) && self.spend(pairs / PAIRS_PER_STEP)
    }

    /// Uses steps for elements of a value that is being made, which has so many of them by now.
    pub(super) fn make(&self, elements: usize, of: usize) -> bool {
        if of > SIZE_MAX {
            return self.trip("a value becomes too large");
        }
        self.spend(elements.div_ceil(ELEMENTS_PER_STEP) as u64)
    }

    /// A regular expression that was compiled before.
    pub(super) fn known_regex(&self, pattern: &str, flags: &str) -> Option<Rc<Regex>> {
        let regexes = self.regexes.borrow();
        let known = regexes.iter().find(|(text, with, _)| text == pattern && with == flags);
        known.map(|(_, _, regex)| regex.clone())
    }

    /// Keeps one; the oldest one goes when there are too many.
    pub(super) fn keep_regex(&self, pattern: &str, flags: &str, regex: &Rc<Regex>) {
        let mut regexes = self.regexes.borrow_mut();
        if regexes.len() >= REGEXES_MAX {
            regexes.remove(0);
        }
        regexes.push((pattern.to_owned(), flags.to_owned(), regex.clone()));
    }
}

/// About where the stack is. Only differences are used.
#[inline(never)]
fn stack_now() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here) as usize
}

/// Weight of a value: its remaining room, and the bytes of its texts.
struct Weight {
    room: usize,
    bytes: usize,
}

fn weigh(value: &Val, depth: usize, weight: &mut Weight) -> Result<(), &'static str> {
    let mut take = |size: usize| {
        weight.room = weight.room.checked_sub(size).ok_or("a value becomes too large")?;
        Ok(())
    };
    if depth > DEPTH_MAX {
        return Err("a value is nested too deep");
    }
    match value {
        Val::Null | Val::Bool(_) => take(1),
        Val::Num(Num::BigInt(number)) if number.bits() > INTEGER_BITS_MAX => {
            Err("a number becomes too large")
        }
        Val::Num(_) => take(1),
        Val::BStr(text) | Val::TStr(text) => {
            take(1 + text.len())?;
            weight.bytes += text.len();
            Ok(())
        }
        Val::Arr(elements) => {
            take(1)?;
            elements.iter().try_for_each(|element| weigh(element, depth + 1, weight))
        }
        Val::Obj(fields) => {
            take(OBJECT_ELEMENTS)?;
            fields.iter().try_for_each(|(key, value)| {
                weigh(key, depth + 1, weight)?;
                weigh(value, depth + 1, weight)
            })
        }
    }
}
