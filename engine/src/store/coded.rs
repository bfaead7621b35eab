//! A store whose payloads are encoded, for instance encrypted, before they are written.
//!
//! | what | is |
//! | --- | --- |
//! | journal entries with inputs, outputs, events, chunks; snapshots; schedules | encoded |
//! | large values | encoded, each by itself |
//! | the ids of large values, which are hashes of their content | as they are: equal ones of a plan are kept once |
//! | rows: names, labels, what is waited for; idempotency keys, locks | as they are: the store searches them |
//! | dead letters | encoded |
//! | states of entities and tables of users | as they are |

use std::fmt;
use std::sync::Arc;

use turnwheel_actors::entity::{DueRange, Record, ReminderId, ReminderRow};

use super::aside::{parts as parts_aside, Parts};
use super::{
    Append, Batch, Change, Count, Filter, Found, Loaded, Members, Newest, PlanRow, Removal,
    RowWrite, ScheduleRow, ScheduleWrite, Seq, Slots, StateRow, StateScan, Store, StoreKeeper,
    StoreReader, StoreWriter, Swap, Tally, Upkeep, Verdict, Worlds, WorldsWrite, Written, LETTERS,
    LETTER_SLOT,
};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::time::Time;

/// The first byte of what was encoded. Nothing else that is stored begins with it.
pub(crate) const CODED: u8 = 0xc0;

/// Encodes the data of a world, and decodes it: for encryption, for example. It is called for each
/// entry, on the thread that writes or reads: it must be quick and must not wait.
///
/// Encoded data is stored with the id of the key, so that keys can be rotated: encode with the
/// newest one, decode with all. Data stored without a codec is read as it is.
pub trait Codec: Send + Sync + 'static {
    /// The id of the key that is used from now on, at most 255 bytes, and the encoded bytes.
    ///
    /// # Errors
    ///
    /// Why it cannot be encoded. The entry is refused then, and tried again by its plan for about a
    /// minute. Then the plan takes back what it has decided: an order or event is refused (at
    /// once), a step whose end it was fails with an error of kind `unencodable`, and anything else
    /// pauses the plan. A snapshot is left out.
    fn encode(&self, plain: &[u8]) -> Result<(String, Vec<u8>), String>;

    /// Decodes data that was encoded with the key of this id.
    ///
    /// # Errors
    ///
    /// The reason: the key is unknown, or the bytes are damaged. The plan is then left unchanged,
    /// and continues when a world with the right codec is started.
    fn decode(&self, key: &str, coded: &[u8]) -> Result<Vec<u8>, String>;
}

impl fmt::Debug for dyn Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Codec")
    }
}

/// A store that encodes on writing and decodes on reading. A world makes one with
/// [`WorldBuilder::codec`](crate::WorldBuilder::codec); other readers of the store need one of
/// their own.
pub struct CodedStore<S> {
    inner: S,
    codec: Arc<dyn Codec>,
}

impl<S: fmt::Debug> fmt::Debug for CodedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CodedStore").field(&self.inner).finish()
    }
}

impl<S: Store> CodedStore<S> {
    /// A store over another one.
    pub fn new(inner: S, codec: Arc<dyn Codec>) -> Self {
        Self { inner, codec }
    }
}

impl<S: Store> Store for CodedStore<S> {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let (inner, codec) = (self.inner.open()?, Arc::clone(&self.codec));
        Ok(Box::new(Writer { inner, codec }))
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let (inner, codec) = (self.inner.writer()?, Arc::clone(&self.codec));
        Ok(Box::new(Writer { inner, codec }))
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        let (inner, codec) = (self.inner.reader()?, Arc::clone(&self.codec));
        Ok(Box::new(Reader { inner, codec }))
    }

    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        self.inner.members()
    }

    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        self.inner.keeper()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

/// Encodes bytes; of those with large values each part by itself.
fn encoded(codec: &dyn Codec, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
    each_part(plain, |part| encoded_part(codec, part))
}

fn decoded(codec: &dyn Codec, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    match bytes.first() {
        Some(&CODED) => decoded_part(codec, &bytes),
        _ if parts_aside(&bytes).is_none() => Ok(bytes),
        _ => each_part(&bytes, |part| decoded_part(codec, part)),
    }
}

