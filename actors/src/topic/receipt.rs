//! Result of one message at all subscribers that wait for room, for its publisher.

use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_runtime::{Completer, Completion};

use super::Published;

/// Completes when the last ticket has been handed in.
#[derive(Debug)]
pub(super) struct Receipt {
    state: Mutex<State>,
    completer: Completer<Published>,
}

#[derive(Debug)]
struct State {
    published: Published,
    /// Tickets that are out, and one until the message is with all subscribers.
    open: usize,
}

/// Outcome at one subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Delivered,
    Missed,
    Removed,
}

/// Travels with a kept message; dropped with the message, it counts it as missed.
#[derive(Debug)]
pub(super) struct Ticket {
    receipt: Option<Arc<Receipt>>,
}

impl Receipt {
    pub(super) fn new() -> (Arc<Self>, Completion<Published>) {
        let (completer, completion) = turnwheel_runtime::completion::completion();
        let state = Mutex::new(State { published: Published::default(), open: 1 });
        (Arc::new(Self { state, completer }), completion)
    }

    pub(super) fn ticket(self: &Arc<Self>) -> Ticket {
        self.state.lock().open += 1;
        Ticket { receipt: Some(Arc::clone(self)) }
    }

    /// The message was sent to all subscribers; these are the outcomes without kept copies.
    pub(super) fn published(&self, at_once: Published) {
        self.hand_in(|published| {
            published.delivered += at_once.delivered;
            published.deferred += at_once.deferred;
            published.rejected += at_once.rejected;
            published.removed += at_once.removed;
        });
    }

    fn hand_in(&self, note: impl FnOnce(&mut Published)) {
        let published = {
            let mut state = self.state.lock();
            note(&mut state.published);
            state.open -= 1;
            if state.open > 0 {
                return;
            }
            state.published
        };
        // The publisher may wait no longer.
        let _ = self.completer.complete(published);
    }
}

impl Ticket {
    pub(super) fn settle(mut self, settled: Settled) {
        self.hand_in(settled);
    }

    fn hand_in(&mut self, settled: Settled) {
        let Some(receipt) = self.receipt.take() else { return };
        receipt.hand_in(|published| match settled {
            Settled::Delivered => published.delivered += 1,
            Settled::Missed => published.rejected += 1,
            Settled::Removed => published.removed += 1,
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.hand_in(Settled::Missed);
    }
}
