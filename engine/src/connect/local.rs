//! Requests between worlds of one process.

use std::collections::HashMap;

use parking_lot::Mutex;
use turnwheel_runtime::Completion;

use super::{Answer, ConnectError, Connector, Desk, Envelope};

/// Hands requests to worlds of the same process. Cost: a look-up.
#[derive(Debug, Default)]
pub struct Local {
    desks: Mutex<HashMap<u64, Desk>>,
}

impl Local {
    /// A connector without worlds.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Connector for Local {
    fn attach(&self, desk: Desk) {
        self.desks.lock().insert(desk.world(), desk);
    }

    fn detach(&self, world: u64) {
        self.desks.lock().remove(&world);
    }

    fn send(&self, envelope: Envelope) -> Completion<Result<Answer, ConnectError>> {
        let desk = self.desks.lock().get(&envelope.to).cloned();
        match desk {
            Some(desk) => desk.take(envelope.request),
            None => Completion::done(Err(ConnectError::Unknown { world: envelope.to })),
        }
    }
}
