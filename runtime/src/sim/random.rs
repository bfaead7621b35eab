//! The generator behind a seed.

use std::cell::Cell;

/// splitmix64 (Steele, Lea and Flood, 2014): every seed, zero too, gives a good sequence.
#[derive(Debug)]
pub(super) struct Random(Cell<u64>);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub(super) fn below(&self, bound: usize) -> usize {
        // The upper half of the product: as even as the word (Lemire, 2019), without a division.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// True once in `count` times.
    pub(super) fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A number from 1 to `most`; small ones are frequent, so that both ends are tried.
    pub(super) fn up_to(&self, most: u32) -> u32 {
        let bits = self.below(32 - most.leading_zeros() as usize + 1) as u32;
        let bound = 1_u64 << bits;
        let number = 1 + self.below(bound.min(u64::from(most)) as usize) as u32;
        debug_assert!(number <= most.max(1), "a number within its bound");
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_and_others_give_others() {
        let draw = |seed| {
            let random = Random::new(seed);
            (0..8).map(|_| random.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(draw(0), vec![0; 8]);
    }

    #[test]
    fn numbers_stay_within_their_bounds_and_reach_both_ends() {
        let random = Random::new(1);
        assert_eq!(random.below(0), 0);
        let seen: Vec<_> = (0..500).map(|_| random.up_to(5)).collect();
        assert_eq!((seen.iter().min(), seen.iter().max()), (Some(&1), Some(&5)));
        assert!((0..50).all(|_| random.up_to(1) == 1));
    }
}