fn each_part(
    bytes: &[u8],
    change: impl Fn(&[u8]) -> Result<Vec<u8>, StoreError>,
) -> Result<Vec<u8>, StoreError> {
    let Some(Parts { body, values }) = parts_aside(bytes) else { return change(bytes) };
    let body = change(body)?;
    let values = values.iter().map(|(id, value)| Ok((*id, change(value)?)));
    let values = values.collect::<Result<Vec<_>, StoreError>>()?;
    let values = values.iter().map(|(id, value)| (*id, &value[..])).collect();
    Ok(Parts { body: &body, values }.whole())
}

fn encoded_part(codec: &dyn Codec, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
    let failed = |problem: String| StoreError::Failed(format!("the codec: {problem}"));
    let (key, coded) = codec.encode(plain).map_err(failed)?;
    let Ok(length) = u8::try_from(key.len()) else {
        return Err(failed(format!(
            "the id of its key has {} bytes, 255 are the limit",
            key.len()
        )));
    };
    let mut bytes = Vec::with_capacity(2 + key.len() + coded.len());
    bytes.extend([CODED, length]);
    bytes.extend(key.as_bytes());
    bytes.extend(coded);
    Ok(bytes)
}

/// Whether a state beside plans is encoded: dead letters are, the number of the last one is not.
fn is_letter(entity: &str, key: &str) -> bool {
    entity == LETTERS && key.starts_with(LETTER_SLOT)
}

/// Encodes the state of a dead letter.
fn encoded_change(codec: &dyn Codec, change: &Change) -> Result<Change, StoreError> {
    let mut coded = change.clone();
    match &mut coded {
        Change::State { entity, key, bytes: Some(bytes), .. } if is_letter(entity, key) => {
            *bytes = encoded_part(codec, bytes)?;
        }
        Change::Under { change, .. } => **change = encoded_change(codec, change)?,
        _ => {}
    }
    Ok(coded)
}

/// The id of the key and the encoded bytes.
fn parts(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (key, coded) = rest.split_at_checked(usize::from(*length))?;
    Some((std::str::from_utf8(key).ok()?, coded))
}

/// Why bytes that were encoded cannot be understood as they are.
pub(crate) fn undecodable(bytes: &[u8], problem: &str) -> StoreError {
    let key = bytes.get(1..).and_then(parts).map_or("?", |(key, _)| key);
    StoreError::Undecodable { key: key.to_owned(), problem: problem.to_owned() }
}

fn decoded_part(codec: &dyn Codec, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    if bytes.first() != Some(&CODED) {
        return Ok(bytes.to_vec());
    }
    let Some((key, coded)) = parts(&bytes[1..]) else {
        return Err(undecodable(bytes, "its head is damaged"));
    };
    codec.decode(key, coded).map_err(|problem| undecodable(bytes, &problem))
}

struct Writer {
    inner: Box<dyn StoreWriter>,
    codec: Arc<dyn Codec>,
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

    fn settled(&mut self) -> Result<(), StoreError> {
        self.inner.settled()
    }

    fn takes_plans(&mut self) -> Result<(), StoreError> {
        self.inner.takes_plans()
    }

    fn upkeep(&self) -> Upkeep {
        self.inner.upkeep()
    }

    fn keep(&mut self) -> Result<(), StoreError> {
        self.inner.keep()
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        let codec = &*self.codec;
        let append = |append: &Append| -> Result<Append, StoreError> {
            Ok(Append { records: encoded(codec, &append.records)?, ..append.clone() })
        };
        let row = |RowWrite { row, epoch, is_refresh }: &RowWrite| {
            // Without a snapshot the plan is read from its entries.
            let snapshot = row.snapshot.as_ref().and_then(|(seq, bytes)| {
                let told = |error: &StoreError| {
                    tracing::warn!(plan = %row.id, %error, "a snapshot is left out");
                };
                Some((*seq, encoded(codec, bytes).inspect_err(told).ok()?))
            });
            let row = PlanRow { snapshot, ..row.clone() };
            RowWrite { row, epoch: *epoch, is_refresh: *is_refresh }
        };
        let changes = batch.changes.iter().map(|change| encoded_change(codec, change));
        let changes = changes.collect::<Result<Vec<_>, StoreError>>()?;
        let mut appends = Vec::with_capacity(batch.appends.len());
        let mut refused = Vec::new();
        for (index, plain) in batch.appends.iter().enumerate() {
            match append(plain) {
                Ok(append) => appends.push(append),
                Err(StoreError::Failed(why)) => refused.push((index, Verdict::Unencodable(why))),
                Err(error) => return Err(error),
            }
        }
        let rows: Vec<RowWrite> = batch.rows.iter().map(row).collect();
        let projected = batch.projected;
        let batch = Batch { appends: &appends, changes: &changes, rows: &rows, projected };
        let mut verdicts = self.inner.commit(&batch)?;
        // In the order of the appends, and before those of the changes.
        refused.into_iter().for_each(|(index, verdict)| verdicts.insert(index, verdict));
        Ok(verdicts)
    }

