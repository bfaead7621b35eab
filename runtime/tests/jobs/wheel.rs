//! The wheel against a model: a sorted map of all pending timers.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use turnwheel_runtime::internal::{Key, Wheel, MOVES_MAX};

const TIMERS_MAX: usize = 1 << 27;
/// Timers of one chunk of memory.
const CHUNK_ENTRIES: usize = 1 << 12;
const TICK_NS: u64 = 1 << 16;
const YEAR_NS: u64 = 365 * 24 * 3_600 * 1_000_000_000;

fn new_wheel<T>(now_ns: u64) -> Wheel<T> {
    Wheel::with_limit(now_ns, TIMERS_MAX)
}

/// Xorshift (Marsaglia 2003): enough for choosing cases, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A span of any magnitude: from nothing to about 2^`bits` nanoseconds.
    fn span(&mut self, bits: u64) -> u64 {
        let magnitude = self.below(bits + 1);
        self.next() & ((1 << magnitude) - 1)
    }
}

/// A timer's place in the model, its key, and a witness of its value's life.
type Life = ((u64, u64), Key, Rc<()>);

/// Reference model of the wheel: a sorted map from (deadline, order of arming) to the timer.
#[derive(Default)]
struct Model {
    pending: BTreeMap<(u64, u64), u64>,
    live: HashMap<u64, Life>,
    names: Vec<u64>,
    armed: u64,
    orders: u64,
}

struct Pair {
    wheel: Wheel<(u64, Rc<()>)>,
    model: Model,
    stale: Vec<Key>,
    now_ns: u64,
    random: Random,
}

impl Pair {
    fn new(seed: u64, now_ns: u64) -> Self {
        Self {
            wheel: new_wheel(now_ns),
            model: Model::default(),
            stale: Vec::new(),
            now_ns,
            random: Random(seed),
        }
    }

    fn deadline(&mut self) -> u64 {
        match self.random.below(8) {
            0 => self.now_ns.saturating_sub(self.random.span(40)),
            // A few equal deadlines, so that their order is tested.
            1 => (self.now_ns & !(TICK_NS - 1)).saturating_add(self.random.below(4) * TICK_NS),
            2 => self.now_ns.saturating_add(self.random.span(63)),
            3 => u64::MAX - self.random.below(2),
            _ => self.now_ns.saturating_add(self.random.span(34)),
        }
    }

    fn arm(&mut self) {
        let deadline_ns = self.deadline();
        self.arm_at(deadline_ns);
    }

    /// More timers in one slot than one call of `expire` moves.
    fn arm_flood(&mut self) {
        let base_ns = self.now_ns.saturating_add(self.random.span(44));
        let spread = self.random.below(34);
        for _ in 0..2 * MOVES_MAX {
            let deadline_ns = base_ns.saturating_add(self.random.span(spread));
            self.arm_at(deadline_ns);
        }
    }

    fn arm_at(&mut self, deadline_ns: u64) {
        let name = self.model.armed;
        let life = Rc::new(());
        let key = self.wheel.arm(deadline_ns, (name, Rc::clone(&life))).expect("not full");
        self.model.armed += 1;
        self.model.orders += 1;
        let place = (deadline_ns, self.model.orders);
        self.model.pending.insert(place, name);
        self.model.live.insert(name, (place, key, life));
        self.model.names.push(name);
    }

    /// Some timer that is pending, if the first guesses find one.
    fn any_live(&mut self) -> Option<u64> {
        for _ in 0..8 {
            let count = self.model.names.len() as u64;
            if count == 0 {
                return None;
            }
            let at = self.random.below(count) as usize;
            let name = self.model.names[at];
            if self.model.live.contains_key(&name) {
                return Some(name);
            }
            self.model.names.swap_remove(at);
        }
        None
    }

    fn cancel(&mut self) {
        let Some(name) = self.any_live() else { return };
        let (place, key, life) = self.model.live.remove(&name).expect("looked up");
        self.model.pending.remove(&place);
        let (found, _) = self.wheel.cancel(key).expect("the timer is pending");
        assert_eq!(found, name);
        assert_eq!(Rc::strong_count(&life), 1);
        self.stale.push(key);
    }

