//! Jobs of the library's own tasks, which keep pools, topics and children going.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use turnwheel_runtime::{SubmitError, Task, TaskJob};

/// Submits a job that must not be lost where the mailboxes of the group hold as many bytes as they
/// may: by a permit, which the memory budget does not refuse.
pub(crate) fn submit_own<S: Send + 'static, J: TaskJob<S>>(
    task: &Task<S>,
    job: J,
) -> Result<(), SubmitError<J>> {
    let mut reserving = pin!(task.reserve());
    match reserving.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(place)) => place.submit_job(job),
        _ => task.submit_job(job),
    }
}
