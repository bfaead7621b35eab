//! Source of choices: a generator with a seed, or a script that tries them all.

use std::cell::{Cell, RefCell};

/// Answers each question «which of so many?».
#[derive(Debug)]
pub(super) struct Random {
    /// splitmix64 (Steele, Lea and Flood, 2014): every seed, zero too, gives a good sequence.
    state: Cell<u64>,
    /// Answers in place of the generator.
    script: Option<RefCell<Script>>,
}

/// A path through the tree of all choices.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Each choice, and of how many.
    path: Vec<(usize, usize)>,
    /// Choices made so far.
    made: usize,
}

impl Script {
    /// The next path in order; false after the last.
    pub(super) fn advance(&mut self) -> bool {
        self.path.truncate(self.made);
        self.made = 0;
        while let Some((choice, of)) = self.path.pop() {
            if choice + 1 < of {
                self.path.push((choice + 1, of));
                return true;
            }
        }
        false
    }

    fn choose(&mut self, of: usize) -> usize {
        if self.made == self.path.len() {
            self.path.push((0, of));
        }
        let choice = self.path[self.made].0;
        debug_assert_eq!(self.path[self.made].1, of, "equal choices lead to equal questions");
        self.made += 1;
        choice
    }
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: Cell::new(seed), script: None }
    }

    /// Follows a script, then always takes the first choice.
    pub(super) fn scripted(script: Script) -> Self {
        Self { state: Cell::new(0), script: Some(RefCell::new(script)) }
    }

    /// The choices made, if a script is used.
    pub(super) fn script(&self) -> Option<Script> {
        self.script.as_ref().map(|script| script.borrow().clone())
    }

    fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub(super) fn below(&self, bound: usize) -> usize {
        if bound <= 1 {
            return 0;
        }
        if let Some(script) = &self.script {
            return script.borrow_mut().choose(bound);
        }
        // The upper half of the product: as even as the word (Lemire, 2019), without a division.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// True once in `count` times.
    pub(super) fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A number up to `most`, for variation that adds no new order; always 0 with a script.
    pub(super) fn extra(&self, most: usize) -> usize {
        if self.script.is_some() {
            0
        } else {
            self.below(most + 1)
        }
    }

    /// A number from 1 to `most`; small ones are frequent, so that both ends are tried. A script
    /// has only `most`.
    pub(super) fn up_to(&self, most: u32) -> u32 {
        if self.script.is_some() {
            return most;
        }
        let bits = self.below(32 - most.leading_zeros() as usize + 1) as u32;
        let bound = 1_u64 << bits;
        let number = 1 + self.below(bound.min(u64::from(most)) as usize) as u32;
        debug_assert!(number <= most.max(1), "a number within its bound");
        number
    }
}
