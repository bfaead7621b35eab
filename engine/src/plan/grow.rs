//! Growth of a plan: steps that a step adds while the plan runs.
//!
//! A suspended step may add steps of other actions to the same plan. They begin at once, and are
//! parts of the step's action in the tree. When a part is over, the step that added it gets an
//! event with the result, in the same entry of the journal. The step names its parts by numbers of
//! its own, so that it needs no ids beforehand. When it ends itself, its unfinished parts are
//! dropped.

use std::collections::{HashSet, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::apply::Inconsistent;
use super::seen::Seen;
use super::state::{StepKind, StepState};
use super::step::{ActionData, Event, Step};
use super::{counted, Plan};
use crate::action::Cause;
use crate::id::{ActionId, StepId};
use crate::payload::Payload;
use crate::time::Time;

/// A step that another one has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrownStep {
    /// Number of the part, chosen by the step that added it.
    pub tag: u32,
    /// Name of its action.
    pub name: String,
    /// The version of that.
    pub version: u32,
    /// Its input.
    pub input: Payload,
    /// Its share of the progress, in thousandths.
    pub weight: u32,
    /// The queue that its code runs in.
    pub queue: String,
}

/// Event for a step about one of its parts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PartEnded<T = Box<RawValue>> {
    /// Number of the part, chosen by the step.
    pub(crate) part: u32,
    /// Its final state.
    pub(crate) state: StepState,
    /// Its output.
    pub(crate) output: T,
}

impl Plan {
    pub(super) fn grown(
        &mut self,
        at: Time,
        asker: StepId,
        steps: &[GrownStep],
    ) -> Result<(), Inconsistent> {
        let parent = self.known(asker)?.action;
        for grown in steps {
            let action = ActionId::at(self.actions.len());
            let id = StepId::at(self.steps.len());
            self.actions.push(ActionData {
                id: action,
                name: grown.name.clone(),
                version: grown.version,
                parent: Some(parent),
                input: grown.input.clone(),
                output: Payload::null(),
                needs: Vec::new(),
                plan_step: None,
                run_step: Some(id),
                finalize_step: None,
            });
            let mut step = Step::new(id, StepKind::Run, action, grown.weight, &grown.queue);
            step.asker = Some((asker, grown.tag));
            self.steps.push(step);
            self.count(StepState::Pending, true);
            self.ready.push_back(id);
        }
        self.note(at, format!("step {asker} asks for {}", counted(steps.len(), "step")));
        Ok(())
    }

    /// A step is over: the one that has asked for it gets an event, if it takes any.
    pub(super) fn tell_asker(&mut self, id: StepId, at: Time) {
        let step = &self.steps[id.index()];
        let Some((asker, part)) = step.asker else { return };
        let state = step.state;
        let is_over = matches!(state, StepState::Success | StepState::Skipped);
        // An asker that is about to be tried again takes its events then.
        let takes = [StepState::Suspended, StepState::Running, StepState::Retrying];
        let is_heard = takes.contains(&self.steps[asker.index()].state);
        if !is_over || !is_heard {
            return;
        }
        let output = self.actions[step.action.index()].output.as_str();
        // An output is JSON, as all payloads are.
        let output = RawValue::from_string(output.to_owned()).unwrap_or_default();
        let payload = Payload::enclosing(&PartEnded { part, state, output });
        self.steps[asker.index()].inbox.push_back(Event { id: None, payload, at, is_own: true });
    }

    /// Of a step that waits and those that it has asked for: the one that the others wait for, the
    /// newest if there are several.
    pub(super) fn waiting_part<'a>(&'a self, mut step: &'a Step) -> &'a Step {
        let waits = |part: &Step| matches!(part.state, StepState::Suspended | StepState::Retrying);
        // A part has a higher id than the step that added it, so this ends; all parts are at the
        // end of the list.
        loop {
            let mut asked = self.steps.iter().rev().take_while(|part| part.asker.is_some());
            let of = step.id;
            let is_part = |part: &&Step| part.asker.is_some_and(|(asker, _)| asker == of);
            match asked.find(|part| is_part(part) && waits(part)) {
                Some(part) => step = part,
                None => return step,
            }
        }
    }

