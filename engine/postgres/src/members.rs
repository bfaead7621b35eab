//! Leases of worlds, by the clock of the database, and rows between their nodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use turnwheel_engine::internal::{LETTERS, LETTER_NEWEST};
use turnwheel_engine::store::{Beat, Hint, Mail, Members};
use turnwheel_engine::StoreError;

use crate::cell::{cell, count, digest, limit, number};
use crate::session::{Session, Shared, Value};

/// Pause before the connection of hints is opened again.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// A statement about rows between nodes without an answer for so long is given up with its
/// connection.
const MAIL_LIMIT: Duration = Duration::from_secs(10);

/// Heartbeats or rows, over a connection of their own.
pub(crate) struct Heartbeats {
    session: Session,
    /// Rows that were given out and are in the table still.
    seen: Vec<i64>,
    listening: Option<JoinHandle<()>>,
    /// Whether the connection of hints is open.
    is_heard: Arc<AtomicBool>,
}

impl Heartbeats {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            session: Session::new(Arc::clone(shared)),
            seen: Vec::new(),
            listening: None,
            is_heard: Arc::default(),
        }
    }

    /// One statement, over a new connection if there is none.
    fn ask(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let sql = self.session.shared.sql(sql);
        let opened = if self.session.is_open() { Ok(()) } else { self.session.open() };
        let rows = opened.and_then(|()| self.session.ask_again(&sql, values));
        rows.map_err(|trouble| trouble.told(self.session.name(), 0))
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.listening.iter().for_each(JoinHandle::abort);
    }
}

impl Members for Heartbeats {
    fn beat(&mut self, worlds: &[u64], lease: Duration) -> Result<Beat, StoreError> {
        let worlds: Vec<i64> = worlds.iter().copied().map(number).collect();
        let lease_us = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX);
        // An answer that comes after the lease is worth nothing.
        self.session.limit_to(lease);
        let rows = self.ask(
            "SELECT version, leased, left_us, letters FROM tw.beat_1($1, $2, $3)",
            &[
                (&worlds, Type::INT8_ARRAY),
                (&lease_us, Type::INT8),
                (&digest(&[LETTERS, LETTER_NEWEST]), Type::BYTEA),
            ],
        )?;
        let row = rows.first().ok_or_else(|| StoreError::Corrupt("no heartbeat".to_owned()))?;
        let (leased, left_us): (Vec<i64>, Vec<i64>) = (cell(row, 1)?, cell(row, 2)?);
        let left = leased.into_iter().zip(left_us).map(|(world, left_us)| {
            (world.unsigned_abs(), Duration::from_micros(left_us.unsigned_abs()))
        });
        Ok(Beat { version: count(row, 0)?, left: left.collect(), letters: count(row, 3)? })
    }

    fn post(&mut self, mail: &[Mail]) -> Result<bool, StoreError> {
        let worlds: Vec<i64> = mail.iter().map(|mail| number(mail.to)).collect();
        let bytes: Vec<&[u8]> = mail.iter().map(|mail| mail.bytes.as_slice()).collect();
        let age_us = |mail: &Mail| i64::try_from(mail.age.as_micros()).unwrap_or(i64::MAX);
        let ages: Vec<i64> = mail.iter().map(age_us).collect();
        let channel = channel(&self.session.shared);
        self.session.limit_to(MAIL_LIMIT);
        self.ask(
            "SELECT tw.post_4($1, $2, $3, $4)",
            &[
                (&worlds, Type::INT8_ARRAY),
                (&bytes, Type::BYTEA_ARRAY),
                (&ages, Type::INT8_ARRAY),
                (&channel, Type::TEXT),
            ],
        )?;
        Ok(true)
    }

    fn mail(&mut self, worlds: &[u64], rows: usize, bytes: usize) -> Result<Vec<Mail>, StoreError> {
        self.session.limit_to(MAIL_LIMIT);
        let worlds: Vec<i64> = worlds.iter().copied().map(number).collect();
        // Rows go when it is known that they have come: an answer that is lost is asked for again.
        let seen = self.seen.clone();
        let rows = self.ask(
            "SELECT id, world, bytes, age_us FROM tw.mail_4($1, $2, $3, $4)",
            &[
                (&worlds, Type::INT8_ARRAY),
                (&seen, Type::INT8_ARRAY),
                (&limit(rows), Type::INT8),
                (&limit(bytes), Type::INT8),
            ],
        )?;
        self.seen = rows.iter().map(|row| cell(row, 0)).collect::<Result<_, _>>()?;
        let mail = |row| {
            let age = Duration::from_micros(count(row, 3)?);
            Ok(Mail { to: count(row, 1)?, bytes: cell(row, 2)?, age })
        };
        rows.iter().map(mail).collect()
    }

    fn listen(&mut self, hint: Hint) {
        let shared = &self.session.shared;
        // A pooler in transaction mode gives no connection to a listener.
        if shared.settings.is_pooled {
            return;
        }
        let (connecting, channel) = (shared.connecting(), channel(shared));
        let is_heard = Arc::clone(&self.is_heard);
        let listening = shared.driver.spawn(async move {
            loop {
                let hint = Arc::clone(&hint);
                let told = move |world: &str| hint(world.parse().unwrap_or_default());
                // Relaxed: it only decides how soon rows are looked for.
                let begun = || is_heard.store(true, Ordering::Relaxed);
                let ended = connecting.listen(&channel, told, begun).await;
                is_heard.store(false, Ordering::Relaxed);
                if let Err(error) = ended {
                    tracing::debug!(%error, "hints of other nodes are listened for again");
                }
                tokio::time::sleep(LISTEN_AGAIN).await;
            }
        });
        if let Some(before) = self.listening.replace(listening) {
            before.abort();
        }
    }

    fn is_listening(&self) -> bool {
        self.is_heard.load(Ordering::Relaxed)
    }
}

/// The channel of the hints of a store.
fn channel(shared: &Shared) -> String {
    format!("{}_mail", shared.settings.schema)
}
