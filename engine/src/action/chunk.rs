//! Chunks that a step's code adds to the output stream of its plan while it runs.

use std::collections::VecDeque;

use serde::Serialize;

use super::heartbeat::CancelFlag;
use super::{Action, StepContext};
use crate::error::{ActionError, TextTooLong};
use crate::limits::{CHUNKS_BYTES_MAX, CHUNKS_WAITING_BYTES_MAX, CHUNK_BYTES_MAX, NAME_BYTES_MAX};
use crate::payload::Payload;
use crate::run::chunks_soon;
use crate::time::Time;

/// Chunks of a call that its plan has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    lines: VecDeque<ChunkLine>,
    waiting_bytes: usize,
    /// Bytes that the call has written in all.
    bytes: u64,
}

/// A line of the stream, on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChunkLine {
    /// A chunk.
    Chunk { at: Time, kind: String, data: Payload },
    /// All that were written before are gone.
    Drop { at: Time },
}

impl ChunkLine {
    fn bytes(&self) -> usize {
        match self {
            Self::Chunk { kind, data, .. } => kind.len() + data.as_str().len(),
            Self::Drop { .. } => 0,
        }
    }
}

impl CancelFlag {
    /// Lines that were not taken, in their order: about so many bytes at most, and at least one line.
    pub(crate) fn take_chunks(&self, bytes_max: usize) -> Vec<ChunkLine> {
        let outbox = &mut self.0.lock().chunks;
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(line) = outbox.lines.front() {
            bytes += line.bytes();
            if bytes > bytes_max && !taken.is_empty() {
                break;
            }
            outbox.waiting_bytes -= line.bytes();
            taken.extend(outbox.lines.pop_front());
        }
        taken
    }
}

impl<A: Action> StepContext<A> {
    /// Adds a chunk to the output stream of the plan: a line of a log, a part of a long answer. It
    /// is durable a moment later, and at the latest when the end of this call is; while the call
    /// goes on and after, [`PlanHandle::chunks`](crate::PlanHandle::chunks) reads it. `kind` is for
    /// readers. A later attempt of the step appends further chunks: each chunk has the number of
    /// its attempt.
    ///
    /// Cost: chunks added during a commit go into one entry with the next. A growing output is
    /// written in full at each end of a call; a chunk is written once.
    ///
    /// # Errors
    ///
    /// The chunk cannot be written as JSON; it is longer than [`CHUNK_BYTES_MAX`]; the plan has
    /// more than about [`CHUNKS_BYTES_MAX`] of them; or [`CHUNKS_WAITING_BYTES_MAX`] of this call
    /// wait for the disk. In these cases it is not added.
    ///
    /// ```
    /// use turnwheel_engine::{
    ///     Action, ActionError, MemoryStore, Next, Run, Runs, StepContext, World,
    /// };
    ///
    /// struct Count;
    /// impl Action for Count {
    ///     const NAME: &'static str = "count";
    ///     type Input = u32;
    ///     type Output = ();
    ///     type Phases = Runs;
    /// }
    /// impl Run for Count {
    ///     fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
    ///         for number in 0..step.input {
    ///             step.chunk("number", &number)?;
    ///         }
    ///         Ok(Next::Done)
    ///     }
    /// }
    ///
    /// let world = World::builder().action(Count).build(MemoryStore::new())?;
    /// let plan = world.trigger::<Count>(3).wait()?;
    /// plan.finished().wait()?;
    /// let page = plan.chunks(Default::default(), 2).wait()?;
    /// assert_eq!(page[1].data.read::<u32>()?, 1);
    /// let rest = plan.chunks(page[1].cursor, 100).wait()?;
    /// assert_eq!((rest.len(), rest[0].kind.as_str()), (1, "number"));
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn chunk<T: Serialize + ?Sized>(&self, kind: &str, data: &T) -> Result<(), ActionError> {
        let too_much = |what: String| {
            let message = format!("a chunk of «{}» was not added: {what}", A::NAME);
            Err(ActionError::new("chunk", message))
        };
        TextTooLong::check("kind of a chunk", kind, NAME_BYTES_MAX)
            .map_err(|error| ActionError::new("chunk", error))?;
        let data = Payload::of(data).map_err(|error| error.of("a chunk", A::NAME))?;
        // Without its world nobody waits for it.
        let Some(world) = self.facts.world.upgrade() else { return Ok(()) };
        let line = ChunkLine::Chunk { at: world.now(), kind: kind.to_owned(), data };
        let bytes = line.bytes();
        if bytes > CHUNK_BYTES_MAX {
            return too_much(format!("it has {bytes} bytes, and {CHUNK_BYTES_MAX} are the limit"));
        }
        let mut signals = self.facts.cancelled.0.lock();
        let outbox = &mut signals.chunks;
        if self.facts.chunk_bytes + outbox.bytes + bytes as u64 > CHUNKS_BYTES_MAX {
            return too_much(format!("the plan has {CHUNKS_BYTES_MAX} bytes, which is the limit"));
        }
        if outbox.waiting_bytes + bytes > CHUNKS_WAITING_BYTES_MAX {
            let waiting = outbox.waiting_bytes;
            return too_much(format!(
                "{waiting} bytes wait for the disk, and {CHUNKS_WAITING_BYTES_MAX} may: write less, or \
                 slower"
            ));
        }
        let is_first = outbox.lines.is_empty();
        outbox.waiting_bytes += bytes;
        outbox.bytes += bytes as u64;
        outbox.lines.push_back(line);
        drop(signals);
        if is_first {
            chunks_soon(&world, self.facts.plan);
        }
        Ok(())
    }

    /// Takes all chunks of the plan away, also those that this call has added: readers see only what is
    /// added afterwards. Their place in the store is free when the plan is removed.
    pub fn drop_chunks(&self) {
        let Some(world) = self.facts.world.upgrade() else { return };
        let mut signals = self.facts.cancelled.0.lock();
        let is_first = signals.chunks.lines.is_empty();
        signals.chunks.lines.push_back(ChunkLine::Drop { at: world.now() });
        drop(signals);
        if is_first {
            chunks_soon(&world, self.facts.plan);
        }
    }
}