    fn written_after(&mut self, place: Seq) -> Result<Vec<(Seq, PlanId, Seq)>, StoreError> {
        self.inner.written_after(place)
    }

    fn written(&mut self, entries: &[&Append], place: Seq) -> Result<Vec<Option<Seq>>, StoreError> {
        self.inner.written(entries, place)
    }

    fn declare_dead(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        self.inner.declare_dead(write)
    }

    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError> {
        let codec = &*self.codec;
        let write = |write: &ScheduleWrite| -> Result<ScheduleWrite, StoreError> {
            // A row that could not be decoded is copied as it is.
            let encode = |data: &Vec<u8>| match data.first() {
                Some(&CODED) => Ok(data.clone()),
                _ => encoded(codec, data),
            };
            let data = write.data.as_ref().map(encode).transpose()?;
            Ok(ScheduleWrite { data, ..write.clone() })
        };
        let writes = writes.iter().map(write).collect::<Result<Vec<_>, StoreError>>()?;
        self.inner.write_schedules(&writes)
    }

    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        self.inner.write_worlds(write)
    }
}

struct Reader {
    inner: Box<dyn StoreReader>,
    codec: Arc<dyn Codec>,
}

impl Reader {
    /// A row that cannot be decoded is left as it is: its schedule says so, and the others are read.
    fn schedule_of(&self, row: ScheduleRow) -> ScheduleRow {
        match decoded(&*self.codec, row.data.clone()) {
            Ok(data) => ScheduleRow { data, ..row },
            Err(error) => {
                tracing::error!(schedule = row.name, %error, "a schedule is unreadable");
                row
            }
        }
    }
}

fn decoded_plan(codec: &dyn Codec, loaded: Loaded) -> Result<Loaded, StoreError> {
    let decode = |bytes| decoded(codec, bytes);
    let snapshot = loaded.snapshot.map(decode).transpose()?;
    let entries = loaded.entries.into_iter().map(|(seq, bytes)| Ok((seq, decode(bytes)?)));
    let entries = entries.collect::<Result<_, StoreError>>()?;
    Ok(Loaded { snapshot, entries, ..loaded })
}

impl StoreReader for Reader {
    fn load(&mut self, plan: PlanId, head: Option<Seq>) -> Result<Option<Loaded>, StoreError> {
        let loaded = self.inner.load(plan, head)?;
        loaded.map(|loaded| decoded_plan(&*self.codec, loaded)).transpose()
    }

    fn load_many(&mut self, plans: &[(PlanId, Option<Seq>)]) -> Result<Vec<Found>, StoreError> {
        let decode =
            |found: Found| found?.map(|loaded| decoded_plan(&*self.codec, loaded)).transpose();
        Ok(self.inner.load_many(plans)?.into_iter().map(decode).collect())
    }

    fn history_after(
        &mut self,
        plan: PlanId,
        after: Seq,
        head: Seq,
    ) -> Result<Vec<(Seq, Vec<u8>)>, StoreError> {
        let entries = self.inner.history_after(plan, after, head)?;
        entries.into_iter().map(|(seq, bytes)| Ok((seq, decoded(&*self.codec, bytes)?))).collect()
    }

    fn journal(&mut self, after: Seq, limit: usize) -> Result<Vec<Written>, StoreError> {
        let decode = |written: Written| -> Result<Written, StoreError> {
            Ok(Written { records: decoded(&*self.codec, written.records)?, ..written })
        };
        self.inner.journal(after, limit)?.into_iter().map(decode).collect()
    }

    fn place_after(&mut self, after: Seq) -> Result<Option<Seq>, StoreError> {
        self.inner.place_after(after)
    }

    fn last_place(&mut self) -> Result<Seq, StoreError> {
        self.inner.last_place()
    }

    fn newest(&mut self) -> Result<Newest, StoreError> {
        self.inner.newest()
    }

