//! Floor between two cores: the time of a cache line on its way to another core.
//!
//! Two threads pass a counter to and fro: the caller writes the even values, the partner the odd
//! ones, each as soon as it sees the other's. One round trip is two hand-overs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::limits::{
    HANDOVER_BATCHES, HANDOVER_BATCH_ROUND_TRIPS, HANDOVER_SPINS_BEFORE_YIELD, MEASUREMENT_MS_MAX,
};
use super::pinning::{core_pair, pin_measuring_thread};
use super::{DoctorError, Spread};

/// Ends the partner; no round trip ever gets there.
const END: u64 = u64::MAX;

/// A word on cache lines of its own; 128 bytes because processors fetch lines in pairs.
#[repr(align(128))]
struct Line(AtomicU64);

/// Nanoseconds of one cache line hand-over between two cores, one way; `None` with a single core.
///
/// The two threads pin themselves to two different cores; where pinning is refused the system
/// places them and the figure is noisier.
///
/// Cost: two threads, at most [`MEASUREMENT_MS_MAX`], as a rule 0.1 s.
///
/// # Errors
///
/// [`DoctorError::Thread`] if a thread cannot be started.
pub fn handover_floor() -> Result<Option<Spread>, DoctorError> {
    let Some((first, second)) = core_pair() else {
        return Ok(None);
    };
    let line = Line(AtomicU64::new(0));
    thread::scope(|scope| {
        let partner = thread::Builder::new()
            .name("doctor-partner".into())
            .spawn_scoped(scope, || {
                pin_measuring_thread(second);
                answer_odd(&line.0);
            })
            .map_err(DoctorError::Thread)?;
        let timer = thread::Builder::new().name("doctor-timer".into()).spawn_scoped(scope, || {
            pin_measuring_thread(first);
            let samples = time_round_trips(&line.0);
            line.0.store(END, Ordering::Release);
            samples
        });
        let samples = match timer {
            Ok(timer) => timer.join().expect("the timing thread has nothing that panics"),
            Err(error) => {
                line.0.store(END, Ordering::Release);
                return Err(DoctorError::Thread(error));
            }
        };
        partner.join().expect("the answering thread has nothing that panics");
        Ok(Spread::of(samples))
    })
}

/// The partner: answers every odd value with its successor until the end.
fn answer_odd(line: &AtomicU64) {
    loop {
        // Acquire pairs with the Release stores of the other thread.
        let seen = wait_until(line, |value| value % 2 == 1);
        if seen == END {
            return;
        }
        line.store(seen + 1, Ordering::Release);
    }
}

/// The timer: sends odd values, waits for the even answers, and times them by the batch.
fn time_round_trips(line: &AtomicU64) -> Vec<f64> {
    let limit = Duration::from_millis(MEASUREMENT_MS_MAX);
    let begin = Instant::now();
    let mut samples = Vec::with_capacity(HANDOVER_BATCHES);
    let mut value = 0_u64;
    while samples.len() < HANDOVER_BATCHES && (samples.is_empty() || begin.elapsed() < limit) {
        let batch = Instant::now();
        for _ in 0..HANDOVER_BATCH_ROUND_TRIPS {
            line.store(value + 1, Ordering::Release);
            value += 2;
            wait_until(line, |seen| seen == value);
        }
        let hand_overs = (2 * HANDOVER_BATCH_ROUND_TRIPS) as f64;
        samples.push(batch.elapsed().as_nanos() as f64 / hand_overs);
    }
    samples
}

/// Spins until `wanted` accepts the value; yields now and then for the case of one shared core.
fn wait_until(line: &AtomicU64, wanted: impl Fn(u64) -> bool) -> u64 {
    let mut spins = 0_u32;
    loop {
        let value = line.load(Ordering::Acquire);
        if wanted(value) {
            return value;
        }
        spins += 1;
        if spins == HANDOVER_SPINS_BEFORE_YIELD {
            spins = 0;
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
