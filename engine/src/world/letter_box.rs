//! Storage of dead letters: in memory for queries, and in the store for the next start.
//!
//! In the store they are a ring among the states beside plans: the letter with number n is in slot
//! n modulo [`DEAD_LETTERS`], and one more state has the last number. A letter replaces the one in
//! its slot, so no cleaning is needed. A slot has one write under way at a time; later changes are
//! written after it, and failed writes are repeated after a moment.
//!
//! Several nodes write to one ring. A node claims numbers first: it raises the last number under
//! the version that it knows, and writes its letters when that is done. If another node was first, it
//! reads the ring, gives its letters the next numbers, and tries again. Each change raises the
//! version of the last number; a heartbeat tells that version, and a node with another one reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Task};

use super::letters::{DeadLetter, DeadLetters, Undelivered};
use crate::error::StoreError;
use crate::journal::{Journal, Urgency};
use crate::limits::{DEAD_LETTERS, DEAD_LETTER_BYTES};
use crate::store::{Change, StateScan, StoreReader, Verdict, LETTERS, LETTER_NEWEST, LETTER_SLOT};
use crate::time::Time;

/// Pause after a failed write.
const AGAIN: Duration = Duration::from_secs(1);

/// The letters of a store.
pub(crate) struct Letters {
    journal: Journal,
    /// Waits after failed writes.
    desk: Task<()>,
    /// Whether other processes write letters too.
    is_shared: bool,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Since the store was opened.
    counted: u64,
    /// The number of the last one.
    newest: u64,
    /// The last number that is in the store: those after it are not claimed by anybody.
    claimed: u64,
    /// Letters and removals of this process that are not in the store yet.
    own: BTreeSet<u64>,
    removed: BTreeSet<u64>,
    is_reading: bool,
    /// By number: their numbers are less than the size of the ring apart.
    letters: VecDeque<DeadLetter>,
    /// Of their contents.
    bytes: usize,
    states: BTreeMap<Place, State>,
    is_loaded: bool,
    /// Whether a timer writes again what could not be written.
    is_armed: bool,
    /// Told when all is written, or when a write has failed.
    waiting: Vec<Completer<()>>,
}

/// A state in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Newest,
    Slot(u64),
}

/// State of a slot in the store.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    version: u64,
    /// The number that is being written: of a letter, or the last one.
    writes: u64,
    is_due: bool,
    is_under_way: bool,
}

impl Place {
    fn of(number: u64) -> Self {
        Self::Slot(number % DEAD_LETTERS as u64)
    }

    fn key(self) -> String {
        match self {
            Self::Newest => LETTER_NEWEST.to_owned(),
            Self::Slot(slot) => format!("{LETTER_SLOT}{slot}"),
        }
    }
}

impl Letters {
    pub(super) fn new(journal: &Journal, desk: &Task<()>) -> Arc<Self> {
        let (journal, desk) = (journal.clone(), desk.clone());
        let is_shared = journal.lease().is_some();
        Arc::new(Self { journal, desk, is_shared, kept: Mutex::default() })
    }

    /// Reads what the store has, the first time.
    pub(super) async fn load(&self) -> Result<(), StoreError> {
        if self.kept.lock().is_loaded {
            return Ok(());
        }
        let found = self.journal.read(read).await;
        let found = found.map_err(|failure| StoreError::unanswered(&failure))??;
        let mut kept = self.kept.lock();
        if !kept.is_loaded {
            *kept = found;
        }
        Ok(())
    }

    /// Reads what other nodes have changed, if the last number has another version than is known
    /// here.
    pub(super) async fn refresh(self: &Arc<Self>, version: u64) -> Result<(), StoreError> {
        {
            let mut kept = self.kept.lock();
            let newest = kept.states.get(&Place::Newest).copied().unwrap_or_default();
            let is_known = newest.version == version || newest.is_under_way;
            if kept.is_reading || !kept.is_loaded || is_known {
                return Ok(());
            }
            kept.is_reading = true;
        }
        self.read_again().await
    }

    async fn read_again(self: &Arc<Self>) -> Result<(), StoreError> {
        let found = self.journal.read(read).await;
        let found = found.map_err(|failure| StoreError::unanswered(&failure)).and_then(|it| it);
        {
            let mut kept = self.kept.lock();
            kept.is_reading = false;
            kept.merge(found?);
        }
        self.write();
        Ok(())
    }

