//! Leases of worlds, by the clock of the database.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;
use turnwheel_engine::store::{Beat, Members};
use turnwheel_engine::StoreError;

use crate::cell::{cell, count, number};
use crate::session::{Session, Shared};

/// Heartbeats over a connection of their own.
pub(crate) struct Heartbeats(Session);

impl Heartbeats {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self(Session::new(Arc::clone(shared)))
    }
}

impl Members for Heartbeats {
    fn beat(&mut self, worlds: &[u64], lease: Duration) -> Result<Beat, StoreError> {
        let sql = self.0.shared.sql("SELECT version, lapsed FROM tw.beat_1($1, $2)");
        let worlds: Vec<i64> = worlds.iter().copied().map(number).collect();
        let lease_us = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX);
        // An answer that comes after the lease is worth nothing.
        self.0.limit_to(lease);
        let opened = if self.0.is_open() { Ok(()) } else { self.0.open() };
        let rows = opened.and_then(|()| {
            self.0.ask_again(&sql, &[(&worlds, Type::INT8_ARRAY), (&lease_us, Type::INT8)])
        });
        let rows = rows.map_err(|trouble| trouble.told(self.0.name(), 0))?;
        let row = rows.first().ok_or_else(|| StoreError::Corrupt("no heartbeat".to_owned()))?;
        let lapsed: Vec<i64> = cell(row, 1)?;
        let lapsed = lapsed.into_iter().map(i64::unsigned_abs).collect();
        Ok(Beat { version: count(row, 0)?, lapsed })
    }
}
