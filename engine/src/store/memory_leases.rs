//! Leases of worlds over a store in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::memory::Data;
use super::{Beat, Mail, Members, Worlds, LETTERS, LETTER_NEWEST};
use crate::error::StoreError;
use crate::time::Time;

/// The clock of the store.
#[derive(Clone)]
pub(super) struct StoreClock(pub(super) Arc<dyn Fn() -> Time + Send + Sync>);

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreClock").field(&(self.0)()).finish()
    }
}

impl Default for StoreClock {
    fn default() -> Self {
        #[expect(clippy::disallowed_methods, reason = "a simulation gives the store its own clock")]
        Self(Arc::new(|| std::time::SystemTime::now().into()))
    }
}

/// Renews leases.
pub(super) struct Heartbeats(pub(super) Arc<Mutex<Data>>);

impl Members for Heartbeats {
    fn beat(&mut self, worlds: &[u64], lease: Duration) -> Result<Beat, StoreError> {
        let data = &mut *self.0.lock();
        let letters = data.states.state(LETTERS, LETTER_NEWEST).version;
        Ok(Beat { letters, ..data.leases.beat(&data.worlds, worlds, lease) })
    }

    fn post(&mut self, mail: &[Mail]) -> Result<bool, StoreError> {
        let data = &mut *self.0.lock();
        let now = (data.leases.clock.0)();
        let is_known = |mail: &&Mail| data.worlds.find(mail.to).is_some();
        let posted = |mail: &Mail| (now, mail.clone());
        data.leases.mail.extend(mail.iter().filter(is_known).map(posted));
        Ok(true)
    }

    fn mail(&mut self, worlds: &[u64], rows: usize, bytes: usize) -> Result<Vec<Mail>, StoreError> {
        let leases = &mut self.0.lock().leases;
        let now = (leases.clock.0)();
        let (mut taken, mut left, mut length) = (Vec::new(), Vec::new(), 0);
        for (posted, mail) in leases.mail.drain(..) {
            if taken.len() < rows && length < bytes && worlds.contains(&mail.to) {
                length += mail.bytes.len();
                taken.push(Mail { age: mail.age + now.since(posted), ..mail });
            } else {
                left.push((posted, mail));
            }
        }
        leases.mail = left;
        Ok(taken)
    }
}

/// When the lease of each world ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    pub(super) clock: StoreClock,
    ends: BTreeMap<u64, Time>,
    /// Rows for worlds and when they were posted, the oldest first.
    mail: Vec<(Time, Mail)>,
}

impl Leases {
    pub(super) fn beat(&mut self, known: &Worlds, worlds: &[u64], lease: Duration) -> Beat {
        let now = (self.clock.0)();
        self.ends.retain(|world, _| known.find(*world).is_some());
        self.mail.retain(|(_, mail)| known.find(mail.to).is_some());
        for world in known.rows.iter().map(|row| row.epoch) {
            let ends = self.ends.entry(world).or_insert_with(|| now.after(lease));
            if worlds.contains(&world) {
                *ends = now.after(lease);
            }
        }
        let left = |(world, ends): (&u64, &Time)| (*world, ends.since(now));
        let left = self.ends.iter().map(left).collect();
        Beat { version: known.version, left, letters: 0 }
    }

    /// Whether the leases of these worlds are over.
    pub(super) fn are_over(&self, worlds: &[u64]) -> bool {
        let now = (self.clock.0)();
        worlds.iter().all(|world| self.ends.get(world).is_some_and(|ends| *ends <= now))
    }
}