    fn try_stale_keys(&mut self) {
        for _ in 0..4.min(self.stale.len()) {
            let at = self.random.below(self.stale.len() as u64) as usize;
            assert!(self.wheel.cancel(self.stale[at]).is_none());
        }
    }

    fn jump(&mut self) {
        self.now_ns = match self.random.below(16) {
            0 => self.now_ns.saturating_add(self.random.span(58)),
            1 => self.now_ns,
            2 => self.wheel.next_deadline().unwrap_or(0).max(self.now_ns).min(u64::MAX / 2),
            _ => self.now_ns.saturating_add(self.random.span(30)),
        };
        if self.now_ns > u64::MAX / 2 {
            self.now_ns = u64::MAX / 2;
        }
    }

    /// One call of `expire`; a clock that runs backwards must change nothing.
    fn expire(&mut self) -> usize {
        let max = 1 + self.random.span(10) as usize;
        let shown = self.now_ns.saturating_sub(self.random.below(2) * self.random.span(30));
        let mut fired = Vec::new();
        let count = self.wheel.expire(self.now_ns, 1, &mut |at, value| fired.push((at, value)))
            + self.wheel.expire(shown, max, &mut |at, value| fired.push((at, value)));
        assert_eq!(count, fired.len());
        assert!(count <= max + 1);
        for (deadline_ns, (name, life)) in fired {
            let ((first_deadline, order), first) =
                self.model.pending.pop_first().expect("only pending timers fire");
            assert_eq!((deadline_ns, name), (first_deadline, first), "out of order");
            assert!(deadline_ns <= self.now_ns, "early");
            let (place, key, _) = self.model.live.remove(&name).expect("fires once");
            assert_eq!(place, (deadline_ns, order));
            assert_eq!(Rc::strong_count(&life), 1);
            self.stale.push(key);
        }
        count
    }

    fn check(&self) {
        assert_eq!(self.wheel.pending(), self.model.pending.len());
        let exact = self.model.pending.first_key_value().map(|((deadline, _), _)| *deadline);
        match (self.wheel.next_deadline(), exact) {
            (Some(bound), Some(exact)) => assert!(bound <= exact, "{bound} is after {exact}"),
            (bound, exact) => assert_eq!(bound, exact),
        }
    }

    /// Everything that is due fires if `expire` is called while the next deadline is not ahead.
    fn settle(&mut self) {
        let calls_max = 8 * self.wheel.pending() + 64;
        let mut calls = 0;
        while self.wheel.next_deadline().is_some_and(|next| next <= self.now_ns) {
            self.expire();
            calls += 1;
            assert!(calls <= calls_max, "no progress");
        }
        let exact = self.model.pending.first_key_value().map(|((deadline, _), _)| *deadline);
        assert!(exact.is_none_or(|deadline| deadline > self.now_ns), "lost or late");
    }
}

fn run_against_model(seed: u64, start_ns: u64, steps: u32) {
    eprintln!("seed {seed:#x}, start {start_ns}, {steps} steps");
    let mut pair = Pair::new(seed, start_ns);
    for step in 0..steps {
        // Phases in which the wheel fills, and phases in which it drains.
        let arms = if step / 512 % 2 == 0 { 9 } else { 5 };
        match pair.random.below(16) {
            choice if choice < arms => pair.arm(),
            9..=12 => pair.cancel(),
            13 if step % 512 == 0 => pair.arm_flood(),
            13 => pair.try_stale_keys(),
            14 => {
                pair.jump();
                pair.expire();
            }
            _ => {
                pair.jump();
                pair.settle();
            }
        }
        pair.check();
    }
    // The remaining timers are dropped with the wheel, once.
    drop(pair.wheel);
    assert!(pair.model.live.values().all(|(_, _, life)| Rc::strong_count(life) == 1));
}

#[test]
fn the_wheel_does_what_the_model_does() {
    for seed in 1..=40 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (seed << 32));
        let start_ns = random.span(60);
        run_against_model(random.next(), start_ns, 4_000);
    }
}

