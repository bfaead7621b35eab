//! The place up to which a journal of several writers is complete.
//!
//! A write takes its places before its entries are visible, so a reader may see a place before a
//! lower one. It goes on to a place only when all writes have ended that were under way when this
//! place was the newest one: a later write takes later places.

use crate::store::Seq;

/// The horizon as far as looks at the store have shown it.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    /// Entries at this place and before it are visible, or never will be.
    complete: Option<Seq>,
    /// The newest place at a look, and the writes that were under way then and still are.
    next: Option<(Seq, Vec<String>)>,
}

impl Horizon {
    /// Whether the newest place tells nothing new.
    pub(super) fn is_at(&self, last: Seq) -> bool {
        self.complete == Some(last) && self.next.is_none()
    }

    /// The place that comes next, when writes have ended that are under way.
    pub(super) fn next_place(&self) -> Option<Seq> {
        self.next.as_ref().map(|(place, _)| *place)
    }

    /// The place up to which a read that begins now finds all entries; `None` until one is known.
    pub(super) fn complete(&self) -> Option<Seq> {
        self.complete
    }

    /// Takes one look: the newest place, and then, read after it, the writes under way.
    pub(super) fn look(&mut self, last: Seq, under_way: Vec<String>) {
        if let Some((place, open)) = &mut self.next {
            open.retain(|write| under_way.contains(write));
            if open.is_empty() {
                self.complete = Some(*place);
                self.next = None;
            }
        }
        if under_way.is_empty() {
            self.complete = Some(last);
            self.next = None;
        } else if self.next.is_none() && self.complete != Some(last) {
            self.next = Some((last, under_way));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Horizon;
    use crate::store::Seq;

    #[test]
    fn horizon_waits_for_the_writes_that_were_under_way_and_for_no_later_ones() {
        let under_way = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let mut horizon = Horizon::default();
        let mut look = |last, writes: &[&str]| {
            horizon.look(last, under_way(writes));
            horizon.complete()
        };
        assert_eq!(look(7, &["a"]), None);
        assert_eq!(look(9, &["a", "b"]), None);
        assert_eq!(look(12, &["b"]), Some(7));
        assert_eq!(look(12, &["b", "c"]), Some(7));
        assert_eq!(look(15, &["c"]), Some(12), "c took its places later");
        assert_eq!(look(15, &["c"]), Some(12));
        assert_eq!(look(15, &[]), Some(15));
        assert!(horizon.is_at(15));
    }

    /// Writers take places and end in any order; a reader reads between any two of their steps.
    #[test]
    fn reader_behind_the_horizon_finds_every_entry_once() {
        for seed in 1..=2_000 {
            let mut dice = Dice(seed);
            let mut store = Store::default();
            let mut horizon = Horizon::default();
            let (mut at, mut read) = (0, Vec::new());
            for _ in 0..200 {
                match dice.below(4) {
                    0 if store.open.len() < 3 => store.begin(),
                    1 => store.take(&mut dice),
                    2 => store.end(&mut dice),
                    _ => {
                        // Other steps may come between the three reads of a look.
                        let last = store.last;
                        store.step(&mut dice);
                        let under_way = store.open.iter().map(|it| it.name.clone()).collect();
                        horizon.look(last, under_way);
                        let Some(until) = horizon.complete() else { continue };
                        store.step(&mut dice);
                        read.extend(store.between(at, until));
                        at = until.max(at);
                    }
                }
            }
            while !store.open.is_empty() {
                store.end(&mut dice);
            }
            horizon.look(store.last, Vec::new());
            let until = horizon.complete().expect("nothing is under way");
            read.extend(store.between(at, until));
            assert!(read.is_sorted(), "seed {seed}: {read:?}");
            let all: Vec<Seq> = store.visible.into_iter().collect();
            assert_eq!(read, all, "seed {seed}");
        }
    }

    struct Dice(u64);

    impl Dice {
        fn below(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % below
        }
    }

    struct Write {
        name: String,
        places: Vec<Seq>,
    }

    #[derive(Default)]
    struct Store {
        last: Seq,
        begun: u64,
        open: Vec<Write>,
        visible: BTreeSet<Seq>,
    }

    impl Store {
        fn begin(&mut self) {
            self.begun += 1;
            self.open.push(Write { name: self.begun.to_string(), places: Vec::new() });
        }

        fn take(&mut self, dice: &mut Dice) {
            let count = self.open.len() as u64;
            if count > 0 {
                self.last += 1;
                self.open[dice.below(count) as usize].places.push(self.last);
            }
        }

        /// Makes the entries of a write visible, or takes it back.
        fn end(&mut self, dice: &mut Dice) {
            let count = self.open.len() as u64;
            if count > 0 {
                let ended = self.open.swap_remove(dice.below(count) as usize);
                if dice.below(8) > 0 {
                    self.visible.extend(ended.places);
                }
            }
        }

        fn between(&self, after: Seq, until: Seq) -> Vec<Seq> {
            let places = self.visible.iter().copied();
            places.filter(|place| *place > after && *place <= until).collect()
        }

        fn step(&mut self, dice: &mut Dice) {
            match dice.below(4) {
                0 if self.open.len() < 3 => self.begin(),
                1 => self.take(dice),
                2 => self.end(dice),
                _ => {}
            }
        }
    }
}
