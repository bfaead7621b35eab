//! Acknowledgements of messages that were stored.
//!
//! A worker says that they are stored, and must not block. So a short thread acknowledges them,
//! within a time limit, and the number of such threads is limited. Messages that are not
//! acknowledged come again: that is what a flow has to expect anyway.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use turnwheel_flow::Receipt;

/// Time limit of the acknowledgements of one subscription.
const WITHIN: Duration = Duration::from_secs(10);

/// Subscriptions whose messages are being acknowledged at once.
const THREADS_MAX: usize = 64;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Acknowledges messages when it is run, and keeps their connection open until then.
pub(super) type Acknowledge = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Messages that were taken, on an open connection.
pub(super) struct Kept {
    acknowledge: Option<Acknowledge>,
    runtime: Option<Runtime>,
    shown: String,
}

impl Kept {
    pub(super) fn new(runtime: Runtime, acknowledge: Acknowledge, shown: String) -> Self {
        Self { acknowledge: Some(acknowledge), runtime: Some(runtime), shown }
    }

    pub(super) fn receipt(self) -> Receipt {
        Receipt::new(move || self.accept())
    }

    fn accept(self) {
        let channel = self.shown.clone();
        let Some(place) = Place::take() else {
            let error = "too many others are being acknowledged";
            tracing::warn!(channel, error, "messages are not acknowledged and come again");
            return;
        };
        let begun = thread::Builder::new().name("flow-broker".to_owned()).spawn(move || {
            self.run();
            drop(place);
        });
        if let Err(error) = begun {
            tracing::warn!(channel, %error, "messages are not acknowledged and come again");
        }
    }

    fn run(mut self) {
        let (Some(acknowledge), Some(runtime)) = (self.acknowledge.take(), &self.runtime) else {
            return;
        };
        let ended = runtime.block_on(async { tokio::time::timeout(WITHIN, acknowledge).await });
        let error = match ended {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => format!("it takes longer than {WITHIN:?}"),
        };
        let channel = &self.shown;
        tracing::warn!(channel, error, "messages are not acknowledged and come again");
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The connection, which is on the runtime, goes first, and nothing waits for its threads.
        self.acknowledge = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A place among the threads.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let before = THREADS.fetch_add(1, Ordering::Relaxed);
        // Given back at once if there was none.
        let place = Self;
        (before < THREADS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}
