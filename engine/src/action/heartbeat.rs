//! Signs of life of a step's code.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::chunk::Outbox;
use super::{Action, StepContext};
use crate::error::ActionError;
use crate::payload::Payload;
use crate::run::beat_soon;
use crate::time::Time;

/// Signals between running code and its plan: the request to end, and heartbeats.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelFlag(pub(super) Arc<Mutex<Signals>>);

#[derive(Debug, Default)]
pub(super) struct Signals {
    is_cancelled: bool,
    /// The last sign of life that the plan has not taken.
    beat: Option<(Time, Payload)>,
    /// Chunks that the plan has not taken.
    pub(super) chunks: Outbox,
}

impl CancelFlag {
    pub(crate) fn set(&self) {
        self.0.lock().is_cancelled = true;
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.lock().is_cancelled
    }

    /// Keeps a sign of life; whether it is the first one since the plan has taken one.
    fn beat(&self, at: Time, details: Payload) -> bool {
        self.0.lock().beat.replace((at, details)).is_none()
    }

    /// The last sign of life, if there was one since this was called before.
    pub(crate) fn take_beat(&self) -> Option<(Time, Payload)> {
        self.0.lock().beat.take()
    }
}

impl<A: Action> StepContext<A> {
    /// Says that the code is alive, and how far it is; a later attempt is
    /// [told](StepContext::last_heartbeat). An action that [declares](Action::heartbeat) how long it may
    /// be silent has to call it more often than that.
    ///
    /// Cost: no commit of its own. Signs of life are kept in memory and written together, with the next
    /// entry of the plan or after [`BEATS_BEHIND`](crate::limits::BEATS_BEHIND), whichever is earlier: a
    /// crash loses the details of that time at most.
    ///
    /// # Errors
    ///
    /// The details cannot be written as JSON.
    ///
    /// ```
    /// use std::time::Duration;
    /// use turnwheel_engine::{
    ///     Action, ActionError, MemoryStore, Next, Run, Runs, StepContext, World,
    /// };
    ///
    /// struct Copy;
    /// impl Action for Copy {
    ///     const NAME: &'static str = "copy";
    ///     type Input = u32;
    ///     type Output = u32;
    ///     type Phases = Runs;
    ///     fn heartbeat(&self) -> Option<Duration> {
    ///         Some(Duration::from_secs(30))
    ///     }
    /// }
    /// impl Run for Copy {
    ///     fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
    ///         let first = step.last_heartbeat::<u32>()?.unwrap_or(0);
    ///         for file in first..step.input {
    ///             step.output += 1;
    ///             step.heartbeat(&(file + 1))?;
    ///         }
    ///         Ok(Next::Done)
    ///     }
    /// }
    ///
    /// let world = World::builder().action(Copy).build(MemoryStore::new())?;
    /// let plan = world.trigger::<Copy>(3).wait()?.finished().wait()?;
    /// assert_eq!(plan.output::<Copy>()?, 3);
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn heartbeat<D: Serialize + ?Sized>(&self, details: &D) -> Result<(), ActionError> {
        let details = Payload::of(details).map_err(|error| error.of("a sign of life", A::NAME))?;
        // Without its world nobody waits for it.
        if let Some(world) = self.facts.world.upgrade() {
            if self.facts.cancelled.beat(world.now(), details) {
                beat_soon(&world, self.facts.plan);
            }
        }
        Ok(())
    }

    /// Details of the last recorded heartbeat, of this or an earlier call of the step, from its
    /// code or from [outside](crate::World::heartbeat).
    ///
    /// # Errors
    ///
    /// The details cannot be read as this type.
    pub fn last_heartbeat<D: DeserializeOwned>(&self) -> Result<Option<D>, ActionError> {
        Ok(self.facts.beat.as_ref().map(Payload::read).transpose()?)
    }
}
