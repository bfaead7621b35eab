//! The place up to which a journal of several writers is complete.
//!
//! A write takes its places before its entries are visible, so a reader may see a place before a
//! lower one. It goes on to the place of a visible entry only when all writes have ended that were
//! under way after that entry was seen: a later write takes later places.
//!
//! Only places of visible entries count, because those are on disk. Other places that were given
//! out may be given out again after a crash of the database.

use crate::store::{Newest, Seq};

/// The horizon as far as looks at the store have shown it.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    /// Entries at this place and before it are visible, or never will be.
    complete: Option<Seq>,
    /// The newest visible place at a look, and the writes under way then that still are.
    next: Option<(Seq, Vec<String>)>,
}

impl Horizon {
    /// The place that comes next, when writes have ended that are under way.
    pub(super) fn next_place(&self) -> Option<Seq> {
        self.next.as_ref().map(|(place, _)| *place)
    }

    /// The writes that have to end before that.
    pub(super) fn under_way(&self) -> &[String] {
        self.next.as_ref().map_or(&[], |(_, under_way)| under_way)
    }

    /// The place up to which a read that begins now finds all entries; `None` until one is known.
    pub(super) fn complete(&self) -> Option<Seq> {
        self.complete
    }

    /// Takes one look at the store. A newest entry before the horizon changes nothing: what was
    /// there may have been removed.
    pub(super) fn look(&mut self, newest: Newest) {
        let Newest { seq, under_way } = newest;
        if let Some((place, open)) = &mut self.next {
            open.retain(|write| under_way.contains(write));
            if open.is_empty() {
                self.complete = Some(*place);
                self.next = None;
            }
        }
        if under_way.is_empty() {
            self.complete = self.complete.max(Some(seq));
            self.next = None;
        } else if self.next.is_none() && self.complete < Some(seq) {
            self.next = Some((seq, under_way));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Horizon;
    use crate::store::{Newest, Seq};

    #[test]
    fn horizon_waits_for_the_writes_that_were_under_way_and_for_no_later_ones() {
        let under_way = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let mut horizon = Horizon::default();
        let mut look = |seq, writes: &[&str]| {
            horizon.look(Newest { seq, under_way: under_way(writes) });
            horizon.complete()
        };
        assert_eq!(look(7, &["a"]), None);
        assert_eq!(look(9, &["a", "b"]), None);
        assert_eq!(look(12, &["b"]), Some(7));
        assert_eq!(look(12, &["b", "c"]), Some(7));
        assert_eq!(look(15, &["c"]), Some(12), "c took its places later");
        assert_eq!(look(15, &["c"]), Some(12));
        assert_eq!(look(15, &[]), Some(15));
        assert_eq!(look(3, &[]), Some(15), "the newest entries were removed");
        assert_eq!(look(3, &["d"]), Some(15));
        assert_eq!(look(16, &[]), Some(16), "3 is not waited for");
    }

    /// Writers take places and end in any order, and the database crashes at times; a reader reads
    /// between any two of these steps.
    #[test]
    fn reader_behind_the_horizon_finds_every_entry_once() {
        for seed in 1..=2_000 {
            let mut dice = Dice(seed);
            let mut store = Store::default();
            let mut horizon = Horizon::default();
            let (mut at, mut read) = (0, Vec::new());
            for _ in 0..200 {
                match dice.below(4) {
                    0..3 => store.step(&mut dice),
                    _ => {
                        // Other steps may come between the reads of a look.
                        let seq = store.newest();
                        store.step(&mut dice);
                        let under_way = store.open.iter().map(|it| it.name.clone()).collect();
                        horizon.look(Newest { seq, under_way });
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
            horizon.look(Newest { seq: store.newest(), under_way: Vec::new() });
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

        /// Writes under way are gone. Their places may be given out again, and so may names.
        fn crash(&mut self, dice: &mut Dice) {
            self.open.clear();
            let newest = self.newest();
            self.last = newest + dice.below(self.last - newest + 1);
            self.begun = dice.below(self.begun + 1);
        }

        fn newest(&self) -> Seq {
            self.visible.last().copied().unwrap_or_default()
        }

        fn between(&self, after: Seq, until: Seq) -> Vec<Seq> {
            let places = self.visible.iter().copied();
            places.filter(|place| *place > after && *place <= until).collect()
        }

        fn step(&mut self, dice: &mut Dice) {
            match dice.below(60) {
                0..20 if self.open.len() < 3 => self.begin(),
                20..40 => self.take(dice),
                40..58 => self.end(dice),
                58 => self.crash(dice),
                _ => {}
            }
        }
    }
}
