//! The future of a handler, polled within its ambient context, its panics contained.
//!
//! A future that panics in `poll` may panic again when it is dropped. Dropped by the unwinding of
//! the first panic, the second one would abort the process. So each panic is caught at the poll
//! itself, and the future is dropped after that, with a guard of its own.

use std::any::Any;
use std::future::{poll_fn, Future};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::{pin, Pin};
use std::task::Poll;

use turnwheel_runtime::Failure;

use crate::request::Ambient;

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Polls the future with the ambient context. A panic of the future continues once the future is
/// dropped.
pub(crate) async fn within<F: Future>(future: F, ambient: Ambient) -> F::Output {
    contained(future, ambient).await.unwrap_or_else(|panic| resume_unwind(panic))
}

/// As [`within`]; a panic of the future becomes its output, for the caller that has to clean up.
pub(crate) async fn contained<F: Future>(
    future: F,
    mut ambient: Ambient,
) -> Result<F::Output, Panic> {
    run(pin!(Some(future)), &mut ambient).await
}

/// As [`contained`], of a future that is made within the ambient context, too.
pub(crate) async fn made_contained<F: Future>(
    make: impl FnOnce() -> F,
    ambient: &mut Ambient,
) -> Result<F::Output, Panic> {
    let mut slot = pin!(None);
    slot.set(Some(catch_unwind(AssertUnwindSafe(|| ambient.within(make)))?));
    run(slot, ambient).await
}

/// Polls the future in its place to its end, and drops it there.
async fn run<F: Future>(
    mut slot: Pin<&mut Option<F>>,
    ambient: &mut Ambient,
) -> Result<F::Output, Panic> {
    let mut place = slot.as_mut();
    let outcome = poll_fn(move |cx| {
        let Some(future) = place.as_mut().as_pin_mut() else {
            unreachable!("it is dropped after its end")
        };
        match catch_unwind(AssertUnwindSafe(|| ambient.within(|| future.poll(cx)))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await;
    contain("dropping the future of a handler", || slot.set(None));
    outcome
}

/// Runs a user's destructor or hook without a waiter for its outcome: a panic is logged, and ends
/// nothing else.
pub(crate) fn contain(what: &'static str, run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let failure = Failure::from_panic(panic);
        tracing::error!(%failure, what, "user code panicked");
    }
}
