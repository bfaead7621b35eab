//! Requests for the world that has a slot, whichever that is by then.

use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::hub::{within, Hub, Patience};
use crate::connect::{Answer, ConnectError, Request};
use crate::id::PlanId;
use crate::limits::{REQUEST_AGAIN, REQUEST_AGAIN_MAX};
use crate::store::{slot_of, Owner, Worlds};

impl Hub {
    /// Asks the world that owns a plan, whichever that is by then.
    pub(crate) async fn reach(
        self: Arc<Self>,
        from: u64,
        plan: PlanId,
        request: Request,
        patience: Patience,
    ) -> Result<Answer, ConnectError> {
        let asked = self.reach_owner(from, plan, request, patience);
        match patience.limit {
            None => asked.await,
            Some(limit) => within(&self.group, limit, asked).await,
        }
    }

    async fn reach_owner(
        &self,
        from: u64,
        plan: PlanId,
        request: Request,
        patience: Patience,
    ) -> Result<Answer, ConnectError> {
        let what = || format!("plan {plan}");
        self.reach_slot(from, slot_of(plan), what, request, patience).await
    }

    /// Asks the world that has a slot, whichever that is by then.
    pub(crate) async fn reach_slot(
        &self,
        from: u64,
        slot: usize,
        what: impl Fn() -> String,
        request: Request,
        patience: Patience,
    ) -> Result<Answer, ConnectError> {
        let doubt = Doubt::default();
        self.reach_slot_by(from, slot, what, || request.clone(), patience, &doubt).await
    }

    /// The same, with a request that each attempt makes anew. With an answer, the doubt is whether
    /// an earlier attempt may have been done; with an error, whether any may have been.
    pub(crate) async fn reach_slot_by(
        &self,
        from: u64,
        slot: usize,
        what: impl Fn() -> String,
        request: impl Fn() -> Request,
        patience: Patience,
        doubt: &Doubt,
    ) -> Result<Answer, ConnectError> {
        let directory = self.journal.directory();
        let mut unheard = Unheard::default();
        let mut pause = REQUEST_AGAIN;
        loop {
            let changed = directory.changed();
            let owner = directory.now().owners()[slot];
            let to = owner.world;
            if to == 0 {
                if !patience.waits {
                    return Err(ConnectError::NoExecutor { what: what() });
                }
                let _changed = changed.await;
                continue;
            }
            // The owner may have been taken for dead, and be there again without the request.
            let has_lost = |worlds: &Worlds| {
                let is_other = patience.repeats && worlds.owners()[slot] != owner;
                is_other || worlds.find(to).is_none()
            };
            let was_open = doubt.open();
            let outcome = self.call_unless(from, to, request(), has_lost).await;
            match outcome {
                Ok(answer) if answer.is_moved() => doubt.settle(was_open),
                // It has joined a moment ago, or is about to go.
                Err(ConnectError::Unknown { .. }) => {
                    doubt.settle(was_open);
                    self.is_unheard(to, &mut unheard)?;
                }
                Err(ConnectError::Ending { .. }) => {
                    doubt.settle(was_open);
                    // There is no next owner, and the end may wait for the caller.
                    if to == from && !self.has_heirs(from) {
                        return Err(ConnectError::NoExecutor { what: what() });
                    }
                }
                Err(ConnectError::Gone { .. }) if patience.repeats => {}
                // An answer says what this request has done, and nothing of those before it.
                outcome @ (Ok(_) | Err(ConnectError::Refused(_))) => {
                    doubt.settle(was_open);
                    return outcome;
                }
                outcome => return outcome,
            }
            if directory.now().owners()[slot] == owner {
                self.until_moved(slot, owner, pause).await;
                pause = (2 * pause).min(REQUEST_AGAIN_MAX);
            } else {
                pause = REQUEST_AGAIN;
            }
        }
    }

    /// Waits until a slot has another owner than this one, at most for a time.
    async fn until_moved(&self, slot: usize, owner: Owner, limit: Duration) {
        let directory = self.journal.directory();
        let (mut limit, mut changed) = (self.group.sleep(limit), directory.changed());
        poll_fn(|cx| loop {
            // Looked at after `changed` was asked for, so that no change is missed.
            let has_moved = directory.now().owners()[slot] != owner;
            if has_moved || Pin::new(&mut limit).poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if Pin::new(&mut changed).poll(cx).is_pending() {
                return Poll::Pending;
            }
            changed = directory.changed();
        })
        .await;
    }
}

/// Whether a request may have been done although its answer has not come.
#[derive(Debug, Default)]
pub(crate) struct Doubt(AtomicBool);

impl Doubt {
    pub(crate) fn is_open(&self) -> bool {
        // Relaxed: one future writes it, and whoever polls that reads it.
        self.0.load(Ordering::Relaxed)
    }

    /// A request is sent. Whether an earlier one may have been done.
    fn open(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    /// The request was not done.
    fn settle(&self, was_open: bool) {
        self.0.store(was_open, Ordering::Relaxed);
    }
}

/// A world to which there was no way, and since when.
#[derive(Debug, Default)]
struct Unheard(Option<(u64, u64)>);

impl Hub {
    /// There is no way to a world. It may have joined a moment ago; that of another node that still
    /// has no way after two leases is named to the caller.
    fn is_unheard(&self, world: u64, since: &mut Unheard) -> Result<(), ConnectError> {
        let Some(lease) = self.journal.lease() else { return Ok(()) };
        let now_ns = self.group.now_ns();
        match since.0 {
            Some((known, since_ns)) if known == world => {
                let waited = Duration::from_nanos(now_ns.saturating_sub(since_ns));
                if waited < 2 * lease.length() {
                    return Ok(());
                }
                let name = self.worlds().find(world).map(|row| row.name.clone());
                Err(ConnectError::Unreachable { world, name: name.unwrap_or_default() })
            }
            _ => {
                since.0 = Some((world, now_ns));
                Ok(())
            }
        }
    }
}
