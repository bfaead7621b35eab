//! Bytes queued in all mailboxes of a group, and their limit.

use crate::sync::{AtomicBool, AtomicI64, Ordering};

/// The account. Workers add their counts in steps of `MAILBOX_BYTES_FLUSH`.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: AtomicI64,
    limit: i64,
    /// Whether the limit is exceeded: a line that producers only read.
    is_exceeded: crossbeam_utils::CachePadded<AtomicBool>,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            bytes: AtomicI64::new(0),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            is_exceeded: crossbeam_utils::CachePadded::new(AtomicBool::new(false)),
        }
    }

    /// Whether submissions are to be refused.
    #[inline(always)]
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    /// Adds queued bytes (positive) or consumed bytes (negative).
    pub(crate) fn add(&self, bytes: i64) {
        if bytes == 0 {
            return;
        }
        // Relaxed: an account, it orders nothing.
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let is_exceeded = now > self.limit;
        if is_exceeded != self.is_exceeded.load(Ordering::Relaxed) {
            self.is_exceeded.store(is_exceeded, Ordering::Relaxed);
            // Two adders may have stored in the wrong order: settle it by the newest account.
            let newest = self.bytes.load(Ordering::Relaxed) > self.limit;
            self.is_exceeded.store(newest, Ordering::Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> i64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
