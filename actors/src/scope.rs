//! A handler's future with what is ambient during its polls.

use std::future::Future;
use std::pin::{pin, Pin};
use std::task::{Context, Poll};
use std::time::Duration;

use turnwheel_runtime::{Completion, Group};

use crate::request::Ambient;

/// Polls the future with the ambient context, and once more by the time that it asks for.
///
/// One timer for all calls of the future: it is armed for the earliest deadline and left as it is
/// when the call is answered, so a call in time costs no timer.
pub(crate) async fn within<F: Future>(future: F, mut ambient: Ambient, group: Group) -> F::Output {
    let mut future = pin!(future);
    let mut alarm = Alarm { group, armed: None, is_broken: false };
    ambient.is_polled = true;
    std::future::poll_fn(move |cx| {
        ambient.wake_ns = u64::MAX;
        let polled = ambient.within(|| future.as_mut().poll(cx));
        if polled.is_pending() {
            alarm.set(ambient.wake_ns, cx);
        }
        polled
    })
    .await
}

/// The timer of a future.
#[derive(Debug)]
struct Alarm {
    group: Group,
    /// The time, and what completes then.
    armed: Option<(u64, Completion<()>)>,
    /// The group has no timer for us: the calls end with their answers only.
    is_broken: bool,
}

impl Alarm {
    /// Has the future polled by this time.
    fn set(&mut self, wake_ns: u64, cx: &mut Context<'_>) {
        while !self.is_broken {
            if let Some((_, armed)) = &mut self.armed {
                match Pin::new(armed).poll(cx) {
                    Poll::Ready(Ok(())) => {
                        // The poll that this brings about looks at the deadlines.
                        self.armed = None;
                        cx.waker().wake_by_ref();
                        return;
                    }
                    Poll::Ready(Err(failure)) => {
                        tracing::warn!(%failure, "a call waits without its deadline");
                        self.is_broken = true;
                        return;
                    }
                    Poll::Pending => {}
                }
            }
            let is_covered = self.armed.as_ref().is_some_and(|(at_ns, _)| *at_ns <= wake_ns);
            if wake_ns == u64::MAX || is_covered {
                return;
            }
            let left = wake_ns.saturating_sub(self.group.now_ns());
            self.armed = Some((wake_ns, self.group.sleep(Duration::from_nanos(left))));
        }
    }
}
