//! Floor of a wake-up: from the `unpark` call to the woken thread running.
//!
//! The waker spins between wake-ups, as a busy worker or a load generator would, and the sleeper is
//! really parked each time. The waker takes the time before the call, the sleeper when it runs,
//! both on the same monotonic clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::limits::{MEASUREMENT_MS_MAX, UNPARK_GAP_US, UNPARK_ROUNDS};
use super::pinning::{core_pair, pin_measuring_thread};
use super::{DoctorError, Spread};

/// Value of `asked` that ends the sleeper.
const END: u64 = u64::MAX;

/// Words shared by waker and sleeper; each is written by one side only.
#[derive(Default)]
struct Bell {
    /// Round requested by the waker; written by the waker.
    asked: AtomicU64,
    /// Round the sleeper has seen; written by the sleeper.
    answered: AtomicU64,
    /// Nanoseconds since the base at which the sleeper ran; written before `answered`.
    ran_at_ns: AtomicU64,
}

/// Microseconds from an `unpark` call to the parked thread running, one way.
///
/// The sleeper and the waker pin themselves to two different cores where that is allowed. With one
/// core the figure is that of a switch on the same core.
///
/// Cost: two threads, at most [`MEASUREMENT_MS_MAX`], as a rule 0.7 s.
///
/// # Errors
///
/// [`DoctorError::Thread`] if a thread cannot be started.
pub fn unpark_floor() -> Result<Spread, DoctorError> {
    let cores = core_pair();
    let bell = &Bell::default();
    let base = Instant::now();
    thread::scope(|scope| {
        let sleeper = thread::Builder::new()
            .name("doctor-sleeper".into())
            .spawn_scoped(scope, || {
                if let Some((_, core)) = cores {
                    pin_measuring_thread(core);
                }
                answer(bell, base);
            })
            .map_err(DoctorError::Thread)?;
        let target = sleeper.thread().clone();
        let waker =
            thread::Builder::new().name("doctor-waker".into()).spawn_scoped(scope, move || {
                if let Some((core, _)) = cores {
                    pin_measuring_thread(core);
                }
                let samples = wake(bell, &target, base);
                end(bell, &target);
                samples
            });
        let samples = match waker {
            Ok(waker) => waker.join().expect("the waking thread has nothing that panics"),
            Err(error) => {
                end(bell, sleeper.thread());
                return Err(DoctorError::Thread(error));
            }
        };
        Ok(Spread::of(samples).expect("the waker takes at least one sample").in_units_of(1_000.0))
    })
}

/// The sleeper: parks until a request, then reports its time.
fn answer(bell: &Bell, base: Instant) {
    let mut seen = 0_u64;
    loop {
        // Acquire pairs with the Release store in `wake` and `end`.
        let asked = bell.asked.load(Ordering::Acquire);
        if asked == seen {
            thread::park();
            continue;
        }
        if asked == END {
            return;
        }
        bell.ran_at_ns.store(base.elapsed().as_nanos() as u64, Ordering::Relaxed);
        seen = asked;
        bell.answered.store(seen, Ordering::Release);
    }
}

/// The waker: waits a gap, wakes, waits for the answer. Returns nanoseconds, at least one sample.
fn wake(bell: &Bell, target: &Thread, base: Instant) -> Vec<f64> {
    let gap = Duration::from_micros(UNPARK_GAP_US);
    let limit = Duration::from_millis(MEASUREMENT_MS_MAX);
    let begin = Instant::now();
    let mut samples = Vec::with_capacity(UNPARK_ROUNDS);
    while samples.len() < UNPARK_ROUNDS && (samples.is_empty() || begin.elapsed() < limit) {
        let idle_from = Instant::now();
        while idle_from.elapsed() < gap {
            std::hint::spin_loop();
        }
        let round = samples.len() as u64 + 1;
        let before_ns = base.elapsed().as_nanos() as u64;
        bell.asked.store(round, Ordering::Release);
        target.unpark();
        // Acquire pairs with the Release store in `answer`, which follows `ran_at_ns`.
        while bell.answered.load(Ordering::Acquire) != round {
            // The sleeper may share this core, so the wait gives it away.
            thread::yield_now();
        }
        let ran_ns = bell.ran_at_ns.load(Ordering::Relaxed);
        debug_assert!(ran_ns >= before_ns, "the clock is monotonic across threads");
        samples.push(ran_ns.saturating_sub(before_ns) as f64);
    }
    samples
}

/// Ends the sleeper.
fn end(bell: &Bell, target: &Thread) {
    bell.asked.store(END, Ordering::Release);
    target.unpark();
}
