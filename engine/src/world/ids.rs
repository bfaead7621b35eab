//! New ids: UUIDs of version 7, from the world's clock and seed. Their last bits are the slot that they
//! are of, so that who owns a plan is known from its id.

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use uuid::{Builder, Uuid};

use crate::id::PlanId;
use crate::store::SLOTS;
use crate::time::Time;

/// Makes ids. With a seed, the same ones in each run: those of a world after a crash are others
/// than those before it, whose plans it may have left in the store.
#[derive(Debug)]
pub(crate) struct Ids {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: u64,
    ms: u64,
    last: Option<PlanId>,
    /// The slots of new ids, which take turns.
    homes: Vec<usize>,
    next_home: usize,
}

impl Ids {
    /// `epoch` is the number of the world.
    pub(crate) fn new(seed: Option<u64>, epoch: u64) -> Self {
        let seeded = |seed: u64| seed.wrapping_add(epoch.wrapping_sub(1).rotate_right(8));
        let random = seed.map_or_else(|| RandomState::new().hash_one("ids"), seeded);
        Self {
            state: Mutex::new(State { random, ms: 0, last: None, homes: Vec::new(), next_home: 0 }),
        }
    }

    /// The slots that new ids are of from now on.
    pub(crate) fn set_homes(&self, homes: Vec<usize>) {
        self.state.lock().homes = homes;
    }

    /// A new id, greater than the last one.
    pub(crate) fn next(&self, now: Time) -> PlanId {
        let mut state = self.state.lock();
        state.next_home = (state.next_home + 1) % state.homes.len().max(1);
        let slot = state.homes.get(state.next_home).copied().unwrap_or_default();
        state.next_in(now, slot)
    }

    /// A new id in a slot, greater than the last one.
    pub(crate) fn next_in(&self, now: Time, slot: usize) -> PlanId {
        self.state.lock().next_in(now, slot)
    }
}

impl State {
    fn next_in(&mut self, now: Time, slot: usize) -> PlanId {
        let state = self;
        state.ms = state.ms.max(now.0 / 1_000);
        let mut random = [0; 10];
        let (high, low) = (state.next(), state.next());
        random[..8].copy_from_slice(&high.to_be_bytes());
        random[8..].copy_from_slice(&low.to_be_bytes()[..2]);
        let id = Builder::from_unix_timestamp_millis(state.ms, &random).into_uuid().as_u128();
        let slots = SLOTS as u128;
        let id = match state.last.map(|last| last.uuid().as_u128() / slots) {
            // In the same millisecond: one more than the last, whose lowest 52 bits above the slot are
            // not all set before the universe ends.
            Some(last) if last >= id / slots => last + 1,
            _ => id / slots,
        };
        let id = PlanId::new(Uuid::from_u128(id * slots + slot as u128));
        state.last = Some(id);
        id
    }

    /// SplitMix64 (Steele, Lea, Flood 2014): every seed is good, and no state is repeated.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
