//! Changes of a plan that hooks are still to be told of.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::state::{PlanResult, PlanState};
use super::{Plan, Record};
use crate::action::On;
use crate::time::Time;

/// A change of the plan that its hooks are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookDue {
    /// The changes.
    pub on: On,
    /// When.
    pub at: Time,
    /// The result of the plan by then.
    pub result: PlanResult,
}

/// The changes that wait, with their numbers in the plan, counted from 1.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HooksDue {
    waiting: VecDeque<(u32, HookDue)>,
    last: u32,
}

impl HooksDue {
    pub(super) fn add(&mut self, due: &[HookDue]) {
        for due in due {
            self.last += 1;
            self.waiting.push_back((self.last, *due));
        }
    }

    /// Hooks were told of all up to this number.
    pub(super) fn done(&mut self, last: u32) {
        self.waiting.retain(|(number, _)| *number > last);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// All that wait, and the number of the last one.
    pub(crate) fn all(&self) -> (Vec<HookDue>, u32) {
        (self.waiting.iter().map(|(_, due)| *due).collect(), self.last)
    }
}

/// The changes of a plan's state that records tell of, in their order. `plan` is as it is after them.
pub(crate) fn changes(plan: &Plan, records: &[Record]) -> Vec<HookDue> {
    let mut found = Vec::new();
    let mut add = |state: PlanState, at: Time| {
        let result = plan.result();
        found.push(HookDue { on: On::state(state), at, result });
        if state == PlanState::Stopped {
            found.push(HookDue { on: On::result(result), at, result });
        }
    };
    let mut is_scheduled =
        plan.delayed.is_some() && !matches!(records.first(), Some(Record::Created(_)));
    for record in records {
        match record {
            Record::Created(created) => add(PlanState::Pending, created.at),
            Record::Delayed { at, .. } if !is_scheduled => {
                is_scheduled = true;
                add(PlanState::Scheduled, *at);
            }
            Record::Planned(planned) => {
                add(PlanState::Planning, planned.began);
                let is_planned = planned.error.is_none();
                add(if is_planned { PlanState::Planned } else { PlanState::Stopped }, planned.at);
            }
            Record::NotPlanned { at, .. } => add(PlanState::Stopped, *at),
            Record::Became { state, at, .. } => add(*state, *at),
            _ => {}
        }
    }
    found
}