    pub(crate) fn add(self: &Arc<Self>, at: Time, letter: Undelivered) {
        let Undelivered { plan, step, id, payload, reason } = letter;
        tracing::warn!(%plan, %step, id, reason, "an event is a dead letter");
        let mut kept = self.kept.lock();
        kept.counted += 1;
        kept.newest += 1;
        let number = kept.newest;
        if self.is_shared {
            kept.own.insert(number);
        } else {
            kept.claimed = number;
        }
        kept.bytes += payload.as_str().len();
        kept.letters.push_back(DeadLetter { number, at, plan, step, id, payload, reason });
        kept.forget_old();
        kept.due(Place::Newest);
        kept.due(Place::of(number));
        drop(kept);
        self.write();
    }

    /// It was delivered at last.
    pub(super) fn remove(self: &Arc<Self>, letter: &DeadLetter) {
        let mut kept = self.kept.lock();
        let Some(at) = kept.letters.iter().position(|kept| kept.is_same(letter)) else { return };
        let number = kept.letters[at].number;
        kept.forget(at);
        if self.is_shared {
            kept.removed.insert(number);
            // Others learn of it by the version.
            kept.due(Place::Newest);
        }
        drop(kept);
        self.write();
    }

    pub(super) fn after(&self, number: u64, limit: usize) -> DeadLetters {
        self.kept.lock().after(number, limit)
    }

    /// The dead letters in a store.
    pub(crate) fn stored(reader: &mut dyn StoreReader) -> Result<DeadLetters, StoreError> {
        Ok(read(reader)?.after(0, usize::MAX))
    }

    /// Number of letters since the store was opened.
    pub(super) fn counted(&self) -> u64 {
        self.kept.lock().counted
    }

    /// Hands to the journal what is to be written and is not under way.
    fn write(self: &Arc<Self>) {
        // The lock must be free: a journal that is closed answers at once.
        let due = self.kept.lock().take_due();
        for (place, change) in due {
            let letters = Arc::clone(self);
            let written = move |outcome| letters.written(place, outcome);
            self.journal.change(change, Urgency::Next, Box::new(written));
        }
    }

    fn written(self: &Arc<Self>, place: Place, outcome: Result<Verdict, StoreError>) {
        let mut kept = self.kept.lock();
        let state = kept.states.entry(place).or_default();
        state.is_under_way = false;
        match outcome {
            Ok(Verdict::Changed(version)) => {
                state.version = version;
                kept.is_in_store(place);
            }
            Ok(Verdict::Conflict { found }) if self.is_shared => {
                state.is_due = true;
                if place != Place::Newest {
                    // A state without bytes is not in what is read.
                    state.version = found;
                }
                if !std::mem::replace(&mut kept.is_reading, true) {
                    drop(kept);
                    self.read_soon();
                }
                return;
            }
            Ok(Verdict::Conflict { found }) => (state.version, state.is_due) = (found, true),
            other => {
                // Not again at once: the store may be full, or closed.
                state.is_due = true;
                let place = place.key();
                tracing::warn!(?other, place, "a dead letter is in memory only for now");
                kept.tell();
                let was_armed = std::mem::replace(&mut kept.is_armed, true);
                drop(kept);
                if !was_armed {
                    self.write_later();
                }
                return;
            }
        }
        if kept.is_written() {
            kept.tell();
        }
        drop(kept);
        self.write();
    }

    /// Another node was first.
    fn read_soon(self: &Arc<Self>) {
        let letters = Arc::clone(self);
        let reading = async move {
            if let Err(error) = letters.read_again().await {
                tracing::warn!(%error, "dead letters of other nodes are read later");
                letters.kept.lock().tell();
                letters.write_later();
            }
        };
        let asked = self.desk.submit(move |(), cx| {
            cx.await_interleaved(reading, |(), _, ()| {});
        });
        if let Err(error) = asked {
            tracing::warn!(kind = %error.kind, "dead letters of other nodes are read later");
            let mut kept = self.kept.lock();
            kept.is_reading = false;
            kept.tell();
        }
    }

