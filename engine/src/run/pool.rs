//! Code that may block, on the pool of the world's group.

use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_runtime::{Failure, Group};

use crate::limits::POOL_AGAIN;

/// Calls code on the pool. While the pool is full it waits: a full pool refuses no call.
pub(crate) async fn on_pool<T: Send + 'static>(
    group: Group,
    code: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let code = Arc::new(Mutex::new(Some(code)));
    loop {
        let mine = Arc::clone(&code);
        let take = move || {
            let code = mine.lock().take();
            code.map(|code| code())
        };
        match group.run_blocking(take, None).await {
            Ok(Some(returned)) => return Ok(returned),
            Err(Failure::Refused(_)) if code.lock().is_some() => {
                let _waited = group.sleep(POOL_AGAIN).await;
            }
            Ok(None) => return Err(Failure::Abandoned),
            Err(failure) => return Err(failure),
        }
    }
}
