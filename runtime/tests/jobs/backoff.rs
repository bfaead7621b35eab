//! Delays between attempts.

use std::time::Duration;

use turnwheel_runtime::Backoff;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn delays_grow_up_to_the_cap_and_never_overflow() {
    let backoff = Backoff::exponential(SECOND, Duration::MAX).factor(u32::MAX);
    assert_eq!(backoff.delays(0).nth(10), Some(Duration::MAX));
    let constant: Vec<_> = Backoff::constant(SECOND).delays(0).take(3).collect();
    assert_eq!(constant, [SECOND; 3]);
    let zero = Backoff::exponential(2 * SECOND, Duration::ZERO);
    assert_eq!(zero.delays(0).nth(9), Some(Duration::ZERO));
}

#[test]
fn jitter_shortens_within_its_part_and_repeats_by_seed() {
    let backoff = Backoff::constant(SECOND).jitter_percent(50);
    let delays: Vec<_> = backoff.delays(7).take(1_000).collect();
    assert!(delays.iter().all(|delay| (SECOND / 2..=SECOND).contains(delay)));
    let shortest = delays.iter().min().copied().unwrap_or_default();
    assert!(shortest < SECOND * 6 / 10, "the whole range is used");
    assert_eq!(delays, backoff.delays(7).take(1_000).collect::<Vec<_>>());
    assert_ne!(delays, backoff.delays(8).take(1_000).collect::<Vec<_>>());
    let seeded = backoff.seed(7);
    assert_eq!(delays, seeded.delays(9).take(1_000).collect::<Vec<_>>());
}

#[test]
fn full_jitter_reaches_zero_and_no_further() {
    let backoff = Backoff::constant(Duration::from_nanos(1)).jitter_percent(100);
    assert!(backoff.delays(1).take(100).all(|delay| delay <= Duration::from_nanos(1)));
}