    fn write_later(self: &Arc<Self>) {
        let letters = Arc::downgrade(self);
        let armed = self.desk.submit(move |(), cx| {
            let armed = cx.after(AGAIN, move |(), _| {
                let Some(letters) = letters.upgrade() else { return };
                letters.kept.lock().is_armed = false;
                letters.write();
            });
            if let Err(error) = armed {
                tracing::error!(%error, "dead letters are written with the next one");
            }
        });
        if let Err(error) = armed {
            tracing::warn!(kind = %error.kind, "dead letters are written with the next one");
            self.kept.lock().is_armed = false;
        }
    }

    /// Writes what is not written. Completes when all is, or when a write has failed.
    pub(super) fn flush(self: &Arc<Self>) -> Completion<()> {
        let (completer, flushed) = completion();
        let mut kept = self.kept.lock();
        kept.waiting.push(completer);
        if kept.is_written() {
            kept.tell();
        }
        drop(kept);
        self.write();
        flushed
    }

    /// Number of letters that are not written.
    pub(super) fn unwritten(&self) -> usize {
        let kept = self.kept.lock();
        let is_open = |letter: &&DeadLetter| {
            let is_open = |place| kept.states.get(&place).is_some_and(State::is_open);
            is_open(Place::of(letter.number)) || is_open(Place::Newest)
        };
        kept.letters.iter().filter(is_open).count()
    }
}

impl State {
    fn is_open(&self) -> bool {
        self.is_due || self.is_under_way
    }
}

impl Kept {
    fn after(&self, number: u64, limit: usize) -> DeadLetters {
        let first = self.letters.partition_point(|letter| letter.number <= number);
        let letters = self.letters.iter().skip(first).take(limit).cloned().collect();
        DeadLetters { total: self.newest, letters }
    }

    fn is_written(&self) -> bool {
        !self.states.values().any(State::is_open)
    }

    fn tell(&mut self) {
        for waiting in self.waiting.drain(..) {
            // A waiter that has given up is gone.
            let _gone = waiting.complete(());
        }
    }

    fn due(&mut self, place: Place) {
        self.states.entry(place).or_default().is_due = true;
    }

    /// Forgets the letter at a place of the list.
    fn forget(&mut self, at: usize) {
        if let Some(letter) = self.letters.remove(at) {
            self.bytes -= letter.payload.as_str().len();
            self.own.remove(&letter.number);
            self.due(Place::of(letter.number));
        }
    }

    /// A write was done.
    fn is_in_store(&mut self, place: Place) {
        let number = self.states.get(&place).map_or(0, |state| state.writes);
        match place {
            Place::Newest => self.claimed = self.claimed.max(number),
            Place::Slot(_) => {
                self.own.remove(&number);
                self.removed.retain(|removed| Place::of(*removed) != place);
            }
        }
    }

    /// Takes what the store has, and keeps the changes of this process that it does not have.
    /// Letters whose numbers are not claimed come after those of the store.
    fn merge(&mut self, found: Self) {
        let own = std::mem::take(&mut self.own);
        let mine = |letter: &DeadLetter| own.contains(&letter.number);
        let (mine, _): (Vec<_>, Vec<_>) = self.letters.drain(..).partition(mine);
        let claimed = self.claimed;
        let is_gone = |letter: &DeadLetter| self.removed.contains(&letter.number);
        self.letters = found.letters;
        self.letters.retain(|letter| !is_gone(letter));
        (self.newest, self.claimed) = (found.newest, found.newest);
        let under_way = |place: &Place, states: &BTreeMap<Place, State>| {
            states.get(place).is_some_and(|state| state.is_under_way)
        };
        for (place, state) in found.states {
            if !under_way(&place, &self.states) {
                let is_due = self.removed.iter().any(|number| Place::of(*number) == place);
                self.states.insert(place, State { is_due, ..state });
            }
        }
        for mut letter in mine {
            if letter.number > claimed {
                self.newest += 1;
                letter.number = self.newest;
            }
            self.own.insert(letter.number);
            self.due(Place::of(letter.number));
            self.letters.retain(|known| Place::of(known.number) != Place::of(letter.number));
            let at = self.letters.partition_point(|known| known.number < letter.number);
            self.letters.insert(at, letter);
        }
        let has_changes = self.newest > self.claimed || !self.removed.is_empty();
        if has_changes {
            self.due(Place::Newest);
        }
        self.bytes = self.letters.iter().map(|letter| letter.payload.as_str().len()).sum();
        self.forget_old();
    }

