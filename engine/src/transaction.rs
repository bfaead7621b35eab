//! Transactions of the host's own database around planning and finalizing.

use crate::error::ActionError;

/// Opens transactions of the host's database, for a world: one around the planning of each plan, all its
/// actions together, and one around the whole finalize phase.
///
/// What the engine stores itself is not part of it: a plan whose planning failed is there with its
/// error, though what it had written to the host's database is not. After a crash between the commit
/// and the engine's own entry the finalize phase is called again, so it must be idempotent.
pub trait TransactionAdapter: Send + Sync + 'static {
    /// Begins a transaction, calls `work` once in this thread, and commits if that ended well; else it
    /// rolls back and gives the same error. A panic of an action is an error here. Actions may open
    /// transactions of their own inside.
    ///
    /// # Errors
    ///
    /// That of the work, or of the commit: the planning or the last finalize step has failed by it.
    fn transaction(
        &self,
        work: &mut dyn FnMut() -> Result<(), ActionError>,
    ) -> Result<(), ActionError>;
}
