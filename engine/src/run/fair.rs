//! Order of waiters: the highest priority first, plans in turn, each plan's own in their order.

use std::collections::{BTreeMap, HashMap};

use crate::id::PlanId;

/// Number of a waiter; later requests have greater numbers.
pub(super) type Number = u64;

/// The waiters. Cost: logarithmic in their count.
#[derive(Debug)]
pub(super) struct Fair<T> {
    /// By priority; a level is there only while somebody waits in it.
    levels: BTreeMap<i32, Level<T>>,
    len: usize,
}

/// The plans of one priority.
#[derive(Debug)]
struct Level<T> {
    /// The plans in the order of their turns.
    ring: BTreeMap<u64, PlanId>,
    lines: HashMap<PlanId, Line<T>>,
    last_turn: u64,
}

/// The waiters of one plan; never empty.
#[derive(Debug)]
struct Line<T> {
    turn: u64,
    waiting: BTreeMap<Number, T>,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { levels: BTreeMap::new(), len: 0 }
    }
}

impl<T> Fair<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The highest priority of a waiter.
    pub(super) fn priority(&self) -> Option<i32> {
        self.levels.last_key_value().map(|(priority, _)| *priority)
    }

    /// Adds one. A plan that has none here comes behind all other plans of its priority.
    pub(super) fn put(&mut self, priority: i32, plan: PlanId, number: Number, one: T) {
        let level = self.levels.entry(priority).or_insert_with(|| Level {
            ring: BTreeMap::new(),
            lines: HashMap::new(),
            last_turn: 0,
        });
        let line = match level.lines.entry(plan) {
            std::collections::hash_map::Entry::Occupied(line) => line.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                level.last_turn += 1;
                level.ring.insert(level.last_turn, plan);
                place.insert(Line { turn: level.last_turn, waiting: BTreeMap::new() })
            }
        };
        let before = line.waiting.insert(number, one);
        assert!(before.is_none(), "numbers are given once");
        self.len += 1;
    }

    /// Takes the one whose turn it is.
    pub(super) fn take(&mut self) -> Option<(i32, PlanId, Number, T)> {
        let (priority, level) = self.levels.iter_mut().next_back()?;
        let priority = *priority;
        let (_, plan) = level.ring.pop_first().expect("a level has plans");
        let line = level.lines.get_mut(&plan).expect("a plan in the ring has a line");
        let (number, one) = line.waiting.pop_first().expect("a line is not empty");
        if line.waiting.is_empty() {
            level.lines.remove(&plan);
        } else {
            level.last_turn += 1;
            line.turn = level.last_turn;
            level.ring.insert(level.last_turn, plan);
        }
        if level.ring.is_empty() {
            self.levels.remove(&priority);
        }
        self.len -= 1;
        Some((priority, plan, number, one))
    }

    /// Takes one out of turn, if it is here.
    pub(super) fn remove(&mut self, priority: i32, plan: PlanId, number: Number) -> Option<T> {
        let level = self.levels.get_mut(&priority)?;
        let line = level.lines.get_mut(&plan)?;
        let one = line.waiting.remove(&number)?;
        if line.waiting.is_empty() {
            level.ring.remove(&line.turn);
            level.lines.remove(&plan);
        }
        if level.ring.is_empty() {
            self.levels.remove(&priority);
        }
        self.len -= 1;
        Some(one)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fair, PlanId};

    fn plan(number: u8) -> PlanId {
        PlanId::from_bytes([number; 16])
    }

    fn all(fair: &mut Fair<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| fair.take().map(|(_, _, _, one)| one)).collect()
    }

    #[test]
    fn plans_take_turns_and_each_keeps_its_order() {
        let mut fair = Fair::default();
        for (number, one) in ["a1", "a2", "a3"].into_iter().enumerate() {
            fair.put(0, plan(1), number as u64, one);
        }
        fair.put(0, plan(2), 10, "b1");
        fair.put(0, plan(3), 11, "c1");
        fair.put(0, plan(2), 12, "b2");
        assert_eq!(fair.len(), 6);
        assert_eq!(all(&mut fair), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert_eq!(fair.len(), 0);
    }

    #[test]
    fn higher_priorities_go_first() {
        let mut fair = Fair::default();
        fair.put(0, plan(1), 1, "usual");
        fair.put(-5, plan(2), 2, "whenever");
        fair.put(5, plan(3), 3, "urgent");
        assert_eq!(all(&mut fair), ["urgent", "usual", "whenever"]);
    }

    #[test]
    fn one_that_gives_up_is_passed_over_once() {
        let mut fair = Fair::default();
        fair.put(0, plan(1), 1, "a1");
        fair.put(0, plan(1), 2, "a2");
        fair.put(0, plan(2), 3, "b1");
        assert_eq!(fair.remove(0, plan(1), 1), Some("a1"));
        assert_eq!(fair.remove(0, plan(1), 1), None);
        assert_eq!(fair.remove(0, plan(2), 3), Some("b1"), "its line is empty now");
        assert_eq!(fair.remove(1, plan(2), 3), None);
        assert_eq!(all(&mut fair), ["a2"]);
    }

    #[test]
    fn one_that_comes_back_has_its_old_place_in_its_plan() {
        let mut fair = Fair::default();
        fair.put(0, plan(1), 1, "a1");
        fair.put(0, plan(1), 2, "a2");
        let (priority, of, number, one) = fair.take().unwrap();
        fair.put(priority, of, number, one);
        assert_eq!(all(&mut fair), ["a1", "a2"]);
    }
}