    /// Forgets those whose slots others have, and those for which there is no room.
    fn forget_old(&mut self) {
        let last = self.newest.saturating_sub(DEAD_LETTERS as u64);
        while let Some(oldest) = self.letters.front() {
            let is_last = self.letters.len() == 1;
            if oldest.number > last && (self.bytes <= DEAD_LETTER_BYTES || is_last) {
                break;
            }
            self.forget(0);
        }
    }

    fn take_due(&mut self) -> Vec<(Place, Change)> {
        if self.is_reading {
            return Vec::new();
        }
        let is_claimed = |place: Place| self.number_of(place) <= self.claimed;
        let is_due = |place: Place, state: &State| {
            let is_free = state.is_due && !state.is_under_way;
            is_free && (place == Place::Newest || is_claimed(place))
        };
        let due: Vec<Place> = self
            .states
            .iter()
            .filter(|(place, state)| is_due(**place, state))
            .map(|(place, _)| *place)
            .collect();
        let change = |place: Place| {
            let (bytes, number) = (self.content(place), self.number_of(place));
            let state = self.states.get_mut(&place)?;
            (state.is_due, state.is_under_way, state.writes) = (false, true, number);
            let (entity, key) = (LETTERS.to_owned(), place.key());
            Some((
                place,
                Change::State { entity, key, bytes, due: None, expected: state.version, epoch: 0 },
            ))
        };
        due.into_iter().filter_map(change).collect()
    }

    /// The number that belongs to a state: of its letter, or the last one.
    fn number_of(&self, place: Place) -> u64 {
        match place {
            Place::Newest => self.newest,
            Place::Slot(_) => self.letter_in(place).map_or(0, |letter| letter.number),
        }
    }

    fn letter_in(&self, place: Place) -> Option<&DeadLetter> {
        self.letters.iter().rev().find(|letter| Place::of(letter.number) == place)
    }

    /// Content of a state to write.
    fn content(&self, place: Place) -> Option<Vec<u8>> {
        if place == Place::Newest {
            return Some(self.newest.to_string().into_bytes());
        }
        let letter = self.letter_in(place)?;
        Some(serde_json::to_vec(letter).expect("it is made of texts and numbers"))
    }
}

/// Reads the letters of a store. An unreadable one is left out and logged.
fn read(reader: &mut dyn StoreReader) -> Result<Kept, StoreError> {
    let mut kept = Kept { is_loaded: true, ..Kept::default() };
    let last = reader.state(LETTERS, &Place::Newest.key())?;
    let state = |version| State { version, ..State::default() };
    kept.states.insert(Place::Newest, state(last.version));
    let Some(text) = last.bytes else { return Ok(kept) };
    let newest = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    kept.newest = newest.ok_or_else(|| {
        StoreError::Corrupt("the number of the last dead letter is no number".to_owned())
    })?;
    kept.claimed = kept.newest;
    let oldest = kept.newest.saturating_sub(DEAD_LETTERS as u64);
    for row in reader.states_of(LETTERS, &StateScan::After(String::new()), DEAD_LETTERS + 1)? {
        let Some(slot) = row.key.strip_prefix(LETTER_SLOT).and_then(|it| it.parse().ok()) else {
            continue;
        };
        kept.states.insert(Place::Slot(slot), state(row.record.version));
        let Some(bytes) = row.record.bytes else { continue };
        match serde_json::from_slice::<DeadLetter>(&bytes) {
            Ok(letter) if letter.number > oldest && letter.number <= kept.newest => {
                kept.bytes += letter.payload.as_str().len();
                kept.letters.push_back(letter);
            }
            // It was to be overwritten when the world before ended.
            Ok(letter) => tracing::debug!(letter.number, "an older letter is left out"),
            Err(error) => tracing::error!(slot, %error, "a dead letter cannot be read"),
        }
    }
    kept.letters.make_contiguous().sort_unstable_by_key(|letter| letter.number);
    Ok(kept)
}