    fn locks(&mut self) -> Result<Vec<(String, PlanId)>, StoreError> {
        self.inner.locks()
    }

    fn followers(&mut self) -> Result<Vec<(PlanId, PlanId)>, StoreError> {
        self.inner.followers()
    }

    fn worlds(&mut self) -> Result<Worlds, StoreError> {
        self.inner.worlds()
    }

    fn live(&mut self) -> Result<Slots, StoreError> {
        self.inner.live()
    }

    fn behind(&mut self) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        self.inner.behind()
    }

    fn behind_in(&mut self, slots: &Slots) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        self.inner.behind_in(slots)
    }

    fn wakes_in(
        &mut self,
        slots: &Slots,
        until: Time,
        limit: usize,
    ) -> Result<Vec<(Time, PlanId)>, StoreError> {
        self.inner.wakes_in(slots, until, limit)
    }

    fn busy(&mut self, from: Option<PlanId>, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        self.inner.busy(from, limit)
    }

    fn wakes(&mut self, until: Time, limit: usize) -> Result<Vec<(Time, PlanId)>, StoreError> {
        self.inner.wakes(until, limit)
    }

    fn by_key(&mut self, key: &str) -> Result<Option<PlanId>, StoreError> {
        self.inner.by_key(key)
    }

    fn state(&mut self, entity: &str, key: &str) -> Result<Record, StoreError> {
        let mut state = self.inner.state(entity, key)?;
        if is_letter(entity, key) {
            let decode = |bytes: Vec<u8>| decoded_part(&*self.codec, &bytes);
            state.bytes = state.bytes.map(decode).transpose()?;
        }
        Ok(state)
    }

    fn states_by_key(&mut self, of: &[(String, String)]) -> Result<Vec<Record>, StoreError> {
        match of.iter().any(|(entity, key)| is_letter(entity, key)) {
            true => of.iter().map(|(entity, key)| self.state(entity, key)).collect(),
            false => self.inner.states_by_key(of),
        }
    }

    fn states_of(
        &mut self,
        entity: &str,
        scan: &StateScan,
        limit: usize,
    ) -> Result<Vec<StateRow>, StoreError> {
        let mut rows = self.inner.states_of(entity, scan, limit)?;
        for row in rows.iter_mut().filter(|row| is_letter(entity, &row.key)) {
            let Some(bytes) = &row.record.bytes else { continue };
            // One that cannot be decoded is left as it is, so that the others are read.
            match decoded_part(&*self.codec, bytes) {
                Ok(decoded) => row.record.bytes = Some(decoded),
                Err(error) => tracing::error!(key = row.key, %error, "a dead letter is unreadable"),
            }
        }
        Ok(rows)
    }

    fn entities_with_states(&mut self) -> Result<Vec<String>, StoreError> {
        self.inner.entities_with_states()
    }

    fn reminder(&mut self, id: &ReminderId) -> Result<Option<ReminderRow>, StoreError> {
        self.inner.reminder(id)
    }

    fn reminders_of(
        &mut self,
        entity: &str,
        key: &str,
        limit: usize,
    ) -> Result<Vec<ReminderRow>, StoreError> {
        self.inner.reminders_of(entity, key, limit)
    }

    fn reminders_due(&mut self, range: &DueRange) -> Result<Vec<ReminderRow>, StoreError> {
        self.inner.reminders_due(range)
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<PlanRow>, StoreError> {
        self.inner.list(filter)
    }

    fn plan_at(&mut self, filter: &Filter, place: usize) -> Result<Option<PlanId>, StoreError> {
        self.inner.plan_at(filter, place)
    }

    fn tallies(&mut self, from: Time) -> Result<Vec<Tally>, StoreError> {
        self.inner.tallies(from)
    }

    fn counts(&mut self) -> Result<Vec<Count>, StoreError> {
        self.inner.counts()
    }

    fn counts_of(&mut self, filter: &Filter) -> Result<Vec<Count>, StoreError> {
        self.inner.counts_of(filter)
    }

    fn schedule(&mut self, name: &str) -> Result<Option<ScheduleRow>, StoreError> {
        Ok(self.inner.schedule(name)?.map(|row| self.schedule_of(row)))
    }

    fn schedules(&mut self, after: &str, limit: usize) -> Result<Vec<ScheduleRow>, StoreError> {
        let rows = self.inner.schedules(after, limit)?;
        Ok(rows.into_iter().map(|row| self.schedule_of(row)).collect())
    }
}
