//! The children of an actor: they end with it, the youngest first.

use std::time::Duration;

use turnwheel_runtime::{AnyTask, Group};

use super::drain::end_within;
use crate::actor::{Actor, Address, Context};
use crate::error::SpawnError;
use crate::system::upkeep::submit_own;

/// Time that a closing parent gives a child for its queued messages: long for a mailbox, short
/// enough for an operator who waits for a shutdown.
pub const CHILD_CLOSE_LIMIT_DEFAULT: Duration = Duration::from_secs(5);

/// Number of children from which on ended ones are removed from the list.
const SWEEP_FROM: usize = 16;

/// Children in the order of their making. Dropped, it stops them, the youngest first.
#[derive(Debug)]
pub(crate) struct Children {
    list: Vec<(AnyTask, Duration)>,
    sweep_at: usize,
}

default_value!(Children => Self { list: Vec::new(), sweep_at: SWEEP_FROM });

impl Children {
    pub(crate) fn add(&mut self, task: AnyTask, limit: Duration) {
        if self.list.len() >= self.sweep_at {
            self.list.retain(|(child, _)| !child.phase().is_over());
            self.sweep_at = SWEEP_FROM.max(self.list.len() * 2);
        }
        self.list.push((task, limit));
    }

    /// Takes others in place of these, without ending anyone.
    pub(crate) fn replace(&mut self, list: Vec<(AnyTask, Duration)>) {
        self.list = list;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Closes all, one after the other, the youngest first.
    pub(crate) async fn close(mut self, group: Group) {
        while let Some((child, limit)) = self.list.last().cloned() {
            // Still in the list: if this future is dropped half-way, the remaining children are
            // stopped.
            end_within(&child, limit, &group).await;
            self.list.pop();
        }
    }

    /// Closes all children without a waiter.
    pub(crate) fn close_alone(self, group: &Group) {
        if self.is_empty() {
            return;
        }
        let worker = group.clone();
        // In a group that takes no more tasks they are stopped by the drop.
        if let Ok(task) = group.task(()).name("children").spawn() {
            let close = move |(): &mut (), cx: &mut turnwheel_runtime::Context<'_, ()>| {
                cx.await_holding(self.close(worker), |(), _, ()| {});
            };
            let _ = submit_own(&task, close);
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for (child, _) in self.list.drain(..).rev() {
            child.stop().detach();
        }
    }
}

impl<A: Actor> Context<'_, A> {
    /// Spawns an actor that ends with this one: closed in order before this one's
    /// [`closing`](Actor::closing), the youngest child first, each within
    /// [`CHILD_CLOSE_LIMIT_DEFAULT`]. A fresh start of this actor ends the children of the former.
    ///
    /// The end of a child does not end the parent; see [`Context::watch`].
    ///
    /// # Errors
    ///
    /// As [`System::spawn`](crate::System::spawn).
    pub fn spawn_child<C: Actor>(&mut self, child: C) -> Result<Address<C>, SpawnError<C>> {
        let child = self.system().spawn(child)?;
        self.adopt(&child, CHILD_CLOSE_LIMIT_DEFAULT);
        Ok(child)
    }

    /// Makes an actor a child of this one, as [`Context::spawn_child`] does, with its own limit for
    /// queued messages at the close. An actor has at most one parent: adopt it once.
    pub fn adopt<C: Actor>(&mut self, child: &Address<C>, limit: Duration) {
        self.children().add(child.task.erased(), limit);
    }
}
