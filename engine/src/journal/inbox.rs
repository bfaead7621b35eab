//! Entries on their way to the writer.
//!
//! Plans put their entries here, and only the first one of a batch sends the writer a job: a commit
//! takes all of them at once. An entry is taken before every job that its plan sends to the writer
//! later, since the job of its batch is in the mailbox by then. It may be taken before jobs that
//! were sent earlier: see [`Writer::refresh`].

use parking_lot::Mutex;
use turnwheel_runtime::Task;

use super::writer::{Entry, Writer};
use crate::error::{not_taken, StoreError};
use crate::limits::APPENDS_MAX;

/// The entries that the writer has not taken.
#[derive(Default)]
pub(super) struct Inbox(Mutex<Vec<Entry>>);

impl Inbox {
    /// Puts an entry here. It comes back if the writer takes nothing more.
    pub(super) fn put(&self, entry: Entry, writer: &Task<Writer>) {
        let is_first = {
            let mut waiting = self.0.lock();
            if waiting.len() as u64 >= APPENDS_MAX {
                drop(waiting);
                let problem = format!("{APPENDS_MAX} entries wait for it, which is the limit");
                return entry.refuse(StoreError::Failed(problem));
            }
            waiting.push(entry);
            waiting.len() == 1
        };
        if !is_first {
            return;
        }
        if let Err(error) = writer.submit(Writer::has_entries) {
            // Entries that came meanwhile rely on this job.
            let problem = format!("it takes nothing more: {}", not_taken(error.kind));
            let refused = std::mem::take(&mut *self.0.lock());
            for entry in refused {
                entry.refuse(StoreError::Failed(problem.clone()));
            }
        }
    }

    /// Takes all of them, behind those that wait already.
    pub(super) fn take(&self, waiting: &mut Vec<Entry>) {
        let mut new = self.0.lock();
        if waiting.is_empty() {
            std::mem::swap(waiting, &mut new);
        } else {
            waiting.append(&mut new);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
