//! Steps that write to the world's own file.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use serde::Serialize;
use turnwheel_runtime::completion::{block_on, completion};

use super::{Action, StepContext};
use crate::error::ActionError;
use crate::payload::Payload;
use crate::store::{Change, Hold, Verdict, Work, Worked};
use crate::world::Shared;

/// A piece of work of a step in the world's own file, until it is durable: a future on any executor, or
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
    /// Those of [`StepContext::transaction`].
    pub fn wait(self) -> Result<T, ActionError> {
        block_on(self).unwrap_or_else(|failure| Err(ActionError::new("transaction", failure)))
    }
}

impl<A: Action> StepContext<A> {
    /// Changes tables of yours in the world's own SQLite file, **once for this step and name**: the
    /// code's changes and its return value become durable together, in a commit that is shared with
    /// other plans. When the step is called again, after a crash or a failure, the code does not
    /// run again: the stored value is returned. This also holds after a reset of the step.
    ///
    /// The code runs inside a savepoint, which is rolled back if it fails or panics, and it may be
    /// called more than once before it is durable. All plans wait while it runs, so it must be
    /// short and do nothing but SQL: code that takes more than
    /// [`WORK_SHARED_OPS`](crate::limits::WORK_SHARED_OPS) instructions of SQLite is rolled back
    /// and gets a commit of its own, and is stopped there after
    /// [`WORK_ALONE_OPS`](crate::limits::WORK_ALONE_OPS). It may create tables, whose names must
    /// not begin with `turnwheel_`; it may read the store's own tables but not change them, and it
    /// cannot end the transaction.
    ///
    /// Cost: a commit; also, the statements of the store are prepared again (some microseconds).
    ///
    /// # Errors
    ///
    /// That of the code; `transaction_too_long`; `transaction_unsupported` if the store is not a
    /// [`SqliteStore`](crate::SqliteStore); `transaction` if the store failed. Its return value
    /// cannot be written as JSON, or not be read as this type.
    ///
    /// # Example
    ///
    /// ```
    /// use turnwheel_engine::{Action, ActionError, Next, Run, Runs, SqliteStore, StepContext, World};
    ///
    /// struct Book;
    /// impl Action for Book {
    ///     const NAME: &'static str = "book";
    ///     type Input = i64;
    ///     type Output = i64;
    ///     type Phases = Runs;
    /// }
    /// impl Run for Book {
    ///     fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
    ///         let cents = step.input;
    ///         let booked = step.transaction("book", move |db| {
    ///             db.execute_batch("CREATE TABLE IF NOT EXISTS bookings (cents INTEGER)")?;
    ///             db.execute("INSERT INTO bookings VALUES (?1)", [cents])?;
    ///             Ok(db.query_row("SELECT sum(cents) FROM bookings", [], |row| row.get(0))?)
    ///         });
    ///         step.output = booked.wait()?;
    ///         Ok(Next::Done)
    ///     }
    /// }
    ///
    /// let folder = tempfile::tempdir()?;
    /// let store = SqliteStore::new(folder.path().join("plans.db"));
    /// let world = World::builder().action(Book).build(store)?;
    /// let view = world.trigger::<Book>(1_995).wait()?.finished().wait()?;
    /// assert_eq!(view.output::<Book>()?, 1_995);
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transaction<T>(
        &self,
        name: impl Into<String>,
        work: impl Fn(&Connection) -> Result<T, ActionError> + Send + Sync + 'static,
    ) -> Transacting<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let code = move |connection: &Connection| {
            let returned = Payload::of(&work(connection)?);
            returned.map_err(|error| error.of("what the SQL returned", A::NAME))
        };
        let work = Work {
            plan: self.facts.plan,
            step: self.facts.step,
            name: match self.facts.run {
                1 => name.into(),
                run => format!("run {run}/{}", name.into()),
            },
            is_alone: false,
            code: Arc::new(code),
        };
        let world = Weak::clone(&self.facts.world);
        let done = async move { Ok(done(world, work).await?.read::<T>()?) };
        Transacting { state: Mutex::new(Box::pin(done)) }
    }
}

/// Hands work to the journal: once more, for a commit of its own, if it is too slow for a shared one.
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
        world.journal().change(Change::Under { hold, change }, ticket);
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
                let message = "the store of this world has no SQL: it needs a SqliteStore";
                return Err(ActionError::new("transaction_unsupported", message).and_final());
            }
        }
    }
}
