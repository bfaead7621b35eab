//! The budget of an evaluation: steps, stack, and room for values.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use jaq_core::{DataT, Lut};
use jaq_json::Val;

use super::pattern::Regex;
use super::quick;
use super::weight::{is_shared, Scales, Visited, Weight, TOO_LARGE};
pub(super) use super::weight::{DEPTH_MAX, SIZE_MAX};

/// Steps that one evaluation may take: about a second of work at most. Fewer in tests of this crate,
/// whose code is not optimized.
pub(super) const STEPS_MAX: u64 = if cfg!(test) { 100_000 } else { 5_000_000 };

/// Bytes of stack that an evaluation may use.
pub(super) const STACK_MAX: usize = 3 << 20;

/// Elements visited for one step. An element takes some 40 bytes, so the values of one evaluation
/// stay below a gigabyte even if all of them are kept.
const ELEMENTS_PER_STEP: usize = 4;

/// Bytes of a text that are looked at for one step.
const BYTES_PER_STEP: usize = 64;

/// Pairs of elements that are compared for one step.
const PAIRS_PER_STEP: u64 = 64;

/// Elements of a list that are copied for a moment, to go through them.
const PASSED_PER_STEP: usize = 16;

/// Fields that move up when one before them is removed.
const MOVED_PER_STEP: usize = 64;

/// Steps for a list that is looked for in another one, however long that is.
const SEARCH_STEPS: u64 = 4_096;

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
    scales: RefCell<Scales>,
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
        let (stack, scales) = (stack_now(), RefCell::default());
        Self { lut, steps, stack, now, tripped, denied, regexes, scales }
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

    /// Whether a value is of a bearable size. What is visited to weigh it counts.
    pub(super) fn bears(&self, value: &Val) -> bool {
        self.weigh(value).is_some()
    }

    /// The weight of a value, unless it is too large.
    pub(super) fn weigh(&self, value: &Val) -> Option<Weight> {
        let mut visited = Visited::default();
        match self.scales.borrow_mut().weigh(value, &mut visited) {
            Ok(weight) => {
                let steps = visited.elements / ELEMENTS_PER_STEP + visited.bytes / BYTES_PER_STEP;
                self.spend(1 + steps as u64).then_some(weight)
            }
            Err(limit) => {
                self.trip(limit);
                None
            }
        }
    }

    /// A value is about to be changed: what is copied for that counts, unless nobody else has it.
    pub(super) fn opens(&self, value: &Val) -> bool {
        if !is_shared(value) {
            self.scales.borrow_mut().forget(value);
            return true;
        }
        let steps = match value {
            Val::Arr(elements) => elements.len() / ELEMENTS_PER_STEP,
            Val::Obj(fields) => fields.len() * 2 / ELEMENTS_PER_STEP,
            Val::BStr(text) | Val::TStr(text) => text.len() / BYTES_PER_STEP,
            _ => 0,
        };
        self.spend(steps as u64)
    }

    /// A changed value has this weight; whether that is bearable.
    pub(super) fn becomes(&self, value: &Val, weight: Weight) -> bool {
        if weight.size > SIZE_MAX {
            return self.trip(TOO_LARGE);
        }
        if weight.depth > DEPTH_MAX {
            // It is the most that it can be: weighed as a whole, it may be less.
            return self.bears(value);
        }
        #[cfg(test)]
        if weight.size < 10_000 {
            let weighed = Scales::default().weigh(value, &mut Visited::default());
            let whole = weighed.map(|weight| (weight.size, weight.bytes));
            assert_eq!(whole, Ok((weight.size, weight.bytes)), "the kept weight is the true one");
        }
        self.scales.borrow_mut().keep(value, weight);
        true
    }

    /// Uses steps for a value that is looked at or copied as a whole, in one go. Numbers and short
    /// texts are free.
    pub(super) fn looks_at(&self, value: &Val) -> bool {
        match value {
            Val::Null | Val::Bool(_) | Val::Num(_) => true,
            Val::BStr(text) | Val::TStr(text) if text.len() <= BYTES_PER_STEP => true,
            _ => self.weigh(value).is_some_and(|weight| {
                let steps = weight.size / ELEMENTS_PER_STEP + weight.bytes / BYTES_PER_STEP;
                self.spend(steps as u64)
            }),
        }
    }

    /// Uses steps for the elements of a list that is gone through: they are copied for that.
    pub(super) fn passes(&self, value: &Val) -> bool {
        match value {
            Val::Arr(elements) => self.spend(1 + (elements.len() / PASSED_PER_STEP) as u64),
            Val::Obj(fields) => self.spend(1 + (fields.len() / PASSED_PER_STEP) as u64),
            _ => true,
        }
    }

    /// Uses steps for elements that move up, because others are removed.
    pub(super) fn moves(&self, elements: usize) -> bool {
        self.spend((elements / MOVED_PER_STEP) as u64)
    }

    /// Uses steps for a key that is a list, which is looked for in the whole value.
    pub(super) fn searches(&self, key: &Val) -> bool {
        !matches!(key, Val::Arr(_)) || self.spend(SEARCH_STEPS)
    }

    /// Uses steps for each element of one list that is compared with each of another one.
    pub(super) fn compares(&self, left: &Val, right: &Val) -> bool {
        let elements = |value: &Val| match value {
            Val::Arr(_) | Val::Obj(_) => self.weigh(value).map(|weight| weight.size),
            _ => Some(0),
        };
        let (Some(own), Some(other)) = (elements(left), elements(right)) else { return false };
        let pairs = own as u64 * other as u64;
        self.looks_at(left) && self.looks_at(right) && self.spend(pairs / PAIRS_PER_STEP)
    }

    /// Uses steps for elements of a value that is being made, which has so many of them by now.
    pub(super) fn make(&self, elements: usize, of: usize) -> bool {
        if of > SIZE_MAX {
            return self.trip(TOO_LARGE);
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
