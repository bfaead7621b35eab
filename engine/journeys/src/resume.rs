//! Messages of batches whose sender does not say any more that it is sending them: they go back to
//! the rows of their users, and leave from there.

use turnwheel_engine::TimedStates;
use turnwheel_runtime::completion::{completion, Completer};
use turnwheel_runtime::{Completion, Task};

use crate::batch::{Batch, BATCH};
use crate::desk::{Desk, Request};
use crate::error::JourneyError;
use crate::journeys::desk_of;
use crate::row::BatchId;
use crate::walk::Turn;

/// Has the desks look at the users of some batches, and removes those that no row names any more.
/// Returns how many are gone.
pub(crate) async fn resume(
    states: TimedStates,
    desks: Vec<Task<Desk>>,
    batches: Vec<(BatchId, Batch)>,
) -> usize {
    let mut over = Vec::new();
    for (id, batch) in batches {
        let asked: Vec<_> = batch.messages.keys().map(|user| look(&desks, id, user)).collect();
        let mut is_left = false;
        for asked in asked {
            // A user whose row cannot be read or written keeps the batch.
            is_left |= !matches!(asked.await, Ok(Ok(false)));
        }
        if !is_left {
            tracing::info!(batch = id.key(), messages = batch.messages.len(), "taken over");
            over.push(id.key());
        }
    }
    let gone = over.len();
    if gone == 0 {
        return 0;
    }
    if let Err(error) = states.remove_all(BATCH, over).await {
        tracing::debug!(%error, "batches that were taken over are removed later");
        return 0;
    }
    gone
}

fn look(
    desks: &[Task<Desk>],
    batch: BatchId,
    user: &str,
) -> Completion<Result<bool, JourneyError>> {
    let (to, looked) = completion();
    let refusal = to.clone();
    let request = Box::new(Resume { batch, to, is_left: true });
    let (key, of) = (user.to_owned(), desk_of(user, desks.len()));
    if desks[of].submit(move |desk, cx| desk.take(key, request, cx)).is_err() {
        // Nobody waits for it when the journeys have ended.
        let _gone = refusal.complete(Err(JourneyError::failed("the journeys have ended")));
    }
    looked
}

/// A look at a user of a batch: whether the row still names it.
struct Resume {
    batch: BatchId,
    to: Completer<Result<bool, JourneyError>>,
    is_left: bool,
}

impl Request for Resume {
    fn decide(&mut self, turn: &mut Turn<'_>) {
        self.is_left = turn.row.sending.iter().any(|it| it.batch == self.batch);
    }

    fn is_background(&self) -> bool {
        true
    }

    fn answer(self: Box<Self>, outcome: Result<(), JourneyError>) {
        let Self { to, is_left, .. } = *self;
        // Nobody waits for it when the journeys have ended.
        let _gone = to.complete(outcome.map(|()| is_left));
    }
}
