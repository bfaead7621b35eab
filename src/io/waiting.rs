//! Calls on a runtime of the caller's thread, and how long they are waited for.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use turnwheel_flow::{IoCall, IoError, IoErrorKind};

use super::scarce::patiently;

/// Interval of looks at a cancel.
const LOOK: Duration = Duration::from_millis(20);

/// A runtime for one call.
pub(super) fn runtime(
    shown: &str,
    deadline: Instant,
    call: &IoCall<'_>,
) -> Result<Runtime, IoError> {
    let left = deadline.saturating_duration_since(Instant::now());
    let is_over = || call.is_cancelled();
    let runtime = patiently(left, &is_over, || Builder::new_current_thread().enable_all().build());
    runtime.map_err(|error| {
        let message = format!("no connection to {shown} could be begun: {error}");
        IoError::new(IoErrorKind::Communication, message)
    })
}

/// Runs a call on this thread until it ends, is cancelled or its time is up.
pub(super) fn on_runtime<T>(
    runtime: &Runtime,
    shown: &str,
    deadline: Instant,
    call: &IoCall<'_>,
    work: impl Future<Output = Result<T, IoError>>,
) -> Result<T, IoError> {
    let left = deadline.saturating_duration_since(Instant::now());
    runtime.block_on(async {
        let cancelled = async {
            while !call.is_cancelled() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            outcome = work => outcome,
            () = tokio::time::sleep_until(deadline.into()) => {
                let message = format!("{shown} has not answered within {left:?}");
                Err(IoError::new(IoErrorKind::TimedOut, message))
            }
            () = cancelled => {
                let message = format!("nobody waits for the answer of {shown} any longer");
                Err(IoError::new(IoErrorKind::Cancelled, message))
            }
        }
    })
}
