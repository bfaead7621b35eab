//! A store of several nodes that is watched: what it admits, and who has which slot.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::store::{
    slot_of, Append, Batch, Beat, Change, Hold, Mail, Members, Owner, Removal, RowWrite,
    ScheduleWrite, Seq, StoreReader, StoreWriter, Swap, Verdict, Worlds, WorldsWrite,
};
use turnwheel_engine::{MemoryStore, PlanId, Store, StoreError, Time};

/// The store that all nodes share, with its clock.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) memory: MemoryStore,
    us: Arc<AtomicU64>,
    pub(crate) log: Arc<Mutex<Log>>,
    /// Whether epochs count for nothing: a broken store.
    is_broken: bool,
}

/// States that must never be.
#[derive(Debug, Default)]
pub(crate) struct Log {
    owners: Vec<Owner>,
    entries: BTreeSet<(PlanId, Seq)>,
    pub(crate) refused: usize,
    /// Changes under the epoch of a slot that were refused.
    pub(crate) fenced: usize,
    pub(crate) written: usize,
    /// Requests and answers that the store carried.
    pub(crate) mail: usize,
    pub(crate) wrong: Vec<String>,
}

impl Base {
    pub(crate) fn new(is_broken: bool) -> Self {
        let us = Arc::new(AtomicU64::new(1_000_000));
        let clock = Arc::clone(&us);
        let memory = MemoryStore::new().with_clock(move || Time(clock.load(Ordering::Relaxed)));
        Self { memory, us, log: Arc::default(), is_broken }
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_micros(self.us.load(Ordering::Relaxed))
    }

    pub(crate) fn advance(&self, time: Duration) {
        self.us.fetch_add(u64::try_from(time.as_micros()).expect("little"), Ordering::Relaxed);
    }

    pub(crate) fn worlds(&self) -> Worlds {
        let mut reader = self.memory.reader().expect("a reader");
        reader.worlds().expect("they are read")
    }

    /// The store as a node has it. While it is `deaf`, heartbeats are answered and not made.
    pub(crate) fn of_node(&self, deaf: &Arc<AtomicBool>) -> Watched {
        Watched { base: self.clone(), deaf: Arc::clone(deaf) }
    }
}

impl Log {
    fn owners_are(&mut self, worlds: &Worlds) {
        let now = worlds.owners();
        for (slot, (was, is)) in self.owners.iter().zip(now).enumerate() {
            let rises = is.epoch > was.epoch || is == was;
            if !rises {
                self.wrong.push(format!("slot {slot}: {was:?}, then {is:?}"));
            }
        }
        self.owners = now.to_vec();
    }

    fn entry_is(&mut self, append: &Append, owner: Owner, verdict: &Verdict) {
        if !matches!(verdict, Verdict::Written(_)) {
            self.refused += usize::from(matches!(verdict, Verdict::Moved { .. }));
            return;
        }
        self.written += 1;
        let Append { plan, prev, epoch, .. } = append;
        if owner.epoch != *epoch {
            self.wrong.push(format!("{plan}: written under epoch {epoch}, when it was {owner:?}"));
        }
        if !self.entries.insert((*plan, *prev)) {
            self.wrong.push(format!("{plan}: two entries after {prev}"));
        }
    }
}

impl Log {
    fn change_is(&mut self, change: &Change, worlds: &Worlds, verdict: &Verdict) {
        let Change::Under { hold, change } = change else { return };
        let owner = worlds.owners()[hold.slot];
        match verdict {
            Verdict::Changed(_) if owner.epoch != hold.epoch => {
                let problem = format!("{change:?}: written under {hold:?}, when it was {owner:?}");
                self.wrong.push(problem);
            }
            Verdict::Moved { .. } => self.fenced += 1,
            _ => {}
        }
    }
}

/// The store of one node.
#[derive(Debug)]
pub(crate) struct Watched {
    base: Base,
    deaf: Arc<AtomicBool>,
}

