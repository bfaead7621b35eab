//! Errors of PostgreSQL as errors of stores, with what to do about them.

use std::error::Error as _;

use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::Error;
use turnwheel_engine::StoreError;

/// State codes of our functions: see `sql/functions_1.sql`.
const FENCED: &str = "TW001";
const OTHER_CONNECTION: &str = "TW002";
const DAMAGED: &str = "TW004";
const IN_USE: &str = "TW005";

/// Why a statement has no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection is lost: the statement was carried out or not.
    Lost(String),
    /// It was not carried out, and may be tried again at once.
    Again(String),
    /// The server has refused it.
    Refused(StoreError),
    /// The writer's epoch is over; this is the newest one.
    Fenced(u64),
    /// Another process has the store for itself, until this time if it does not renew it.
    InUse { holder: String, until: String },
}

impl Trouble {
    /// As an error of the store with this name.
    pub(crate) fn told(self, store: &str, epoch: u64) -> StoreError {
        match self {
            Self::Lost(problem) => StoreError::Failed(format!(
                "{store}: the connection is lost, and is opened again: {problem}"
            )),
            Self::Again(problem) => StoreError::Failed(format!("{store}: {problem}")),
            Self::Refused(StoreError::Failed(problem)) => {
                StoreError::Failed(format!("{store}: {problem}"))
            }
            Self::Refused(error) => error,
            Self::InUse { holder, .. } => StoreError::InUse { store: store.to_owned(), holder },
            Self::Fenced(newest) => StoreError::Fenced { epoch, newest },
        }
    }
}

/// The meaning of the error of a statement.
pub(crate) fn trouble(error: &Error) -> Trouble {
    let Some(problem) = error.as_db_error() else {
        // Values that cannot be sent never leave this process; the rest is of the connection.
        return if error.is_closed() || is_of_connection(error) {
            Trouble::Lost(text(error))
        } else {
            Trouble::Refused(StoreError::Failed(text(error)))
        };
    };
    let detail = || problem.detail().and_then(|detail| detail.parse().ok()).unwrap_or_default();
    let code = problem.code();
    match code.code() {
        FENCED => return Trouble::Fenced(detail()),
        OTHER_CONNECTION => return Trouble::Lost(problem.message().to_owned()),
        IN_USE => {
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            return Trouble::InUse { holder: text(problem.detail()), until: text(problem.hint()) };
        }
        DAMAGED => {
            return Trouble::Refused(StoreError::Corrupt(format!(
                "{}: nothing was written; put them back from a backup of the schema",
                problem.message()
            )));
        }
        _ => {}
    }
    if is_lost(code) {
        return Trouble::Lost(problem.message().to_owned());
    }
    if is_passing(code) {
        return Trouble::Again(said(problem));
    }
    Trouble::Refused(refusal(problem))
}

fn is_of_connection(error: &Error) -> bool {
    error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// The backend is gone, or goes.
fn is_lost(code: &SqlState) -> bool {
    let gone = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    code.code().starts_with("08") || code.code() == "57P05" || gone.contains(code)
}

/// The transaction was rolled back because of others.
fn is_passing(code: &SqlState) -> bool {
    let passing = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::NO_DATA_FOUND,
    ];
    passing.contains(code)
}

fn refusal(problem: &DbError) -> StoreError {
    let code = problem.code();
    let text = said(problem);
    if *code == SqlState::DISK_FULL {
        return StoreError::Full(format!("the disk of the database: {text}"));
    }
    if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) {
        return StoreError::Corrupt(text);
    }
    if problem.message().ends_with("no encryption") {
        return StoreError::Failed(format!(
            "{text}: the server wants encrypted connections, or has no line for this user in \
             pg_hba.conf: say sslmode=require in the URL"
        ));
    }
    let missing =
        [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_FUNCTION, SqlState::INVALID_SCHEMA_NAME];
    StoreError::Failed(match advice(code) {
        Some(advice) => format!("{text}: {advice}"),
        None if missing.contains(code) => format!(
            "{text}: the schema is no store of Turnwheel, or no world has opened it yet; \
             «turnwheel store migrate» makes its tables"
        ),
        None => format!("{text} (SQLSTATE {})", code.code()),
    })
}

/// The remedy for an error of the server.
fn advice(code: &SqlState) -> Option<&'static str> {
    let passwords = [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION];
    Some(match code {
        code if passwords.contains(code) => {
            "check the user and the password in the URL (or PGPASSWORD), and the line for them in \
             pg_hba.conf"
        }
        code if *code == SqlState::INVALID_CATALOG_NAME => {
            "make it first, for example with «createdb», or name another one in the URL"
        }
        code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            "this server or this user takes no writes: name the primary in the URL, or all servers \
             with target_session_attrs=read-write; on a primary, turn \
             default_transaction_read_only off for the user and the database"
        }
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            "the user needs CREATE on the database, or a schema of its own: GRANT CREATE ON \
             DATABASE … TO …"
        }
        code if *code == SqlState::TOO_MANY_CONNECTIONS => {
            "a node takes about five connections: raise max_connections, or put a pooler in \
             between and add pooler=transaction to the URL"
        }
        code if *code == SqlState::QUERY_CANCELED => {
            "the statement took longer than statement_timeout of this user or database"
        }
        _ => return None,
    })
}

/// The message of the server with its detail and its hint.
fn said(problem: &DbError) -> String {
    let mut text = problem.message().to_owned();
    for more in [problem.detail(), problem.hint()].into_iter().flatten() {
        text.push_str("; ");
        text.push_str(more);
    }
    text
}

/// An error with its causes.
fn text(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

/// Why no connection was made.
pub(crate) fn unconnected(error: &Error) -> Trouble {
    if let Some(problem) = error.as_db_error() {
        if problem.message().starts_with("unsupported startup parameter") {
            return Trouble::Refused(StoreError::Failed(format!(
                "{}: a pooler is in between; add pooler=transaction to the URL",
                problem.message()
            )));
        }
        let trouble = trouble(error);
        let is_starting = *problem.code() == SqlState::CANNOT_CONNECT_NOW;
        return match trouble {
            Trouble::Lost(text) if is_starting => Trouble::Lost(format!("not ready yet: {text}")),
            trouble => trouble,
        };
    }
    let text = text(error);
    if text.contains("does not allow writes") {
        return Trouble::Refused(StoreError::Failed(format!(
            "{text}: none of the servers of the URL is the primary"
        )));
    }
    if text.contains("server does not support TLS") {
        return Trouble::Refused(StoreError::Failed(format!(
            "{text}: turn it on there (ssl = on in postgresql.conf, with a certificate), or decide \
             by sslmode=prefer in the URL that nothing is encrypted"
        )));
    }
    if text.contains("certificate") || text.contains("TLS") {
        return Trouble::Refused(StoreError::Failed(format!(
            "{text}: name the authority of the server's certificate by sslrootcert=FILE in the \
             URL, or decide by sslmode=prefer that it is not checked"
        )));
    }
    if text.contains("password") {
        return Trouble::Refused(StoreError::Failed(format!(
            "{text}: give it in the URL or in PGPASSWORD"
        )));
    }
    Trouble::Lost(format!(
        "no server is reached: {text}. Check that PostgreSQL runs, the host and the port of the \
         URL, and listen_addresses in postgresql.conf"
    ))
}
