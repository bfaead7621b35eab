//! The store taken by one process: a lease by the clock of the database, renewed beside the writer.
//!
//! It keeps other processes from taking the store of one that runs. Safety does not depend on it:
//! when another process takes the store, the row of the former writer goes, and its writes are
//! refused.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::error::Trouble;
use crate::session::{Session, Shared};
use crate::wait::pause;

pub(crate) const LEASE: Duration = Duration::from_secs(10);
const RENEWED: Duration = Duration::from_millis(2_500);
/// Between two looks at the lease of a process that may be gone.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn lease_us() -> i64 {
    LEASE.as_micros() as i64
}

/// This process in the words of an error.
pub(crate) fn said() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty());
    format!("process {} on {}", std::process::id(), host.unwrap_or("this machine"))
}

/// The lease of a store in this process, if a writer has the store for itself.
pub(crate) type OwnLease = Mutex<Weak<Holding>>;

/// The lease, renewed from now on.
pub(crate) fn hold(shared: &Arc<Shared>, held: &OwnLease) -> Arc<Holding> {
    let mut held = held.lock();
    held.upgrade().unwrap_or_else(|| {
        let holding = Arc::new(Holding::new(shared));
        *held = Arc::downgrade(&holding);
        holding
    })
}

/// Held by the writers that have the store for themselves.
pub(crate) struct Holding {
    shared: Arc<Shared>,
    renewing: tokio::task::JoinHandle<()>,
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").finish_non_exhaustive()
    }
}

impl Holding {
    /// Renews the lease from now on.
    fn new(shared: &Arc<Shared>) -> Self {
        let sql = shared.sql("SELECT tw.keep_1($1, NULL, $2)");
        let (instance, connecting) = (shared.instance, shared.connecting());
        let renewing = shared.driver.spawn(async move {
            let mut client = None;
            loop {
                tokio::time::sleep(RENEWED).await;
                if client.is_none() {
                    client = connecting.connect().await.ok();
                }
                let Some(open) = &client else { continue };
                if !renew(open, &sql, instance).await {
                    client = None;
                }
            }
        });
        Self { shared: Arc::clone(shared), renewing }
    }
}

/// Whether the connection can be used again.
async fn renew(client: &tokio_postgres::Client, sql: &str, instance: Uuid) -> bool {
    let lease = lease_us();
    let values: [(&(dyn ToSql + Sync), Type); 2] = [(&instance, Type::UUID), (&lease, Type::INT8)];
    match tokio::time::timeout(LEASE, client.query_typed(sql, &values)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            tracing::debug!(%error, "the lease of the store is not renewed");
            !client.is_closed()
        }
        Err(_) => false,
    }
}

impl Drop for Holding {
    /// Gives the store back. If that fails, the next process waits for the end of the lease.
    fn drop(&mut self) {
        self.renewing.abort();
        let mut session = Session::new(Arc::clone(&self.shared));
        session.limit_to(RENEWED);
        let sql = self.shared.sql("DELETE FROM tw.holder WHERE instance = $1");
        let instance = self.shared.instance;
        let given = session.connect().and_then(|()| session.ask(&sql, &[(&instance, Type::UUID)]));
        if let Err(trouble) = given {
            tracing::debug!(?trouble, "the lease of the store ends by itself");
        }
    }
}

/// Opens, and waits for the end of a lease that is not renewed.
pub(crate) fn opened<T>(mut open: impl FnMut() -> Result<T, Trouble>) -> Result<T, Trouble> {
    let mut first = None;
    let looks = LEASE.as_millis() / LOOK.as_millis() + 2;
    for _ in 0..looks {
        match open() {
            Err(Trouble::InUse { holder, until }) => {
                if first.get_or_insert_with(|| until.clone()) != &until {
                    return Err(Trouble::InUse { holder, until });
                }
            }
            opened => return opened,
        }
        pause(LOOK);
    }
    open()
}
