//! Steps that write to the store itself.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::Serialize;
use turnwheel_runtime::completion::{block_on, completion};

use super::{Action, StepContext};
use crate::error::ActionError;
use crate::journal::Urgency;
use crate::payload::Payload;
use crate::store::{Change, Hold, Verdict, Work, Worked};
use crate::world::Shared;

/// A piece of work of a step in the store itself, until it is durable: a future on any executor, or
/// [`wait`](Self::wait) in code that may block.
#[must_use = "whether it is done is not known before it has ended"]
pub struct Transacting<T> {
    /// The lock is for `Sync` alone, and is never taken.
    state: Mutex<Pin<Box<Outcome<T>>>>,
}

type Outcome<T> = dyn Future<Output = Result<T, ActionError>> + Send;

impl<T> fmt::Debug for Transacting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transacting").finish_non_exhaustive()
    }
}

impl<T> Future for Transacting<T> {
    type Output = Result<T, ActionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.state.get_mut().as_mut().poll(cx)
    }
}

impl<T> Transacting<T> {
    /// Waits until it is durable, blocking the thread: for [`Run`](crate::Run) and
    /// [`Finalize`](crate::Finalize), not for workers.
    ///
    /// # Errors
    ///
    /// That of the code; `transaction_unsupported` if the store runs no such code; `transaction` if
    /// it failed.
    pub fn wait(self) -> Result<T, ActionError> {
        block_on(self).unwrap_or_else(|failure| Err(ActionError::new("transaction", failure)))
    }
}

/// Starts work of a step in the store itself, once for the step and name: the store calls the code
/// with its connection in a commit, and keeps what it returned.
pub fn transact<A: Action, T>(
    step: &StepContext<A>,
    name: impl Into<String>,
    code: impl Fn(&dyn Any) -> Option<Result<T, ActionError>> + Send + Sync + 'static,
) -> Transacting<T>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let code = move |connection: &dyn Any| {
        let returned = code(connection)?;
        let written = |returned: T| {
            let returned = Payload::of(&returned);
            returned.map_err(|error| error.of("what the SQL returned", A::NAME))
        };
        Some(returned.and_then(written))
    };
    let work = Work {
        plan: step.facts.plan,
        step: step.facts.step,
        name: match step.facts.run {
            1 => name.into(),
            run => format!("run {run}/{}", name.into()),
        },
        is_alone: false,
        code: Arc::new(code),
    };
    let world = Weak::clone(&step.facts.world);
    let done = async move { Ok(done(world, work).await?.read::<T>()?) };
    Transacting { state: Mutex::new(Box::pin(done)) }
}

/// Hands work to the journal: once more, for a commit of its own, if it is too slow for a shared
/// one.
async fn done(world: Weak<Shared>, mut work: Work) -> Result<Payload, ActionError> {
    let mut held = None;
    loop {
        let Some(world) = world.upgrade() else {
            return Err(ActionError::new("transaction", "the world has ended"));
        };
        let (told, verdict) = completion();
        let ticket = Box::new(move |verdict| {
            // The caller may have given up; the work is durable all the same.
            let _gone = told.complete(verdict);
        });
        let epoch = world.journal().directory().held(world.epoch(), work.plan);
        let hold = Hold::of(work.plan, *held.get_or_insert(epoch));
        let change = Box::new(Change::Work(work.clone()));
        world.journal().change(Change::Under { hold, change }, Urgency::Next, ticket);
        drop(world);
        let failed = |error: &dyn fmt::Display| ActionError::new("transaction", error);
        let verdict = verdict.await.map_err(|failure| failed(&failure))?;
        match verdict.map_err(|error| failed(&error))? {
            Verdict::Worked(Worked::Done(returned)) => return Ok(returned),
            Verdict::Worked(Worked::Failed(error)) => return Err(error),
            Verdict::Worked(Worked::Slow) => work.is_alone = true,
            Verdict::Moved { owner, .. } => {
                let message = format!("the plan has moved to world {owner}, which runs the step");
                return Err(ActionError::new("transaction", message));
            }
            _ => {
                let message =
                    "the store of this world does not run code of steps: it needs a SqliteStore";
                return Err(ActionError::new("transaction_unsupported", message).and_final());
            }
        }
    }
}
