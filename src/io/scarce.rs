//! Trouble that passes by itself: descriptors or processes are used up for a moment.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// The pause before the first further attempt, and the longest one: each is twice the previous one.
const AGAIN_MIN: Duration = Duration::from_millis(10);
const AGAIN_MAX: Duration = Duration::from_millis(500);

/// Time limit of all attempts.
const WITHIN: Duration = Duration::from_secs(30);

/// Pauses between attempts, until the time is over.
#[derive(Debug)]
pub(super) struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    /// For a call that may take so long.
    pub(super) fn new(limit: Duration) -> Self {
        Self { until: Instant::now() + limit.min(WITHIN), pause: AGAIN_MIN }
    }

    /// Waits, if another attempt may help after this error; false if it is final.
    pub(super) fn waits_after(&mut self, error: &io::Error) -> bool {
        self.pause_after(error).map(thread::sleep).is_some()
    }

    /// Pause before another attempt, if one may help after this error.
    pub(super) fn pause_after(&mut self, error: &io::Error) -> Option<Duration> {
        let pause = self.pause;
        if !is_scarce(error) || Instant::now() + pause >= self.until {
            return None;
        }
        tracing::warn!(%error, ?pause, "a call of a step is tried again");
        self.pause = (pause * 2).min(AGAIN_MAX);
        Some(pause)
    }
}

/// Tries until it works, fails for another reason, is over, or takes too long.
pub(super) fn patiently<T>(
    limit: Duration,
    is_over: &dyn Fn() -> bool,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut patience = Patience::new(limit);
    loop {
        match attempt() {
            Err(error) if !is_over() && patience.waits_after(&error) => {}
            outcome => return outcome,
        }
    }
}

/// Whether the process or the host has too many open files, or too many processes.
fn is_scarce(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let scarce = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
        let code = error.raw_os_error();
        scarce.iter().any(|known| code == Some(known.raw_os_error()))
    }
    #[cfg(not(unix))]
    {
        let _unused = error;
        false
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_waited_for_and_other_errors_are_final() {
        use rustix::io::Errno;
        let attempts = |outcomes: &[Errno], is_over: bool| {
            let mut count = 0;
            let outcome = patiently(Duration::from_secs(5), &|| is_over, || {
                count += 1;
                outcomes.get(count - 1).map_or(Ok(()), |errno| Err(io::Error::from(*errno)))
            });
            (outcome.is_ok(), count)
        };
        assert_eq!(attempts(&[Errno::MFILE, Errno::AGAIN, Errno::NFILE], false), (true, 4));
        assert_eq!(attempts(&[Errno::NOENT], false), (false, 1));
        assert_eq!(attempts(&[Errno::MFILE], true), (false, 1), "nobody waits for it");
        let mut patience = Patience::new(Duration::ZERO);
        assert!(!patience.waits_after(&io::Error::from(Errno::MFILE)), "no time is left");
    }
}