    /// Whether all that is under way are steps that wait for others that they have asked for and that have
    /// failed, or are to be left out: nothing comes by itself any more.
    pub(crate) fn waits_in_vain(&self) -> bool {
        let failed = [StepState::Error, StepState::Skipping];
        let goes_on = [StepState::Retrying, StepState::RevertRetrying];
        let has_grown = self.steps.last().is_some_and(|step| step.asker.is_some());
        if !has_grown || self.is_busy() || self.counts.of(&goes_on) > 0 {
            return false;
        }
        if self.counts.of(&failed) == 0 {
            return false;
        }
        // A part has a higher id than the step that added it: backwards, each step comes after all
        // its parts.
        let mut waits_for_failed = HashSet::new();
        for step in self.steps.iter().rev() {
            let is_suspended = step.state == StepState::Suspended;
            let is_in_vain = is_suspended && waits_for_failed.contains(&step.id);
            let hears = || self.timers.values().any(|timer| timer.step == step.id);
            if is_suspended && (!is_in_vain || hears() || self.children.are_open(step.id)) {
                return false;
            }
            if let Some((asker, _)) =
                step.asker.filter(|_| is_in_vain || failed.contains(&step.state))
            {
                waits_for_failed.insert(asker);
            }
        }
        true
    }

    /// Parts of these steps that are neither over nor dropped: when the steps begin again, they add
    /// them again.
    pub(crate) fn parts_left_by(&self, steps: &[StepId]) -> Vec<StepId> {
        let mut askers: HashSet<StepId> = steps.iter().copied().collect();
        let first = self.steps.partition_point(|step| step.asker.is_none());
        let mut left = Vec::new();
        for step in &self.steps[first..] {
            if step.asker.is_some_and(|(asker, _)| askers.contains(&asker)) {
                askers.insert(step.id);
                if !step.state.is_done() && step.state != StepState::Dropped {
                    left.push(step.id);
                }
            }
        }
        left
    }

    /// The step that added a step.
    pub(crate) fn asker_of(&self, id: StepId) -> Option<StepId> {
        self.step(id).asker.map(|(asker, _)| asker)
    }

    /// The parts of a step with this name that are not over, or all, with theirs: parents first.
    pub(crate) fn open_parts(&self, asker: StepId, part: Option<u32>) -> Vec<StepId> {
        let mut open = Vec::new();
        // Parts come after all steps that were planned, and after the step that has asked for them: one pass
        // over them finds all. A plan without any is not looked through.
        if self.steps.last().is_none_or(|step| step.asker.is_none()) {
            return open;
        }
        let first = self.steps.partition_point(|step| step.asker.is_none());
        let mut askers = HashSet::from([asker]);
        for step in &self.steps[first.max(asker.index() + 1).min(self.steps.len())..] {
            let Some((of, tag)) = step.asker else { continue };
            let is_wanted = of != asker || part.is_none_or(|part| part == tag);
            if is_wanted && askers.contains(&of) {
                askers.insert(step.id);
                if step.state.is_live() || step.state == StepState::Pending {
                    open.push(step.id);
                }
            }
        }
        open
    }
}

impl Step {
    /// A step that has not begun.
    pub(super) fn new(
        id: StepId,
        kind: StepKind,
        action: ActionId,
        weight: u32,
        queue: &str,
    ) -> Self {
        Self {
            id,
            kind,
            action,
            state: StepState::Pending,
            error: None,
            started_at: None,
            ended_at: None,
            ran_us: 0,
            attempt: 0,
            calls: 0,
            calls_before: 0,
            progress: None,
            weight,
            queue: queue.to_owned(),
            failures: 0,
            limit: None,
            is_rescued: false,
            order: 0,
            waits_for: String::new(),
            retry_at: None,
            inbox: VecDeque::new(),
            in_event: false,
            is_queued: false,
            cause: Cause::Turn,
            is_ending: false,
            is_skipping: false,
            beat: None,
            revert_error: None,
            was_called: false,
            seen: Seen::default(),
            asker: None,
        }
    }
}
