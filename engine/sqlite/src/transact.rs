//! Steps that write to the world's own file.

use rusqlite::Connection;
use serde::de::DeserializeOwned;
use serde::Serialize;
use turnwheel_engine::action::Transacting;
use turnwheel_engine::internal::transact;
use turnwheel_engine::{Action, ActionError, StepContext};

/// SQL of steps in the world's own file.
pub trait Transact {
    /// Changes tables of yours in the world's own SQLite file, **once for this step and name**: the
    /// code's changes and its return value become durable together, in a commit that is shared with
    /// other plans. When the step is called again, after a crash or a failure, the code does not
    /// run again: the stored value is returned. This also holds after a reset of the step.
    ///
    /// The code runs inside a savepoint, which is rolled back if it fails or panics, and it may be
    /// called more than once before it is durable. All plans wait while it runs, so it must be
    /// short and do nothing but SQL: code that takes more than
    /// [`WORK_SHARED_OPS`](turnwheel_engine::limits::WORK_SHARED_OPS) instructions of SQLite is
    /// rolled back and gets a commit of its own, and is stopped there after
    /// [`WORK_ALONE_OPS`](turnwheel_engine::limits::WORK_ALONE_OPS). It may create tables, whose
    /// names must not begin with `turnwheel_`; it may read the store's own tables but not change
    /// them, and it cannot end the transaction.
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
    /// use turnwheel_engine::{Action, ActionError, Next, Run, Runs, StepContext, World};
    /// use turnwheel_sqlite::{SqliteStore, Transact};
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
    fn transaction<T>(
        &self,
        name: impl Into<String>,
        work: impl Fn(&Connection) -> Result<T, ActionError> + Send + Sync + 'static,
    ) -> Transacting<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static;
}

impl<A: Action> Transact for StepContext<A> {
    fn transaction<T>(
        &self,
        name: impl Into<String>,
        work: impl Fn(&Connection) -> Result<T, ActionError> + Send + Sync + 'static,
    ) -> Transacting<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        transact(self, name, move |connection| connection.downcast_ref().map(&work))
    }
}
