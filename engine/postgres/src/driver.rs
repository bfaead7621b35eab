//! The thread that drives the connections of a store. The rest of the process needs no tokio.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use turnwheel_engine::StoreError;

use crate::wait::wait;

pub(crate) struct Driver {
    handle: Handle,
    /// The thread ends with it.
    _alive: oneshot::Sender<()>,
}

impl Driver {
    pub(crate) fn start() -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::Failed(format!("the thread of the connections cannot be started: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("turnwheel-postgres".to_owned());
        let run = move || {
            let _dropped = runtime.block_on(ended);
        };
        thread.spawn(run).map_err(failed)?;
        Ok(Self { handle, _alive: alive })
    }

    /// Runs a future on the thread, and waits for it here. Nothing if it takes longer than the
    /// limit.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        limit: Duration,
    ) -> Option<T> {
        wait(self.handle.spawn(future), limit)?.ok()
    }

    /// Runs a future on the thread, beside others.
    pub(crate) fn spawn(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        self.handle.spawn(future)
    }
}
