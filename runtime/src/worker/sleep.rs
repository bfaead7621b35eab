//! Who searches, who is on watch, who sleeps; and whom a producer wakes. See `README.md`.
//!
//! One word mirrors the counts for producers; the lock orders those who go to sleep and those who
//! wake them. Invariant: whoever takes a worker off the list has booked a search for it.

use crate::sync::{fence, AtomicU32, Mutex, Ordering};

/// One worker that searches for work.
const SEARCHING: u32 = 1;
/// One worker that is parked, the one on watch included.
const PARKED: u32 = 1 << 8;
/// A worker is on watch: it looks at its siblings every few hundred microseconds.
const WATCH: u32 = 1 << 16;

const COUNT: u32 = 0xff;

/// How a worker is about to park.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Siblings work: look again soon.
    Watch,
    /// Sleep until woken, or until the next timer if nobody else keeps the time.
    Sleep,
}

/// Who is parked.
#[derive(Debug)]
struct Parked {
    /// Parked workers and how, latest last.
    list: Vec<(usize, Rest)>,
    /// The sleeper that parks only until the next timer, for all, and until when.
    keeper: Option<Keeper>,
}

/// Who keeps the time.
#[derive(Clone, Copy, Debug)]
struct Keeper {
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

    fn remove(&mut self, position: usize) -> (usize, Rest) {
        let (worker, rest) = self.list.remove(position);
        if self.keeper_is(worker) {
            self.keeper = None;
        }
        (worker, rest)
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
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            word: crossbeam_utils::CachePadded::new(AtomicU32::new(0)),
            parked: Mutex::new(Parked { list: Vec::new(), keeper: None }),
            workers: workers as u32,
        }
    }

    /// Starts a search unless half of the workers search already.
    pub(crate) fn start_search(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if 2 * (word & COUNT) >= self.workers.max(2) {
            return false;
        }
        // SeqCst: a producer that pushed before this sees a searcher or is seen by the search.
        self.word.fetch_add(SEARCHING, Ordering::SeqCst);
        true
    }

    /// Ends a search. Returns whether it was the last one.
    pub(crate) fn end_search(&self) -> bool {
        let was_last = self.word.fetch_sub(SEARCHING, Ordering::SeqCst) & COUNT == SEARCHING;
        // Pairs with the fence in `wake_for_push`: a producer that still saw the search is seen by
        // the last searcher's look at the queues.
        fence(Ordering::SeqCst);
        was_last
    }

    /// Books the caller as parked and ends its search, if it was searching. The caller then looks
    /// at the shared queues once more, and parks or calls `leave`.
    pub(crate) fn enter(&self, worker: usize, was_searching: bool) -> Rest {
        let mut parked = self.parked.lock();
        let word = self.word.load(Ordering::Relaxed);
        let others_work = ((word >> 8) & COUNT) + 1 < self.workers;
        let rest = if others_work && word & WATCH == 0 { Rest::Watch } else { Rest::Sleep };
        let watch = if rest == Rest::Watch { WATCH } else { 0 };
        let search = if was_searching { SEARCHING } else { 0 };
        parked.list.push((worker, rest));
        self.word.fetch_add(PARKED + watch - search, Ordering::SeqCst);
        // Pairs with the fence in `wake_for_push`: either the producer sees us parked, or our last
        // look sees its push.
        fence(Ordering::SeqCst);
        rest
    }

    /// Takes the caller off the list. Returns false if somebody has done that and booked a search
    /// for it; otherwise the caller searches on its own account only if `and_search`.
    pub(crate) fn leave(&self, worker: usize, and_search: bool) -> bool {
        let mut parked = self.parked.lock();
        let Some(position) = parked.position(worker) else {
            return false;
        };
        let (_, rest) = parked.remove(position);
        let watch = if rest == Rest::Watch { WATCH } else { 0 };
        let search = if and_search { SEARCHING } else { 0 };
        self.word.fetch_sub(PARKED + watch - search, Ordering::SeqCst);
        true
    }

    /// A worker on watch may go to sleep when no sibling works any more; and a sleeper may take
    /// the watch over. Returns how to park on.
    pub(crate) fn reconsider(&self, worker: usize) -> Option<Rest> {
        let mut parked = self.parked.lock();
        let position = parked.position(worker)?;
        let word = self.word.load(Ordering::Relaxed);
        let others_work = ((word >> 8) & COUNT) < self.workers;
        let now = parked.list[position].1;
        let next = match now {
            Rest::Watch if !others_work => Rest::Sleep,
            Rest::Sleep if others_work && word & WATCH == 0 => Rest::Watch,
            same => same,
        };
        if next != now {
            parked.list[position].1 = next;
            if next == Rest::Watch {
                self.word.fetch_add(WATCH, Ordering::SeqCst);
            } else {
                self.word.fetch_sub(WATCH, Ordering::SeqCst);
            }
            fence(Ordering::SeqCst);
        }
        Some(next)
    }

    /// After a push to a shared queue: whom to wake, if anybody.
    pub(crate) fn wake_for_push(&self) -> Option<usize> {
        // Pairs with the fence in `enter`.
        fence(Ordering::SeqCst);
        let word = self.word.load(Ordering::Relaxed);
        if word & COUNT != 0 || (word >> 8) & COUNT == 0 {
            return None;
        }
        self.book()
    }

    /// After a push to a queue of the caller's own: whom to wake. Nobody while somebody searches
    /// or is on watch; a hint that gets lost is made good by the caller, who is awake.
    #[inline(always)]
    pub(crate) fn wake_for_local_push(&self) -> Option<usize> {
        let word = self.word.load(Ordering::Relaxed);
        if word & (COUNT | WATCH) != 0 || (word >> 8) & COUNT == 0 {
            return None;
        }
        self.book()
    }

    /// After a batch has come from a shared queue into the caller's own: whom to wake. For a moment
    /// it was in neither, and a last searcher that looked then has seen nothing.
    pub(crate) fn wake_for_batch(&self) -> Option<usize> {
        // Pairs with the fences in `end_search` and `hand_on`: either we see that nobody searches
        // or watches any more, or the one who stops sees the batch.
        fence(Ordering::SeqCst);
        self.wake_for_local_push()
    }

    /// Takes a parked worker off the list and books a search for it.
    #[cold]
    fn book(&self) -> Option<usize> {
        let mut parked = self.parked.lock();
        if self.word.load(Ordering::Relaxed) & COUNT != 0 {
            return None;
        }
        // The keeper of the time last: if it is woken, nobody else looks at the timers.
        let others = parked.list.iter().rposition(|(index, _)| !parked.keeper_is(*index));
        let position = others.or_else(|| parked.list.len().checked_sub(1))?;
        let (worker, rest) = parked.remove(position);
        let watch = if rest == Rest::Watch { WATCH } else { 0 };
        self.word.fetch_sub(PARKED + watch - SEARCHING, Ordering::SeqCst);
        Some(worker)
    }

    /// Which sleeper to wake when the caller goes to work and timers are pending: nobody if
    /// somebody keeps the time, is on watch or searches. It stays on the list, and goes on watch.
    pub(crate) fn wake_for_time(&self) -> Option<usize> {
        let word = self.word.load(Ordering::Relaxed);
        if word & (COUNT | WATCH) != 0 || (word >> 8) & COUNT == 0 {
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
        let word = self.word.load(Ordering::Relaxed);
        if (word >> 8) & COUNT == 0 {
            return None;
        }
        let parked = self.parked.lock();
        let keeper = parked.keeper.map(|keeper| keeper.worker);
        keeper.or_else(|| parked.list.first().map(|(worker, _)| *worker))
    }

    /// Whether this sleeper keeps the time for all, until the earliest deadline that it knows. The
    /// first one to ask does; one that knows an earlier deadline takes over, since a worker that
    /// arms a timer relies on its own look before it sleeps and wakes nobody.
    pub(crate) fn keeps_time(&self, worker: usize, until_ns: u64) -> bool {
        let mut parked = self.parked.lock();
        if parked.position(worker).is_none() {
            return false;
        }
        let keeps = parked
            .keeper
            .is_none_or(|keeper| keeper.worker == worker || until_ns < keeper.until_ns);
        if keeps {
            parked.keeper = Some(Keeper { worker, until_ns });
        }
        keeps
    }

    /// Whether every worker is parked.
    pub(crate) fn is_everybody_parked(&self) -> bool {
        (self.word.load(Ordering::SeqCst) >> 8) & COUNT == self.workers
    }

    /// Workers parked now.
    pub(crate) fn parked(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> 8) & COUNT
    }
}
