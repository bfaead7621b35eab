//! Actor classes: the unit of latency metrics and of the scheduler's estimates of job lengths.

use hdrhistogram::Histogram;

use crate::limits::{CLOCK_PERIOD_NS, CLOCK_STRIDE_JOBS_MAX};
use crate::sync::{AtomicU32, Mutex, Ordering};

/// Greatest latency that a histogram distinguishes, in nanoseconds: one hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// All tasks of one kind.
#[derive(Debug)]
pub(crate) struct Class {
    name: Box<str>,
    /// Its place among the classes of its group, in the order in which they were made.
    index: usize,
    /// Jobs between two clock reads in a turn.
    stride: AtomicU32,
    /// Made at the first sample.
    sampled: Mutex<Option<Box<Sampled>>>,
}

/// Sampled latencies of a class, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Sampled {
    /// From being put into a queue to the start of the turn.
    pub(crate) waited: Histogram<u32>,
    /// Length of the turn.
    pub(crate) ran: Histogram<u32>,
    /// Jobs in the sampled turns.
    pub(crate) jobs: u64,
}

impl Sampled {
    fn new() -> Self {
        let empty = Histogram::new_with_max(LATENCY_NS_MAX, 2)
            .expect("one hour with two digits is within the histogram's limits");
        Self { waited: empty.clone(), ran: empty, jobs: 0 }
    }
}

impl Class {
    pub(crate) fn new(name: &str, index: usize) -> Self {
        Self { name: name.into(), index, stride: AtomicU32::new(1), sampled: Mutex::new(None) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Jobs that may run before the clock is read.
    #[inline(always)]
    pub(crate) fn stride(&self) -> u32 {
        self.stride.load(Ordering::Relaxed)
    }

    /// Looks less often when jobs are short, at once more often when they are long.
    pub(crate) fn adapt_stride(&self, stride: u32, took_ns: u64) -> u32 {
        let next = if took_ns > CLOCK_PERIOD_NS {
            (stride / 4).max(1)
        } else if took_ns * 2 < CLOCK_PERIOD_NS {
            (stride * 2).min(CLOCK_STRIDE_JOBS_MAX)
        } else {
            stride
        };
        if next != self.stride() {
            self.stride.store(next, Ordering::Relaxed);
        }
        next
    }

    /// Records one sampled turn.
    pub(crate) fn sample(&self, waited_ns: u64, ran_ns: u64, jobs: u32) {
        let mut sampled = self.sampled.lock();
        let sampled = sampled.get_or_insert_with(|| Box::new(Sampled::new()));
        sampled.waited.saturating_record(waited_ns.max(1));
        sampled.ran.saturating_record(ran_ns.max(1));
        sampled.jobs += u64::from(jobs);
    }

    pub(crate) fn sampled(&self) -> Option<Sampled> {
        self.sampled.lock().as_deref().cloned()
    }
}
