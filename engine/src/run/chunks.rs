//! Chunks that the code of steps adds: taken from the calls, and written with the plan's entries.

use std::sync::Arc;

use turnwheel_actors::{Context, Handler};

use super::decide::Decisions;
use super::{PlanActor, PlanKey};
use crate::action::ChunkLine;
use crate::id::{PlanId, StepId};
use crate::limits::CHUNKS_ENTRY_BYTES;
use crate::plan::{PlanState, Record, StepState};
use crate::world::Shared;

/// Code of the plan has added chunks.
pub(super) struct Chunked;

/// Tells a plan that there are chunks to write.
pub(crate) fn chunks_soon(world: &Arc<Shared>, plan: PlanId) {
    if let Err(error) = world.plans().get::<PlanActor>(PlanKey::new(world, plan)).tell(Chunked) {
        // They are taken with anything else that happens to the plan, and at the end of the call.
        tracing::debug!(%plan, kind = %error.kind, "chunks are written later");
    }
}

impl Handler<Chunked> for PlanActor {
    type Reply = ();

    fn handle(&mut self, _: Chunked, cx: &mut Context<'_, Self>) {
        self.settle(cx);
    }
}

impl PlanActor {
    /// Decides on chunks of calls that are under way: about as many as one entry should have.
    pub(super) fn take_chunks(&mut self) {
        if self.plan.is_none() || self.running.is_empty() {
            return;
        }
        let mut calls: Vec<_> =
            self.running.iter().map(|(step, (call, flag))| (*step, *call, flag.clone())).collect();
        calls.sort_by_key(|(step, _, _)| *step);
        for (step, call, flag) in calls {
            let lines = flag.take_chunks(CHUNKS_ENTRY_BYTES);
            if let Some(mut decisions) = self.decisions() {
                decisions.chunked(step, call, lines);
            }
        }
    }

    /// Decides on what a call has added that has ended without saying so.
    pub(super) fn take_last_chunks(&mut self, step: StepId, call: u32) {
        let running = self.running.get(&step).filter(|(running, _)| *running == call);
        let lines = running.map(|(_, flag)| flag.take_chunks(usize::MAX)).unwrap_or_default();
        if let Some(mut decisions) = self.decisions() {
            decisions.chunked(step, call, lines);
        }
    }
}

impl Decisions<'_> {
    /// A call has added chunks. Chunks after the end of its step by an order do not count.
    pub(super) fn chunked(&mut self, id: StepId, call: u32, lines: Vec<ChunkLine>) {
        let Some(step) = self.plan.find_step(id) else { return };
        let is_over = step.calls != call
            || step.state == StepState::Cancelled
            || self.plan.state == PlanState::Stopped;
        if is_over {
            return;
        }
        let attempt = step.attempt;
        for line in lines {
            self.record(match line {
                ChunkLine::Chunk { at, kind, data } => {
                    Record::Chunk { step: id, attempt, at, kind, data }
                }
                ChunkLine::Drop { at } => Record::ChunksDropped { at, step: id },
            });
        }
    }
}
