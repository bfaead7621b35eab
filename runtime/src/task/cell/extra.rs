//! The optional part of a task: made at first use, so that a plain task stays small.

use std::collections::VecDeque;

use crate::completion::Completer;
use crate::failure::Failure;
use crate::group::Budget;
use crate::group::TimerKey;
use crate::subscription::{ReadyStack, Subscriptions};
use crate::sync::{Mutex, UnsafeCell};
use crate::task::lane::mail::{Mail, Queued};
use crate::task::lane::room::Room;

/// Name, subscriptions, waiters.
#[derive(Debug)]
pub(crate) struct Extra {
    /// Name of its own, else the class's is shown.
    pub(crate) name: Option<Box<str>>,
    /// Labels for logs and listings.
    pub(crate) labels: Vec<(Box<str>, Box<str>)>,
    /// Budget of its own, else the group's.
    pub(crate) budget: Option<Budget>,
    /// Jobs under a policy other than «reject».
    pub(crate) mail: Option<Mutex<Mail>>,
    /// Jobs that overtake the submitted lane. Any thread.
    pub(crate) urgent: Mutex<VecDeque<Queued>>,
    /// Subscriptions that became ready. Any thread.
    pub(crate) ready: ReadyStack,
    /// Subscriptions. The runner only.
    subscriptions: UnsafeCell<Subscriptions>,
    /// Producers that wait for room. Any thread.
    pub(crate) room: Mutex<Room>,
    /// Waiters for start and end, and the outcome. Any thread.
    pub(crate) life: Mutex<Life>,
}

/// Waiters for start and end.
#[derive(Debug, Default)]
pub(crate) struct Life {
    pub(crate) started: Vec<Completer<()>>,
    pub(crate) closed: Vec<Completer<()>>,
    /// Why the task failed, or will fail.
    pub(crate) failure: Option<Failure>,
    /// Whether the task left phase Starting without being started.
    pub(crate) is_unstarted: bool,
    /// Deadline of a closing task, and the timer that stops it then.
    pub(crate) deadline: Option<(u64, TimerKey)>,
    /// Whether a failure was requested and not yet carried out.
    pub(crate) is_fail_requested: bool,
    /// Whether the group has ended without this task: it is never run again.
    pub(crate) is_given_up: bool,
}

impl Default for Extra {
    fn default() -> Self {
        Self {
            name: None,
            labels: Vec::new(),
            budget: None,
            mail: None,
            urgent: Mutex::new(VecDeque::new()),
            ready: ReadyStack::default(),
            subscriptions: UnsafeCell::new(Subscriptions::default()),
            room: Mutex::new(Room::default()),
            life: Mutex::new(Life::default()),
        }
    }
}

// SAFETY: `subscriptions` is only touched by the runner of the task, one at a time, handed over by
// the run queue; the jobs inside are `Send`. All else is synchronised.
unsafe impl Send for Extra {}
// SAFETY: as above.
unsafe impl Sync for Extra {}

impl Extra {
    /// The subscriptions.
    ///
    /// # Safety
    ///
    /// The caller is the runner, and no other borrow of them is alive.
    #[expect(clippy::mut_from_ref, reason = "the runner has it for itself")]
    pub(crate) unsafe fn subscriptions_owner(&self) -> &mut Subscriptions {
        // SAFETY: forwarded to the caller.
        self.subscriptions.with_mut(|own| unsafe { &mut *own })
    }
}
