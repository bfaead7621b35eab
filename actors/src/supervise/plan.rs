//! The children of a supervisor and what is to be done with them, in which order.

use std::collections::VecDeque;
use std::time::Duration;

use turnwheel_runtime::{AnyTask, Failure};

use super::spec::{RestartKind, Spec};
use super::supervisor::{ChildError, Strategy};
use crate::reply::ReplyTo;
use crate::restart::Tally;

/// One child.
pub(crate) struct Place {
    pub(crate) key: u64,
    pub(crate) spec: Box<dyn Spec>,
    pub(crate) task: Option<AnyTask>,
    /// Grows with each actor made and with each ordered stop: an end of a former one is no news.
    pub(crate) run: u64,
    pub(crate) restarts: u64,
    /// Counts its pauses.
    pub(crate) tally: Tally,
    /// Who waits for its first start.
    pub(crate) asker: Option<ReplyTo<Result<(), ChildError>>>,
}

/// What a supervisor does one after the other.
pub(crate) enum Step {
    Stop(u64),
    Start(u64),
    /// Later, without waiting for it: starts these.
    StartAfter(Duration, Vec<u64>),
    Forget(u64),
    Answer(ReplyTo<Result<(), ChildError>>),
    /// All are started for the first time.
    Up,
    Fail(Failure),
}

#[derive(Default)]
pub(crate) struct Places {
    /// In the order of their start.
    pub(crate) list: Vec<Place>,
    pub(crate) plan: VecDeque<Step>,
}

impl Places {
    pub(crate) fn get(&mut self, key: u64) -> Option<&mut Place> {
        self.list.iter_mut().find(|place| place.key == key)
    }

    pub(crate) fn named(&self, name: &str) -> Option<u64> {
        self.list.iter().find(|place| place.spec.name() == name).map(|place| place.key)
    }

    /// Ahead of what is planned: ends whom the strategy says, the youngest first, and starts them
    /// after the pause, the oldest first.
    pub(crate) fn restart(&mut self, failed: u64, strategy: Strategy, pause: Duration) {
        let at = self.list.iter().position(|place| place.key == failed).unwrap_or(0);
        let range = match strategy {
            Strategy::OneForOne => at..at + 1,
            Strategy::AllForOne => 0..self.list.len(),
            Strategy::RestForOne => at..self.list.len(),
        };
        let Some(affected) = self.list.get(range) else { return };
        let mut steps = Vec::new();
        let mut starts = Vec::new();
        for place in affected {
            if place.task.is_some() {
                if place.spec.kind() == RestartKind::Temporary {
                    steps.push(Step::Forget(place.key));
                }
                steps.push(Step::Stop(place.key));
            }
            let is_temporary = place.spec.kind() == RestartKind::Temporary;
            if place.key == failed || place.task.is_some() && !is_temporary {
                starts.push(place.key);
            }
        }
        steps.reverse();
        if pause.is_zero() {
            steps.extend(starts.into_iter().map(Step::Start));
        } else {
            steps.push(Step::StartAfter(pause, starts));
        }
        for step in steps.into_iter().rev() {
            self.plan.push_front(step);
        }
    }

    /// In place of all that is planned: ends everyone, the youngest first, then fails.
    pub(crate) fn give_up(&mut self, failure: Failure) {
        self.plan.clear();
        let running = self.list.iter().rev().filter(|place| place.task.is_some());
        self.plan.extend(running.map(|place| Step::Stop(place.key)));
        self.plan.push_back(Step::Fail(failure));
    }
}
