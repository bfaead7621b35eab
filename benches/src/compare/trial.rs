//! One timed run: who has reported, how long it took, what was allocated.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::plan::Run;
use crate::alloc;
use crate::error::{check, BenchError};

/// A run that has not ended by then has lost messages or hangs.
const RUN_TIME_MAX: Duration = Duration::from_secs(120);
/// The exponent of Zipf's law, as in the YCSB benchmarks.
const ZIPF: f64 = 0.99;

/// Where actors report: once when their last message is handled, and once, by being dropped, that
/// they are gone.
#[derive(Clone, Debug)]
pub(crate) struct Collector(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Actors that have not reported.
    left: AtomicU64,
    /// Messages handled by those that have.
    handled: AtomicU64,
    /// When the last one reported.
    finished: Mutex<Option<Instant>>,
    wake: Condvar,
}

impl Collector {
    /// Waits for this many reports.
    pub(crate) fn new(reporters: u64) -> Self {
        Self(Arc::new(Shared {
            left: AtomicU64::new(reporters),
            handled: AtomicU64::new(0),
            finished: Mutex::new(None),
            wake: Condvar::new(),
        }))
    }

    /// An actor has handled all its messages; the last report stops the clock.
    pub(crate) fn report(&self, handled: u64) {
        self.0.handled.fetch_add(handled, Ordering::Relaxed);
        // AcqRel: the last reporter sees what the others have added.
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let now = Instant::now();
            *self.0.finished.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
            self.0.wake.notify_all();
        }
    }

    /// Waits for the last report, for at most so many seconds.
    fn wait(&self, what: &str, seconds: u64) -> Result<Instant, BenchError> {
        let mut finished = self.0.finished.lock().unwrap_or_else(PoisonError::into_inner);
        // In slices: the time in which the whole process stood still is one of them.
        for _ in 0..seconds {
            let slice = Duration::from_secs(1);
            let waited = self.0.wake.wait_timeout_while(finished, slice, |at| at.is_none());
            finished = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(at) = *finished {
                return Ok(at);
            }
        }
        // Before the actors are dropped: what they still send is refused then.
        crate::load::give_up();
        Err(BenchError::Unfinished {
            what: what.to_owned(),
            seconds,
            left: self.0.left.load(Ordering::Relaxed),
        })
    }

    /// Adds to the messages handled, without being one of those waited for.
    pub(crate) fn add(&self, handled: u64) {
        self.0.handled.fetch_add(handled, Ordering::Relaxed);
    }

    /// Waits until every actor that holds a clone is gone, so that no one's tear-down falls into
    /// the next contender's time, and checks that together they handled each message once.
    pub(crate) fn settle(self, what: &str, run: &Run) -> Result<(), BenchError> {
        self.wait_gone(what)?;
        let handled = self.0.handled.load(Ordering::Relaxed);
        check(format!("{what}: messages handled"), handled, run.messages)
    }

    fn wait_gone(&self, what: &str) -> Result<(), BenchError> {
        const PAUSE: Duration = Duration::from_micros(200);
        // Counted, as above: the time in which the process stood still is one pause.
        let mut pauses = RUN_TIME_MAX.as_micros() / PAUSE.as_micros();
        while Arc::strong_count(&self.0) > 1 {
            if pauses == 0 {
                return Err(BenchError::Unfinished {
                    what: format!("{what}: tear-down"),
                    seconds: RUN_TIME_MAX.as_secs(),
                    left: Arc::strong_count(&self.0) as u64 - 1,
                });
            }
            pauses -= 1;
            std::thread::sleep(PAUSE);
        }
        // Pairs with the releases of the clones that are gone.
        std::sync::atomic::fence(Ordering::Acquire);
        Ok(())
    }
}

/// What one run came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) ns_per_message: f64,
    pub(crate) allocations_per_message: f64,
    pub(crate) wakes_per_message: Option<f64>,
}

/// The time and the counts at the start of a run.
#[derive(Debug)]
pub(crate) struct Trial {
    allocations: u64,
    wakes: Option<u64>,
    begin: Instant,
}

impl Trial {
    /// Starts the clock; `wakes` is the contender's count so far.
    pub(crate) fn begin(wakes: Option<u64>) -> Self {
        Self { allocations: alloc::allocations(), wakes, begin: Instant::now() }
    }

    /// Waits for the reports; `wakes` reads the contender's count.
    pub(crate) fn end(
        self,
        what: &str,
        run: &Run,
        collector: &Collector,
        wakes: impl FnOnce() -> Option<u64>,
    ) -> Result<Measured, BenchError> {
        let finished = collector.wait(what, RUN_TIME_MAX.as_secs())?;
        let allocations = alloc::allocations() - self.allocations;
        let wakes = wakes().zip(self.wakes).map(|(after, before)| after.saturating_sub(before));
        let messages = run.messages as f64;
        Ok(Measured {
            ns_per_message: finished.duration_since(self.begin).as_nanos() as f64 / messages,
            allocations_per_message: allocations as f64 / messages,
            wakes_per_message: wakes.map(|count| count as f64 / messages),
        })
    }
}

/// Real work: a chain of dependent multiplications that no compiler shortens.
#[inline]
pub(crate) fn work(rounds: u32) {
    if rounds == 0 {
        return;
    }
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(value);
}

/// How many rounds of work last this long on this machine, by the best of several trials.
pub(crate) fn work_rounds(wanted_ns: u32) -> u32 {
    const ROUNDS: u32 = 1_000_000;
    let best = (0..7)
        .map(|_| {
            let begin = Instant::now();
            work(ROUNDS);
            begin.elapsed()
        })
        .min()
        .unwrap_or(Duration::from_millis(1));
    let per_round_ns = best.as_nanos() as f64 / f64::from(ROUNDS);
    (f64::from(wanted_ns) / per_round_ns).round().max(1.0) as u32
}

/// The same sequence of numbers on every machine (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number of the sequence.
    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below the limit, by multiplication: no division.
    #[inline]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }
}

/// Keys drawn by Zipf's law; the popular ones are spread over all.
pub(crate) fn skewed(keys: u32, count: usize) -> Vec<u32> {
    let mut sums = Vec::with_capacity(keys as usize);
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += 1.0 / f64::from(rank).powf(ZIPF);
        sums.push(sum);
    }
    let mut random = Random::new(u64::from(keys));
    let mut places: Vec<u32> = (0..keys).collect();
    for at in (1..places.len()).rev() {
        places.swap(at, random.below(at as u64 + 1) as usize);
    }
    let draw = |_| {
        let part = random.next_u64() as f64 / u64::MAX as f64 * sum;
        let rank = sums.partition_point(|sum| *sum < part);
        places[rank.min(places.len() - 1)]
    };
    (0..count).map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_without_a_report_is_an_error_that_no_late_message_hides() {
        let collector = Collector::new(2);
        collector.report(1);
        let error = collector.wait("count on turnwheel", 0).expect_err("one has not reported");
        let text = "count on turnwheel: not finished after 0 s, 1 of its actors have not reported";
        assert_eq!(error.to_string(), text);
        // Its actors are dropped now. Without the mark of the failed run this ends the process.
        crate::load::refused(&"the task is closed");
    }

    #[test]
    fn the_last_report_ends_the_wait_and_the_last_clone_the_tear_down() {
        let collector = Collector::new(1);
        let reporter = collector.clone();
        let reports = std::thread::spawn(move || reporter.report(1));
        assert!(collector.wait("one", RUN_TIME_MAX.as_secs()).is_ok());
        reports.join().expect("no panic with it");
        assert!(collector.wait_gone("one").is_ok());
    }
}
