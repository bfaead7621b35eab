//! Storage of dead letters: in memory for queries, and in the store for the next start.
//!
//! In the store they are a ring among the states beside plans: the letter with number n is in slot
//! n modulo [`DEAD_LETTERS`], and one more state has the last number. A letter replaces the one in
//! its slot, so no cleaning is needed. A slot has one write under way at a time; later changes are
//! written after it, and failed writes are repeated after a moment.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Task};

use super::letters::{DeadLetter, DeadLetters, Undelivered};
use crate::error::StoreError;
use crate::journal::Journal;
use crate::limits::{DEAD_LETTERS, DEAD_LETTER_BYTES};
use crate::store::{Change, StoreReader, Verdict, LETTERS, LETTER_SLOT};
use crate::time::Time;

/// Pause after a failed write.
const AGAIN: Duration = Duration::from_secs(1);

/// The letters of a store.
pub(crate) struct Letters {
    journal: Journal,
    /// Waits after failed writes.
    desk: Task<()>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Since the store was opened.
    counted: u64,
    /// The number of the last one.
    newest: u64,
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
    is_due: bool,
    is_under_way: bool,
}

impl Place {
    fn of(number: u64) -> Self {
        Self::Slot(number % DEAD_LETTERS as u64)
    }

    fn key(self) -> String {
        match self {
            Self::Newest => "newest".to_owned(),
            Self::Slot(slot) => format!("{LETTER_SLOT}{slot}"),
        }
    }
}

impl Letters {
    pub(super) fn new(journal: &Journal, desk: &Task<()>) -> Arc<Self> {
        let (journal, desk) = (journal.clone(), desk.clone());
        Arc::new(Self { journal, desk, kept: Mutex::default() })
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

    pub(crate) fn add(self: &Arc<Self>, at: Time, letter: Undelivered) {
        let Undelivered { plan, step, id, payload, reason } = letter;
        tracing::warn!(%plan, %step, id, reason, "an event is a dead letter");
        let mut kept = self.kept.lock();
        kept.counted += 1;
        kept.newest += 1;
        let number = kept.newest;
        kept.bytes += payload.as_str().len();
        kept.letters.push_back(DeadLetter { number, at, plan, step, id, payload, reason });
        kept.forget_old();
        kept.due(Place::Newest);
        kept.due(Place::of(number));
        drop(kept);
        self.write();
    }

    /// It was delivered at last.
    pub(super) fn remove(self: &Arc<Self>, number: u64) {
        let mut kept = self.kept.lock();
        let Ok(at) = kept.letters.binary_search_by_key(&number, |letter| letter.number) else {
            return;
        };
        kept.forget(at);
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
            self.journal.change(change, Box::new(written));
        }
    }

    fn written(self: &Arc<Self>, place: Place, outcome: Result<Verdict, StoreError>) {
        let mut kept = self.kept.lock();
        let state = kept.states.entry(place).or_default();
        state.is_under_way = false;
        match outcome {
            Ok(Verdict::Changed(version)) => state.version = version,
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
        let is_due = state.is_due;
        if kept.is_written() {
            kept.tell();
        }
        drop(kept);
        if is_due {
            self.write();
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
            self.due(Place::of(letter.number));
        }
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
        let is_due = |state: &State| state.is_due && !state.is_under_way;
        let due: Vec<Place> = self
            .states
            .iter()
            .filter(|(_, state)| is_due(state))
            .map(|(place, _)| *place)
            .collect();
        let change = |place: Place| {
            let bytes = self.content(place);
            let state = self.states.get_mut(&place)?;
            (state.is_due, state.is_under_way) = (false, true);
            let (entity, key) = (LETTERS.to_owned(), place.key());
            Some((
                place,
                Change::State { entity, key, bytes, due: None, expected: state.version, epoch: 0 },
            ))
        };
        due.into_iter().filter_map(change).collect()
    }

    /// Content of a state to write.
    fn content(&self, place: Place) -> Option<Vec<u8>> {
        if place == Place::Newest {
            return Some(self.newest.to_string().into_bytes());
        }
        let letter = self.letters.iter().rev().find(|letter| Place::of(letter.number) == place)?;
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
    let first = kept.newest.saturating_sub(DEAD_LETTERS as u64) + 1;
    for number in first..=kept.newest {
        let place = Place::of(number);
        let stored = match reader.state(LETTERS, &place.key()) {
            Err(error @ StoreError::Undecodable { .. }) => {
                // Its version is told by the store when its slot is written.
                tracing::error!(number, %error, "a dead letter cannot be read");
                continue;
            }
            stored => stored?,
        };
        kept.states.insert(place, state(stored.version));
        let Some(bytes) = stored.bytes else { continue };
        match serde_json::from_slice::<DeadLetter>(&bytes) {
            Ok(letter) if letter.number == number => {
                kept.bytes += letter.payload.as_str().len();
                kept.letters.push_back(letter);
            }
            // It was to be overwritten when the world before ended.
            Ok(letter) => tracing::debug!(letter.number, number, "an older letter is left out"),
            Err(error) => tracing::error!(number, %error, "a dead letter cannot be read"),
        }
    }
    Ok(kept)
}
