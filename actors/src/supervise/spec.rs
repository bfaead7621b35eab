//! Description of a child: its name, how it is made, when it is restarted.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{AnyTask, Completion, Failure};

use crate::actor::{Actor, Address, Exit, WeakAddress, CHILD_CLOSE_LIMIT_DEFAULT};
use crate::error::SpawnError;
use crate::system::System;

/// The ends after which a child is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartKind {
    /// After every end.
    Permanent,
    /// After a failure; a child that has closed in order stays closed.
    Transient,
    /// After none; its place is given up when it ends.
    Temporary,
}

impl RestartKind {
    pub(crate) fn restarts_after(self, exit: &Exit) -> bool {
        match self {
            Self::Permanent => true,
            Self::Transient => exit.is_failure(),
            Self::Temporary => false,
        }
    }
}

type Factory<A> = Box<dyn FnMut(&System) -> Result<Address<A>, SpawnError<A>> + Send>;

/// Describes a child of a [`Supervisor`](crate::Supervisor); permanent by default.
#[must_use]
pub struct ChildSpec<A: Actor> {
    name: String,
    kind: RestartKind,
    limit: Duration,
    factory: Factory<A>,
    current: ChildRef<A>,
}

debug_fields!(impl<A: Actor> ChildSpec<A>, self => name: self.name, kind: self.kind);

impl<A: Actor> ChildSpec<A> {
    /// A child whose actors come from `factory`, which runs in turns of the supervisor. The name
    /// identifies it among the supervisor's children.
    pub fn new(
        name: &str,
        factory: impl FnMut(&System) -> Result<Address<A>, SpawnError<A>> + Send + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            kind: RestartKind::Permanent,
            limit: CHILD_CLOSE_LIMIT_DEFAULT,
            factory: Box::new(factory),
            current: ChildRef { address: Arc::default() },
        }
    }

    setters! {
        /// The ends after which it is restarted.
        kind(self, kind: RestartKind) => self.kind = kind;

        /// Time for its queued messages when the supervisor closes it.
        close_limit(self, limit: Duration) => self.limit = limit;
    }

    /// Reference that finds the current actor of this child.
    pub fn current(&self) -> ChildRef<A> {
        self.current.clone()
    }
}

/// Finds the current actor of a child.
#[derive(Debug)]
pub struct ChildRef<A: Actor> {
    address: Arc<Mutex<Option<WeakAddress<A>>>>,
}

clone_fields!(impl<A: Actor> ChildRef<A>, address);

impl<A: Actor> ChildRef<A> {
    /// The current address; `None` while there is no actor. Keep the reference, not the address: a
    /// restart changes the address.
    pub fn get(&self) -> Option<Address<A>> {
        self.address.lock().as_ref().and_then(WeakAddress::upgrade)
    }
}

/// An actor just made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) task: AnyTask,
    pub(crate) started: Completion<()>,
}

/// A spec of any actor type.
pub(crate) trait Spec: Send {
    fn name(&self) -> &str;
    fn kind(&self) -> RestartKind;
    fn limit(&self) -> Duration;
    /// Makes an actor; a panicking factory fails.
    fn make(&mut self, system: &System) -> Result<Made, Failure>;
}

impl<A: Actor> Spec for ChildSpec<A> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> RestartKind {
        self.kind
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn make(&mut self, system: &System) -> Result<Made, Failure> {
        let address = catch_unwind(AssertUnwindSafe(|| (self.factory)(system)))
            .map_err(Failure::from_panic)?
            .map_err(|error| Failure::message(format!("it was not spawned: {:?}", error.kind)))?;
        *self.current.address.lock() = Some(address.downgrade());
        Ok(Made { task: address.task.erased(), started: address.started() })
    }
}
