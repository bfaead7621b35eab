//! Parking of workers, and the choice of the worker that a producer wakes. See `README.md`.
//!
//! One word mirrors the counts for producers. A lock orders the workers that park and the threads
//! that wake them. Invariant: a thread that removes a worker from the list has counted it as
//! searching.

use crate::sync::{fence, keeps, AtomicU32, Mutex, Ordering, Step};

/// One worker that searches for work.
const SEARCHING: u32 = 1;
/// One parked worker, including the one on watch.
const PARKED: u32 = 1 << 8;
/// Set while a worker is on watch.
const WATCH: u32 = 1 << 16;

/// One reading of the sleep word:
///
/// ```text
///  31         17   16   15        8 7         0
/// +-------------+-------+-----------+-----------+
/// |   unused    | WATCH |  parked   | searching |
/// +-------------+-------+-----------+-----------+
/// ```
#[derive(Clone, Copy)]
struct Counts(u32);

impl Counts {
    fn searching(self) -> u32 {
        self.0 & 0xff
    }

    fn parked(self) -> u32 {
        (self.0 >> 8) & 0xff
    }

    fn has_watch(self) -> bool {
        self.0 & WATCH != 0
    }
}

/// Limit and purpose of a park.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkMode {
    /// On watch: a few hundred microseconds, then it inspects its siblings.
    Watch,
    /// Until it is woken, or until the next timer if it is the timekeeper.
    Sleep,
}

/// The parked workers.
#[derive(Debug)]
struct Parked {
    /// Index and mode of each, latest last.
    list: Vec<(usize, ParkMode)>,
    /// The worker that parks until the next timer, for all others.
    keeper: Option<Timekeeper>,
}

/// The worker that wakes for timers, and the deadline that it knows.
#[derive(Clone, Copy, Debug)]
struct Timekeeper {
    worker: usize,
    until_ns: u64,
}

impl Parked {
    fn position(&self, worker: usize) -> Option<usize> {
        self.list.iter().position(|(index, _)| *index == worker)
    }

    fn keeper_is(&self, worker: usize) -> bool {
        self.keeper.is_some_and(|keeper| keeper.worker == worker)
    }

    fn remove(&mut self, position: usize) -> (usize, ParkMode) {
        let (worker, mode) = self.list.remove(position);
        if self.keeper_is(worker) {
            self.keeper = None;
        }
        (worker, mode)
    }
}

/// The sleep state of a group.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// Searching, parked, watch.
    word: crossbeam_utils::CachePadded<AtomicU32>,
    parked: Mutex<Parked>,
    workers: u32,
}

impl Sleep {
    /// In a group whose keeper is on watch, no worker is.
    pub(crate) fn new(workers: usize, has_keeper: bool) -> Self {
        let watch = if has_keeper { WATCH } else { 0 };
        Self {
            word: crossbeam_utils::CachePadded::new(AtomicU32::new(watch)),
            parked: Mutex::new(Parked { list: Vec::new(), keeper: None }),
            workers: workers as u32,
        }
    }

    fn counts(&self) -> Counts {
        Counts(self.word.load(Ordering::Relaxed))
    }

    /// Whether workers sleep while none searches or is on watch. One load.
    #[inline(always)]
    fn is_wake_needed(&self) -> bool {
        let counts = self.counts();
        counts.searching() == 0 && !counts.has_watch() && counts.parked() > 0
    }

    /// Starts a search; of workers that spin for work, half of them at most.
    pub(crate) fn start_search(&self, spins: bool) -> bool {
        if spins && 2 * self.counts().searching() >= self.workers.max(2) {
            return false;
        }
        // SeqCst: a producer that pushed before this sees a searcher or is seen by the search.
        self.word.fetch_add(SEARCHING, Ordering::SeqCst);
        true
    }

    /// Ends a search. Returns whether it was the last one.
    pub(crate) fn end_search(&self) -> bool {
        let was_last = Counts(self.word.fetch_sub(SEARCHING, Ordering::SeqCst)).searching() == 1;
        // Pairs with the fence in `wake_for_push`: a producer that still saw the search is seen by
        // the last searcher's look at the queues.
        if keeps(Step::SearchFence) {
            fence(Ordering::SeqCst);
        }
        was_last
    }

    /// Books the caller as parked and ends its search, if it was searching. The caller then looks
    /// at the shared queues once more, and parks or calls `leave`.
    pub(crate) fn enter(&self, worker: usize, was_searching: bool) -> ParkMode {
        let mut parked = self.parked.lock();
        let counts = self.counts();
        let others_work = counts.parked() + 1 < self.workers;
        let mode =
            if others_work && !counts.has_watch() { ParkMode::Watch } else { ParkMode::Sleep };
        let watch = if mode == ParkMode::Watch { WATCH } else { 0 };
        let search = if was_searching { SEARCHING } else { 0 };
        parked.list.push((worker, mode));
        self.word.fetch_add(PARKED + watch - search, Ordering::SeqCst);
        // Pairs with the fence in `wake_for_push`: either the producer sees us parked, or our last
        // look sees its push.
        if keeps(Step::ParkFence) {
            fence(Ordering::SeqCst);
        }
        mode
    }

