//! A handler's future with what is ambient during its polls.

use std::any::Any;
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::pin;
use std::task::Poll;

use crate::request::Ambient;

/// What a future panicked with.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Polls the future with the ambient context.
pub(crate) async fn within<F: Future>(future: F, ambient: Ambient) -> F::Output {
    let mut future = pin!(future);
    std::future::poll_fn(move |cx| ambient.within(|| future.as_mut().poll(cx))).await
}

/// As [`within`]; a panic of the future becomes its output, for whoever has to tidy up behind it.
pub(crate) async fn contained<F: Future>(future: F, ambient: Ambient) -> Result<F::Output, Panic> {
    let mut future = pin!(within(future, ambient));
    std::future::poll_fn(move |cx| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}
