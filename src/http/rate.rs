//! Request rates of principals: a token bucket for each.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;

use super::limits::RATED_MAX;

/// The buckets.
#[derive(Debug)]
pub(super) struct Rates {
    /// Rate a second, and size of the bucket.
    limit: Option<(f64, f64)>,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    pub(super) fn new(limit: Option<(u32, u32)>) -> Self {
        let limit = limit.map(|(rate, burst)| (f64::from(rate), f64::from(burst)));
        Self { limit, buckets: Mutex::default() }
    }

    /// Takes one token, or returns the seconds until there is one.
    pub(super) fn take(&self, who: &str) -> Result<(), u64> {
        let Some(limit) = self.limit else { return Ok(()) };
        self.take_at(who, limit, Instant::now())
    }

    fn take_at(&self, who: &str, (rate, burst): (f64, f64), now: Instant) -> Result<(), u64> {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= RATED_MAX && !buckets.contains_key(who) {
            let filled = |bucket: &Bucket| (now - bucket.at).as_secs_f64() * rate + bucket.left;
            buckets.retain(|_, bucket| filled(bucket) < burst);
        }
        let bucket = buckets.entry(who.to_owned()).or_insert(Bucket { left: burst, at: now });
        let gained = now.saturating_duration_since(bucket.at).as_secs_f64() * rate;
        (bucket.left, bucket.at) = ((bucket.left + gained).min(burst), now);
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        Err(((1.0 - bucket.left) / rate).ceil().max(1.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_fills_with_time_and_not_beyond_its_size() {
        let rates = Rates::new(Some((2, 3)));
        let (limit, now) = ((2.0, 3.0), Instant::now());
        for _ in 0..3 {
            assert_eq!(rates.take_at("ann", limit, now), Ok(()));
        }
        assert_eq!(rates.take_at("ann", limit, now), Err(1));
        assert_eq!(rates.take_at("bob", limit, now), Ok(()));
        let later = now + Duration::from_millis(500);
        assert_eq!(rates.take_at("ann", limit, later), Ok(()));
        assert_eq!(rates.take_at("ann", limit, later), Err(1));
        let much_later = now + Duration::from_secs(3_600);
        for _ in 0..3 {
            assert_eq!(rates.take_at("ann", limit, much_later), Ok(()));
        }
        assert_eq!(rates.take_at("ann", limit, much_later), Err(1));
    }
}