impl Store for Watched {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let (inner, base) = (self.base.memory.open()?, self.base.clone());
        Ok(Box::new(Writer { inner, base }))
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        unreachable!("a node takes no store for itself")
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        self.base.memory.reader()
    }

    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        let deaf = Arc::clone(&self.deaf);
        let log = Arc::clone(&self.base.log);
        let beats = |inner| Box::new(Heartbeats { inner, deaf, last: Beat::default(), log });
        Ok(self.base.memory.members()?.map(|inner| beats(inner) as Box<dyn Members>))
    }

    fn name(&self) -> String {
        "watched".to_owned()
    }
}

struct Heartbeats {
    inner: Box<dyn Members>,
    deaf: Arc<AtomicBool>,
    last: Beat,
    log: Arc<Mutex<Log>>,
}

impl Members for Heartbeats {
    fn beat(&mut self, worlds: &[u64], lease: Duration) -> Result<Beat, StoreError> {
        if !self.deaf.load(Ordering::Relaxed) {
            self.last = self.inner.beat(worlds, lease)?;
        }
        Ok(self.last.clone())
    }

    fn post(&mut self, mail: &[Mail]) -> Result<bool, StoreError> {
        self.log.lock().expect("no panic here").mail += mail.len();
        self.inner.post(mail)
    }

    fn mail(&mut self, worlds: &[u64], rows: usize, bytes: usize) -> Result<Vec<Mail>, StoreError> {
        self.inner.mail(worlds, rows, bytes)
    }
}

struct Writer {
    inner: Box<dyn StoreWriter>,
    base: Base,
}

impl StoreWriter for Writer {
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    fn last(&self) -> Seq {
        self.inner.last()
    }

    fn remove(&mut self, plans: &[Removal]) -> Result<usize, StoreError> {
        self.inner.remove(plans)
    }

    fn free(&mut self, locks: &[(String, PlanId)]) -> Result<(), StoreError> {
        self.inner.free(locks)
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        let worlds = self.base.worlds();
        let now = |plan, epoch| match self.base.is_broken {
            true => worlds.owners()[slot_of(plan)].epoch,
            false => epoch,
        };
        let append = |it: &Append| Append { epoch: now(it.plan, it.epoch), ..it.clone() };
        let row = |it: &RowWrite| RowWrite { epoch: now(it.row.id, it.epoch), ..it.clone() };
        let appends: Vec<Append> = batch.appends.iter().map(append).collect();
        let rows: Vec<RowWrite> = batch.rows.iter().map(row).collect();
        let change = |it: &Change| match it {
            Change::Under { hold, change } if self.base.is_broken => {
                let epoch = worlds.owners()[hold.slot].epoch;
                Change::Under { hold: Hold { epoch, ..*hold }, change: change.clone() }
            }
            it => it.clone(),
        };
        let changes: Vec<Change> = batch.changes.iter().map(change).collect();
        let projected = batch.projected;
        let sent = Batch { appends: &appends, changes: &changes, rows: &rows, projected };
        let verdicts = self.inner.commit(&sent)?;
        let mut log = self.base.log.lock().expect("no panic here");
        for (append, verdict) in batch.appends.iter().zip(&verdicts) {
            log.entry_is(append, worlds.owners()[slot_of(append.plan)], verdict);
        }
        for (change, verdict) in batch.changes.iter().zip(&verdicts[batch.appends.len()..]) {
            log.change_is(change, &worlds, verdict);
        }
        Ok(verdicts)
    }

    fn settled(&mut self) -> Result<(), StoreError> {
        self.inner.settled()
    }

    fn written_after(&mut self, place: Seq) -> Result<Vec<(Seq, PlanId, Seq)>, StoreError> {
        self.inner.written_after(place)
    }

    fn written(&mut self, entries: &[&Append], place: Seq) -> Result<Vec<Option<Seq>>, StoreError> {
        self.inner.written(entries, place)
    }

    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError> {
        self.inner.write_schedules(writes)
    }

    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        let swap = self.inner.write_worlds(write)?;
        self.base.log.lock().expect("no panic here").owners_are(&self.base.worlds());
        Ok(swap)
    }

    fn declare_dead(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        let swap = self.inner.declare_dead(write)?;
        self.base.log.lock().expect("no panic here").owners_are(&self.base.worlds());
        Ok(swap)
    }
}
