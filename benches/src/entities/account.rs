//! The entity that is measured, and the finish line where entities report.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use turnwheel::actors::{Actor, Context, Entity, Handler};

use crate::error::BenchError;

/// A run that has not ended by then has lost messages or hangs.
const RUN_TIME_MAX: Duration = Duration::from_secs(120);
/// Parts of the finish line, by ranges of keys: workers that work on their own ranges seldom meet.
const LANES: u64 = 64;

/// What is known before a process starts its runs.
static LINE: OnceLock<FinishLine> = OnceLock::new();

/// Where entities report.
#[derive(Debug)]
pub(crate) struct FinishLine {
    /// Messages of each key between two reports, in every run.
    shares: Vec<u32>,
    lanes: Vec<Lane>,
    /// Lanes that are not through.
    left: AtomicU64,
    finished: Mutex<Option<Instant>>,
    wake: Condvar,
}

/// Reports that are missing for a range of keys; alone on its cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Lane(AtomicU64);

impl FinishLine {
    /// Draws the line of this process, once.
    pub(crate) fn draw(shares: Vec<u32>) -> &'static Self {
        LINE.get_or_init(|| Self {
            shares,
            lanes: (0..LANES).map(|_| Lane(AtomicU64::new(0))).collect(),
            left: AtomicU64::new(0),
            finished: Mutex::new(None),
            wake: Condvar::new(),
        })
    }

    fn lane(&self, key: u64) -> usize {
        (key * LANES / self.shares.len() as u64) as usize
    }

    /// Begins a run in which each key that gets anything reports so many times.
    pub(crate) fn begin(&self, reports: u64) {
        let mut wanted = vec![0; self.lanes.len()];
        for (key, share) in self.shares.iter().enumerate() {
            wanted[self.lane(key as u64)] += if *share > 0 { reports } else { 0 };
        }
        let through = wanted.iter().filter(|wanted| **wanted > 0).count();
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.left.store(through as u64, Ordering::Relaxed);
        for (lane, wanted) in self.lanes.iter().zip(wanted) {
            lane.0.store(wanted, Ordering::Release);
        }
    }

    fn report(&self, key: u64) {
        let lane = &self.lanes[self.lane(key)];
        // AcqRel: the last reporter sees what the others have done.
        if lane.0.fetch_sub(1, Ordering::AcqRel) == 1
            && self.left.fetch_sub(1, Ordering::AcqRel) == 1
        {
            let now = Instant::now();
            *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
            self.wake.notify_all();
        }
    }

    /// Waits for the last report.
    pub(crate) fn wait(&self, what: &str) -> Result<Instant, BenchError> {
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_timeout_while(finished, RUN_TIME_MAX, |at| at.is_none());
        let (finished, _) = waited.unwrap_or_else(PoisonError::into_inner);
        finished.ok_or_else(|| BenchError::Unfinished {
            what: what.to_owned(),
            seconds: RUN_TIME_MAX.as_secs(),
            left: self.lanes.iter().map(|lane| lane.0.load(Ordering::Relaxed)).sum(),
        })
    }
}

/// A state of 64 bytes that counts its messages and reports each time it has had its share.
pub(crate) struct Account {
    line: &'static FinishLine,
    key: u64,
    handled: u64,
    next_report: u64,
    _rest: [u64; 4],
}

/// Bytes of its state.
pub(crate) const STATE_BYTES: usize = 64;

const _: () = assert!(std::mem::size_of::<Account>() == STATE_BYTES);

impl Account {
    fn new(key: u64) -> Self {
        let line = LINE.get().expect("the line is drawn before the first message");
        let next_report = u64::from(line.shares[key as usize]);
        Self { line, key, handled: 0, next_report, _rest: [0; 4] }
    }

    #[inline]
    fn handle(&mut self) -> u64 {
        self.handled += 1;
        if self.handled == self.next_report {
            self.next_report += u64::from(self.line.shares[self.key as usize]);
            self.line.report(self.key);
        }
        self.handled
    }
}

/// The same behind a key that is a text.
pub(crate) struct Named(Account);

/// Count one; the answer is the count.
pub(crate) struct Increment;

/// Count one, and be passivated.
pub(crate) struct Visit;

impl Actor for Account {
    type Error = Infallible;
}

impl Entity for Account {
    type Key = u64;

    fn create(key: &u64) -> Self {
        Self::new(*key)
    }
}

impl Actor for Named {
    type Error = Infallible;
}

impl Entity for Named {
    type Key = String;

    fn create(key: &String) -> Self {
        let digits = key.trim_start_matches(|sign: char| !sign.is_ascii_digit());
        Self(Account::new(digits.parse().expect("keys end in their number")))
    }
}

/// A key of 16 bytes as text.
pub(crate) fn text_key(key: u32) -> String {
    format!("account-{key:08}")
}

impl Handler<Increment> for Account {
    type Reply = u64;

    #[inline]
    fn handle(&mut self, Increment: Increment, _: &mut Context<'_, Self>) -> u64 {
        self.handle()
    }
}

impl Handler<Visit> for Account {
    type Reply = ();

    #[inline]
    fn handle(&mut self, Visit: Visit, cx: &mut Context<'_, Self>) {
        self.handle();
        cx.passivate();
    }
}

impl Handler<Increment> for Named {
    type Reply = u64;

    #[inline]
    fn handle(&mut self, Increment: Increment, _: &mut Context<'_, Self>) -> u64 {
        self.0.handle()
    }
}
