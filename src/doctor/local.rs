//! Floors inside one thread: an atomic read-modify-write, a clock read.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::limits::{LOCAL_BATCHES, LOCAL_BATCH_OPERATIONS, MEASUREMENT_MS_MAX};
use super::Spread;

/// Nanoseconds of one uncontended atomic `fetch_add`, its line in the own cache.
///
/// Cost: at most [`MEASUREMENT_MS_MAX`], as a rule a few milliseconds.
#[must_use]
pub fn atomic_floor() -> Spread {
    let word = AtomicU64::new(0);
    // Opaque once and outside the loop: a `black_box` in it is a store that the operation drains.
    let word = black_box(&word);
    time_batches(|| {
        word.fetch_add(1, Ordering::SeqCst);
    })
}

/// Nanoseconds of one monotonic clock read.
///
/// Cost: at most [`MEASUREMENT_MS_MAX`], as a rule 0.2 s.
#[must_use]
pub fn clock_floor() -> Spread {
    time_batches(|| {
        black_box(Instant::now());
    })
}

/// Times batches of `operation` and returns nanoseconds per operation.
fn time_batches(operation: impl Fn()) -> Spread {
    let limit = Duration::from_millis(MEASUREMENT_MS_MAX);
    let begin = Instant::now();
    let mut samples = Vec::with_capacity(LOCAL_BATCHES);
    while samples.len() < LOCAL_BATCHES && (samples.is_empty() || begin.elapsed() < limit) {
        let batch = Instant::now();
        for _ in 0..LOCAL_BATCH_OPERATIONS {
            operation();
        }
        samples.push(batch.elapsed().as_nanos() as f64 / f64::from(LOCAL_BATCH_OPERATIONS));
    }
    Spread::of(samples).expect("the loop takes at least one sample")
}
