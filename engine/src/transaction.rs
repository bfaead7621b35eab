//! Transactions of the host's own database around planning and finalizing.

use crate::error::ActionError;

/// Opens transactions of the host's database, for a world: one around the planning of each plan,
/// with all its actions, and one around the entire finalize phase.
///
/// The engine's own records are not part of it: a plan whose planning failed is stored with its
/// error, but its changes of the host's database are not. After a crash between the commit and the
/// engine's own entry the finalize phase is called again, so it must be idempotent.
pub trait TransactionAdapter: Send + Sync + 'static {
    /// Begins a transaction, calls `work` once in this thread, and commits if it succeeded; else it
    /// rolls back and returns the same error. A panic of an action is an error here. Actions may
    /// open transactions of their own inside.
    ///
    /// # Errors
    ///
    /// That of the work, or of the commit: the planning or the last finalize step then fails with
    /// it.
    fn transaction(
        &self,
        work: &mut dyn FnMut() -> Result<(), ActionError>,
    ) -> Result<(), ActionError>;
}
