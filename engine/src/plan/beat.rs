//! Signs of life of steps, as part of [`Plan::apply`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::apply::Inconsistent;
use super::state::StepState;
use super::step::Step;
use super::Plan;
use crate::error::ActionError;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Time;

/// The signs of life of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// When it gave the last one that is recorded; its calls and their ends count as one each.
    pub at: Time,
    /// Details of the last heartbeat, if it had some.
    pub details: Option<Payload>,
    /// Maximum time between heartbeats.
    pub within: Option<Duration>,
    /// Number of silences that were too long, since the plan was resumed.
    pub missed: u32,
    /// Whether it waits for plans of its own, and need not say anything.
    pub(crate) is_excused: bool,
}

impl Step {
    /// When it will have been silent for too long, if it has to give signs of life now.
    pub(crate) fn silent_at(&self) -> Option<Time> {
        let beat = self.beat.as_ref().filter(|beat| !beat.is_excused && !self.is_queued)?;
        let lives = matches!(self.state, StepState::Running | StepState::Suspended);
        beat.within.filter(|_| lives).map(|within| beat.at.after(within))
    }

    /// When something has to be done about it, if nothing happens before.
    pub(crate) fn alarm(&self) -> Option<Time> {
        match self.retry_at {
            Some(at) => Some(at),
            None => [self.limit, self.silent_at()].into_iter().flatten().min(),
        }
    }
}

impl Plan {
    /// A call of a step begins at this time, and may be silent for so long.
    pub(super) fn listen(&mut self, id: StepId, at: Time, silence: Option<Duration>) {
        let step = &mut self.steps[id.index()];
        if silence.is_some() || step.beat.is_some() {
            let beat = step.beat.get_or_insert_default();
            (beat.at, beat.within, beat.is_excused) = (at, silence, false);
        }
    }

    /// A step has shown that it lives.
    pub(super) fn beaten(
        &mut self,
        id: StepId,
        at: Time,
        details: Option<&Payload>,
    ) -> Result<(), Inconsistent> {
        self.known(id)?;
        self.clear_alarm(id);
        let beat = self.steps[id.index()].beat.get_or_insert_default();
        beat.at = beat.at.max(at);
        if let Some(details) = details {
            beat.details = Some(details.clone());
        }
        self.set_alarm(id);
        Ok(())
    }

    /// Shows a sign of life that is not written yet, in a copy for readers.
    pub(crate) fn show_beat(&mut self, id: StepId, at: Time, details: &Payload) {
        let beat = self.steps[id.index()].beat.get_or_insert_default();
        beat.at = beat.at.max(at);
        beat.details = Some(details.clone());
    }

    /// A step waits for plans of its own.
    pub(super) fn excuse(&mut self, id: StepId) {
        self.clear_alarm(id);
        if let Some(beat) = &mut self.steps[id.index()].beat {
            beat.is_excused = true;
        }
        self.set_alarm(id);
    }

    /// A step was silent for too long.
    pub(super) fn silent(
        &mut self,
        id: StepId,
        at: Time,
        error: Option<&ActionError>,
    ) -> Result<(), Inconsistent> {
        if let Some(beat) = &mut self.known(id)?.beat {
            beat.missed += 1;
        }
        self.note(at, format!("step {id} was silent for too long"));
        self.interrupted(id, at, error)
    }
}