#[test]
fn every_power_of_two_fires_exactly_at_its_deadline() {
    for start in [0, 1, TICK_NS - 1, TICK_NS, 12_345_678_901_234, 9 * YEAR_NS] {
        for bit in 0..62 {
            let deadline_ns = start + (1 << bit);
            let mut wheel = new_wheel(start);
            wheel.arm(deadline_ns, ()).expect("not full");
            assert_eq!(wheel.next_deadline(), Some(deadline_ns));
            assert_eq!(wheel.expire(deadline_ns - 1, 8, &mut |_, ()| {}), 0);
            assert_eq!(wheel.next_deadline(), Some(deadline_ns));
            assert_eq!(wheel.expire(deadline_ns, 8, &mut |_, ()| {}), 1);
            assert!(wheel.pending() == 0 && wheel.next_deadline().is_none());
        }
    }
}

#[test]
fn a_jump_of_ten_years_is_caught_up_in_one_step() {
    let mut wheel = new_wheel(0);
    for year in (0..10).rev() {
        wheel.arm(year * YEAR_NS + 1, year).expect("not full");
    }
    let mut fired = Vec::new();
    wheel.expire(11 * YEAR_NS, usize::MAX, &mut |_, year| fired.push(year));
    assert_eq!(fired, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_million_timers_fire_once_each_in_order() {
    const COUNT: u64 = 1_000_000;
    let mut random = Random(42);
    let mut wheel = new_wheel(0);
    let mut seen = vec![false; COUNT as usize];
    for name in 0..COUNT {
        // Up to an hour, in whole microseconds.
        wheel.arm(random.below(3_600_000_000) * 1_000, name).expect("not full");
    }
    let (mut last_ns, mut now_ns, mut fired) = (0, 0, 0);
    while let Some(next_ns) = wheel.next_deadline() {
        now_ns = next_ns.max(now_ns) + 1_000_000_000;
        while wheel.next_deadline().is_some_and(|next| next <= now_ns) {
            fired += wheel.expire(now_ns, 256, &mut |deadline_ns, name| {
                assert!(last_ns <= deadline_ns && deadline_ns <= now_ns);
                last_ns = deadline_ns;
                assert!(!std::mem::replace(&mut seen[name as usize], true));
            });
        }
    }
    assert_eq!(fired, COUNT as usize);
    assert!(seen.iter().all(|seen| *seen) && wheel.pending() == 0);
}

#[test]
fn one_call_moves_a_bounded_number_of_timers() {
    let count = 10 * MOVES_MAX;
    let mut wheel = new_wheel(0);
    for name in 0..count {
        wheel.arm(YEAR_NS, name).expect("not full");
    }
    let mut fired = Vec::new();
    let mut calls = 0;
    while wheel.next_deadline().is_some_and(|next| next <= YEAR_NS) {
        wheel.expire(YEAR_NS, usize::MAX, &mut |_, name| fired.push(name));
        calls += 1;
        // Arms between the calls must neither overtake nor get lost.
        if calls == 2 {
            wheel.arm(YEAR_NS, count).expect("not full");
            let other = wheel.arm(2 * YEAR_NS, count).expect("not full");
            wheel.cancel(other).expect("pending");
        }
    }
    assert!(calls >= 10, "{calls} calls for ten times the limit");
    assert_eq!(fired, (0..=count).collect::<Vec<_>>());
}

#[test]
fn an_early_timer_at_the_end_of_a_long_slot_is_seen_while_it_is_emptied() {
    let mut wheel = new_wheel(0);
    let hour_ns = YEAR_NS / 365 / 24;
    for _ in 0..3 * MOVES_MAX {
        wheel.arm(YEAR_NS + hour_ns, "late").expect("not full");
    }
    wheel.arm(YEAR_NS, "early").expect("not full");
    assert_eq!(wheel.expire(YEAR_NS, 1, &mut |_, _| {}), 0);
    assert_eq!(wheel.next_deadline(), Some(YEAR_NS));
    let mut fired = Vec::new();
    while wheel.next_deadline().is_some_and(|next| next <= YEAR_NS) {
        wheel.expire(YEAR_NS, 1, &mut |_, name| fired.push(name));
    }
    assert_eq!(fired, ["early"]);
}

#[test]
fn a_time_that_runs_backwards_counts_as_the_latest_seen() {
    let mut wheel = new_wheel(0);
    wheel.arm(10, 'a').expect("not full");
    wheel.arm(20, 'b').expect("not full");
    let mut fired = Vec::new();
    assert_eq!(wheel.expire(30, 1, &mut |_, name| fired.push(name)), 1);
    assert_eq!(wheel.expire(5, 1, &mut |_, name| fired.push(name)), 1);
    assert_eq!(fired, ['a', 'b']);
}

#[test]
fn a_stale_key_never_hits_the_next_timer_of_its_entry() {
    let mut wheel = new_wheel(0);
    let first = wheel.arm(10, 'a').expect("not full");
    assert_eq!(wheel.cancel(first), Some('a'));
    let second = wheel.arm(10, 'b').expect("not full");
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(wheel.expire(10, 1, &mut |_, value| assert_eq!(value, 'b')), 1);
    assert_eq!(wheel.cancel(second), None);
}

#[test]
fn a_full_wheel_gives_the_value_back_and_takes_more_after_a_cancel() {
    let mut wheel = Wheel::with_limit(0, 2);
    let key = wheel.arm(1, "first").expect("not full");
    wheel.arm(2, "second").expect("not full");
    assert_eq!(wheel.arm(3, "third"), Err("third"));
    assert_eq!(wheel.cancel(key), Some("first"));
    assert!(wheel.arm(3, "third").is_ok());
}

#[test]
fn a_cancelled_earliest_timer_leaves_a_bound_that_expire_makes_exact() {
    let (early, late) = (YEAR_NS, YEAR_NS + TICK_NS);
    let mut wheel = new_wheel(0);
    let key = wheel.arm(early, ()).expect("not full");
    wheel.arm(late, ()).expect("not full");
    wheel.cancel(key);
    assert_eq!(wheel.next_deadline(), Some(early));
    assert_eq!(wheel.expire(early, 1, &mut |_, ()| {}), 0);
    assert_eq!(wheel.next_deadline(), Some(late));
}

#[test]
fn cancelled_due_timers_do_not_pile_up() {
    let mut wheel = new_wheel(YEAR_NS);
    let keep = wheel.arm(1, 0).expect("not full");
    for round in 0..100_000 {
        let key = wheel.arm(2, round).expect("not full");
        assert_eq!(wheel.cancel(key), Some(round));
    }
    assert!(wheel.memory().0 <= 256, "{:?}", wheel.memory());
    assert_eq!(wheel.cancel(keep), Some(0));
    assert_eq!((wheel.memory().0, wheel.next_deadline()), (0, None));
}

#[test]
fn a_panic_in_a_delivery_loses_no_other_timer() {
    let mut wheel = new_wheel(0);
    for name in 0..3 {
        wheel.arm(name, name).expect("not full");
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wheel.expire(9, 9, &mut |_, name| assert_ne!(name, 1, "on purpose"));
    }));
    assert!(panicked.is_err());
    let mut fired = Vec::new();
    wheel.expire(9, 9, &mut |_, name| fired.push(name));
    assert_eq!((fired, wheel.pending()), (vec![2], 0));
}

#[test]
fn a_flood_that_has_gone_leaves_little_memory_and_no_valid_key() {
    const SPARE_CHUNKS: usize = 16;
    let count = (SPARE_CHUNKS + 4) * CHUNK_ENTRIES;
    let mut wheel = Wheel::with_limit(0, count);
    let arm_all = |wheel: &mut Wheel<usize>| -> Vec<Key> {
        (0..count).map(|name| wheel.arm(YEAR_NS, name).expect("not full")).collect()
    };
    let keys = arm_all(&mut wheel);
    assert_eq!(wheel.arm(0, count), Err(count));
    assert_eq!(wheel.memory(), (0, SPARE_CHUNKS + 4));
    keys.iter().for_each(|key| assert!(wheel.cancel(*key).is_some()));
    assert_eq!((wheel.memory(), wheel.pending()), ((0, SPARE_CHUNKS), 0));

    arm_all(&mut wheel);
    assert_eq!(wheel.memory(), (0, SPARE_CHUNKS + 4), "its chunks are used again");
    assert!(keys.iter().all(|key| wheel.cancel(*key).is_none()));
}
