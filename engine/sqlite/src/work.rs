//! Work of steps in a commit: inside a savepoint, with a limit, and without a way to our own
//! tables.

use std::collections::HashSet;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{params, Connection, OptionalExtension, Transaction};
use turnwheel_engine::internal::panic_message;
use turnwheel_engine::limits::{WORK_ALONE_OPS, WORK_SHARED_OPS};
use turnwheel_engine::store::{Work, Worked};
use turnwheel_engine::{ActionError, Payload};

use crate::schema;

const SAVEPOINT: &str = "turnwheel_work";
/// Instructions of SQLite between two looks at the limit.
const LOOK_OPS: i32 = 1_000;
/// Names that are kept for this store.
const OUR_PREFIX: &str = "turnwheel_";

/// The outcome, if the transaction goes on; nothing if SQLite has rolled all of it back
/// because the work was stopped at its limit.
pub(super) fn perform(
    transaction: &Transaction<'_>,
    work: &Work,
) -> rusqlite::Result<Option<Worked>> {
    let of = params![work.plan.to_bytes(), work.step.0, work.name];
    let read = "SELECT returned FROM turnwheel_works WHERE plan = ?1 AND step = ?2 AND name = ?3";
    let known: Option<String> =
        transaction.prepare_cached(read)?.query_row(of, |row| row.get(0)).optional()?;
    if let Some(known) = known {
        return Ok(Some(match Payload::from_json(&known) {
            Ok(returned) => Worked::Done(returned),
            Err(error) => Worked::Failed(ActionError::from(error)),
        }));
    }
    transaction.execute_batch(&format!("SAVEPOINT {SAVEPOINT}"))?;
    let limit = if work.is_alone { WORK_ALONE_OPS } else { WORK_SHARED_OPS };
    let guard = Guard::new(transaction, limit);
    let connection: &Connection = transaction;
    let returned = catch_unwind(AssertUnwindSafe(|| (work.code)(connection)));
    let is_over = guard.is_over();
    drop(guard);
    if transaction.is_autocommit() {
        // It was stopped while it wrote, or the disk is full: everything is rolled back.
        return if is_over { Ok(None) } else { Err(rolled_back()) };
    }
    let returned = match returned {
        _ if is_over => Err(too_long(work)),
        Ok(Some(returned)) => returned,
        Ok(None) => {
            transaction.execute_batch(&format!("ROLLBACK TO {SAVEPOINT}; RELEASE {SAVEPOINT}"))?;
            return Ok(Some(Worked::Unsupported));
        }
        Err(panic) => Err(ActionError::new("panic", panic_message(panic))),
    };
    match returned {
        Ok(returned) => {
            transaction.execute_batch(&format!("RELEASE {SAVEPOINT}"))?;
            let write = "INSERT INTO turnwheel_works (plan, step, name, returned)
                 VALUES (?1, ?2, ?3, ?4)";
            let values = params![work.plan.to_bytes(), work.step.0, work.name, returned.as_str()];
            transaction.prepare_cached(write)?.execute(values)?;
            Ok(Some(Worked::Done(returned)))
        }
        Err(error) => {
            transaction.execute_batch(&format!("ROLLBACK TO {SAVEPOINT}; RELEASE {SAVEPOINT}"))?;
            Ok(Some(if is_over && !work.is_alone { Worked::Slow } else { Worked::Failed(error) }))
        }
    }
}

/// What is said of work that was stopped.
pub(super) fn stopped(work: &Work) -> Worked {
    if work.is_alone {
        Worked::Failed(too_long(work))
    } else {
        Worked::Slow
    }
}

fn too_long(work: &Work) -> ActionError {
    let Work { name, step, .. } = work;
    let message = format!(
        "the transaction «{name}» of step {step} was stopped after {WORK_ALONE_OPS} instructions of \
         SQLite, because all plans wait for it: make it smaller, or give it an index"
    );
    ActionError::new("transaction_too_long", message).and_final()
}

fn rolled_back() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT);
    rusqlite::Error::SqliteFailure(code, Some("a step's work has ended the transaction".to_owned()))
}

/// Counts what is done, and refuses what would end the commit or change our tables. It changes how
/// statements are prepared, so that those of the store are prepared anew after it.
struct Guard<'a> {
    connection: &'a Connection,
    done: Arc<AtomicU64>,
    limit: u64,
}

impl<'a> Guard<'a> {
    fn new(connection: &'a Connection, limit: u64) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&done);
        let count = move || {
            let ops = u64::from(LOOK_OPS.unsigned_abs());
            counted.fetch_add(ops, Ordering::Relaxed) + ops > limit
        };
        connection.progress_handler(LOOK_OPS, Some(count));
        connection.authorizer(Some(|context: AuthContext<'_>| allows(&context.action)));
        Self { connection, done, limit }
    }

    fn is_over(&self) -> bool {
        self.done.load(Ordering::Relaxed) > self.limit
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.connection.progress_handler(0, None::<fn() -> bool>);
        self.connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>);
    }
}

/// Whether a table, an index or a trigger belongs to the store: work reads them at will, and
/// changes none.
fn is_ours(name: &str) -> bool {
    static OBJECTS: OnceLock<HashSet<&str>> = OnceLock::new();
    let name = name.to_ascii_lowercase();
    name.starts_with(OUR_PREFIX) || OBJECTS.get_or_init(schema::objects).contains(&*name)
}

/// What the code of a step may do: everything with the user's own schema, nothing that changes the
/// store's or ends the commit.
fn allows(action: &AuthAction<'_>) -> Authorization {
    let is_refused = match action {
        AuthAction::Transaction { .. }
        | AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Pragma { pragma_value: Some(_), .. } => true,
        AuthAction::Savepoint { savepoint_name, .. } => *savepoint_name == SAVEPOINT,
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::DropTable { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::Analyze { table_name }
        // A temporary one of the same name would stand for ours.
        | AuthAction::CreateTable { table_name }
        | AuthAction::CreateTempTable { table_name }
        | AuthAction::CreateVtable { table_name, .. }
        | AuthAction::DropVtable { table_name, .. } => is_ours(table_name),
        AuthAction::CreateView { view_name }
        | AuthAction::CreateTempView { view_name }
        | AuthAction::DropView { view_name }
        | AuthAction::DropTempView { view_name } => is_ours(view_name),
        AuthAction::CreateIndex { index_name, table_name }
        | AuthAction::CreateTempIndex { index_name, table_name }
        | AuthAction::DropIndex { index_name, table_name } => {
            is_ours(index_name) || is_ours(table_name)
        }
        AuthAction::Reindex { index_name } => is_ours(index_name),
        AuthAction::CreateTrigger { trigger_name, table_name }
        | AuthAction::CreateTempTrigger { trigger_name, table_name }
        | AuthAction::DropTrigger { trigger_name, table_name } => {
            is_ours(trigger_name) || is_ours(table_name)
        }
        _ => false,
    };
    if is_refused {
        Authorization::Deny
    } else {
        Authorization::Allow
    }
}
