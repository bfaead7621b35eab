//! Calls of a world to entities of other nodes that are under way: their number is bounded, and
//! each of them has an outcome.

use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_actors::entity::RemoteError;
use turnwheel_runtime::Completer;

use crate::limits::{ENTITY_CALLS_MAX, ENTITY_CALL_BYTES_MAX};
use crate::world::reach_slot::Doubt;

/// The outcome of a call: its answer, as JSON.
pub(super) type Told = Completer<Result<Vec<u8>, RemoteError>>;

/// The calls of a world, and the bytes of their messages.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    calls: usize,
    bytes: usize,
}

/// A call that is counted until this is dropped. Its caller is told something in any case: the
/// threads that carry it may refuse it, or end before it does.
#[derive(Debug)]
pub(super) struct Place {
    under_way: Arc<UnderWay>,
    bytes: usize,
    told: Option<Told>,
    /// Whether it may have been done.
    pub(super) doubt: Doubt,
}

impl UnderWay {
    /// Counts a call; its caller is told if there are too many.
    pub(super) fn enter(self: &Arc<Self>, bytes: usize, told: Told) -> Option<Place> {
        let mut sums = self.0.lock();
        let is_full = sums.calls >= ENTITY_CALLS_MAX
            || sums.bytes.saturating_add(bytes) > ENTITY_CALL_BYTES_MAX;
        if is_full {
            let Sums { calls, bytes } = *sums;
            drop(sums);
            let reason = format!("{calls} calls with {bytes} bytes are under way to other nodes");
            tell(told, Err(RemoteError::Unavailable { reason }));
            return None;
        }
        sums.calls += 1;
        sums.bytes += bytes;
        let under_way = Arc::clone(self);
        Some(Place { under_way, bytes, told: Some(told), doubt: Doubt::default() })
    }
}

impl Place {
    pub(super) fn tell(mut self, outcome: Result<Vec<u8>, RemoteError>) {
        if let Some(told) = self.told.take() {
            tell(told, outcome);
        }
    }
}

fn tell(told: Told, outcome: Result<Vec<u8>, RemoteError>) {
    // The caller may have given up.
    let _gone = told.complete(outcome);
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sums = self.under_way.0.lock();
        sums.calls -= 1;
        sums.bytes -= self.bytes;
        drop(sums);
        let Some(told) = self.told.take() else { return };
        let reason = "this node takes up no more calls".to_owned();
        tell(
            told,
            Err(match self.doubt.is_open() {
                true => RemoteError::Unknown { reason },
                false => RemoteError::Unavailable { reason },
            }),
        );
    }
}