    /// Takes the caller off the list. False if another thread has done that and booked a search
    /// for it; otherwise the caller searches on its own account only if `and_search`.
    pub(crate) fn leave(&self, worker: usize, and_search: bool) -> bool {
        let mut parked = self.parked.lock();
        let Some(position) = parked.position(worker) else { return false };
        let (_, mode) = parked.remove(position);
        let watch = if mode == ParkMode::Watch { WATCH } else { 0 };
        let search = if and_search { SEARCHING } else { 0 };
        self.word.fetch_sub(PARKED + watch - search, Ordering::SeqCst);
        true
    }

    /// A worker on watch may go to sleep when no sibling works any more; and a sleeper may take
    /// the watch over. Returns how to park on.
    pub(crate) fn reconsider(&self, worker: usize) -> Option<ParkMode> {
        let mut parked = self.parked.lock();
        let position = parked.position(worker)?;
        let counts = self.counts();
        let others_work = counts.parked() < self.workers;
        let now = parked.list[position].1;
        let next = match now {
            ParkMode::Watch if !others_work => ParkMode::Sleep,
            ParkMode::Sleep if others_work && !counts.has_watch() => ParkMode::Watch,
            same => same,
        };
        if next != now {
            parked.list[position].1 = next;
            if next == ParkMode::Watch {
                self.word.fetch_add(WATCH, Ordering::SeqCst);
            } else {
                self.word.fetch_sub(WATCH, Ordering::SeqCst);
            }
            fence(Ordering::SeqCst);
        }
        Some(next)
    }

    /// Returns the worker to wake after a push to a shared queue, if any.
    pub(crate) fn wake_for_push(&self) -> Option<usize> {
        // Pairs with the fence in `enter`.
        fence(Ordering::SeqCst);
        let counts = self.counts();
        if counts.searching() != 0 || counts.parked() == 0 {
            return None;
        }
        self.book()
    }

    /// Returns the worker to wake after a push to the caller's own queue. None while a worker
    /// searches or is on watch; the caller is awake and makes good for a lost hint.
    #[inline(always)]
    pub(crate) fn wake_for_local_push(&self) -> Option<usize> {
        if !self.is_wake_needed() {
            return None;
        }
        self.book()
    }

    /// Returns the worker to wake after a batch moved from a shared queue to the caller's own. For
    /// a moment the batch was in neither, so a last searcher may have missed it.
    pub(crate) fn wake_for_batch(&self) -> Option<usize> {
        // Pairs with the fences in `end_search` and `notify_if_work_waits`: either we see that no
        // worker searches or watches any more, or the worker that stops sees the batch.
        fence(Ordering::SeqCst);
        self.wake_for_local_push()
    }

    /// Takes a parked worker off the list and books a search for it.
    #[cold]
    fn book(&self) -> Option<usize> {
        let mut parked = self.parked.lock();
        if self.counts().searching() != 0 {
            return None;
        }
        // The timekeeper last: without it no parked worker looks at the timers.
        let others = parked.list.iter().rposition(|(index, _)| !parked.keeper_is(*index));
        let position = others.or_else(|| parked.list.len().checked_sub(1))?;
        let (worker, mode) = parked.remove(position);
        let watch = if mode == ParkMode::Watch { WATCH } else { 0 };
        self.word.fetch_sub(PARKED + watch - SEARCHING, Ordering::SeqCst);
        Some(worker)
    }

    /// Returns the sleeper to wake when the caller goes to work and timers are pending. None if a
    /// worker keeps the time, is on watch or searches. The sleeper stays on the list, and goes on
    /// watch.
    pub(crate) fn wake_for_time(&self) -> Option<usize> {
        if !self.is_wake_needed() {
            return None;
        }
        let parked = self.parked.lock();
        if parked.keeper.is_some() {
            return None;
        }
        parked.list.last().map(|(worker, _)| *worker)
    }

    /// Any parked worker, for a timer that is earlier than all before. It stays on the list.
    pub(crate) fn for_earlier_timer(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        if self.counts().parked() == 0 {
            return None;
        }
        let parked = self.parked.lock();
        let keeper = parked.keeper.map(|keeper| keeper.worker);
        keeper.or_else(|| parked.list.first().map(|(worker, _)| *worker))
    }

    /// Returns whether this sleeper keeps the time for all, until the earliest deadline that it
    /// knows. The first caller does. A caller with an earlier deadline takes over: a worker that
    /// arms a timer wakes no other worker and relies on its own look before it sleeps.
    pub(crate) fn keeps_time(&self, worker: usize, until_ns: u64) -> bool {
        let mut parked = self.parked.lock();
        if parked.position(worker).is_none() {
            return false;
        }
        let keeps = parked
            .keeper
            .is_none_or(|keeper| keeper.worker == worker || until_ns < keeper.until_ns);
        if keeps {
            parked.keeper = Some(Timekeeper { worker, until_ns });
        }
        keeps
    }

    /// Whether every worker is parked.
    pub(crate) fn is_everybody_parked(&self) -> bool {
        Counts(self.word.load(Ordering::SeqCst)).parked() == self.workers
    }

    /// Workers parked now.
    pub(crate) fn parked(&self) -> u32 {
        self.counts().parked()
    }
}
