//! The children of a supervisor, and the planned steps in their order.

use std::collections::VecDeque;
use std::time::Duration;

use turnwheel_runtime::{AnyTask, Failure};

use super::spec::{RestartKind, Spec};
use super::supervisor::{ChildError, Strategy};
use crate::actor::RestartCounter;
use crate::call::{nanos, ReplyTo};

/// One child.
pub(crate) struct Child {
    pub(crate) key: u64,
    pub(crate) spec: Box<dyn Spec>,
    pub(crate) task: Option<AnyTask>,
    /// Grows with each actor made and with each ordered stop: an end of a former one is no news.
    pub(crate) run: u64,
    pub(crate) restarts: u64,
    /// Counts its pauses.
    pub(crate) counter: RestartCounter,
    /// To be started: the start is planned, or follows a pause.
    pub(crate) is_wanted: bool,
    /// Not before this time, nanoseconds.
    pub(crate) due_ns: u64,
    /// Number of the order to start it; an earlier pause is void.
    pub(crate) order: u64,
    /// The caller that waits for its first start.
    pub(crate) asker: Option<ReplyTo<Result<(), ChildError>>>,
}

/// One step of a supervisor; it takes one after the other.
pub(crate) enum Step {
    Stop(u64),
    Start(u64),
    /// After a pause, without blocking the plan: starts children whose order is still this one.
    StartAfter(Duration, u64),
    Forget(u64),
    Answer(ReplyTo<Result<(), ChildError>>),
    /// All are started for the first time.
    Up,
    Fail(Failure),
}

#[derive(Default)]
pub(crate) struct ChildList {
    /// In the order of their start.
    pub(crate) list: Vec<Child>,
    pub(crate) plan: VecDeque<Step>,
    /// Orders to restart children so far.
    orders: u64,
}

impl ChildList {
    pub(crate) fn get(&mut self, key: u64) -> Option<&mut Child> {
        self.list.iter_mut().find(|child| child.key == key)
    }

    pub(crate) fn named(&self, name: &str) -> Option<u64> {
        self.list.iter().find(|child| child.spec.name() == name).map(|child| child.key)
    }

    /// Puts a restart ahead of the plan: ends the children chosen by the strategy, the youngest
    /// first, and starts them after the pause, the oldest first, including those that wait for
    /// their start already.
    pub(crate) fn restart(
        &mut self,
        failed: u64,
        strategy: Strategy,
        now_ns: u64,
        pause: Duration,
    ) {
        let at = self.list.iter().position(|child| child.key == failed).unwrap_or(0);
        let range = match strategy {
            Strategy::OneForOne => at..at + 1,
            Strategy::AllForOne => 0..self.list.len(),
            Strategy::RestForOne => at..self.list.len(),
        };
        let Some(affected) = self.list.get_mut(range) else { return };
        self.orders += 1;
        let pause_ns = nanos(pause);
        let mut steps = Vec::new();
        let mut starts = Vec::new();
        for child in affected {
            let is_running = child.task.is_some();
            let is_temporary = child.spec.kind() == RestartKind::Temporary;
            if is_running {
                if is_temporary {
                    steps.push(Step::Forget(child.key));
                }
                steps.push(Step::Stop(child.key));
            }
            if child.key == failed || is_running && !is_temporary {
                child.due_ns = now_ns.saturating_add(pause_ns);
                child.is_wanted = true;
            }
            if child.is_wanted {
                child.order = self.orders;
                starts.push(child.key);
            }
        }
        // Starts planned for them before are replaced by the new order.
        self.plan.retain(|step| !matches!(step, Step::Start(key) if starts.contains(key)));
        steps.reverse();
        steps.extend(self.starts(self.orders, now_ns));
        for step in steps.into_iter().rev() {
            self.plan.push_front(step);
        }
    }

    /// The starts of an order, the oldest first: each after its pause and the starts before it.
    pub(crate) fn starts(&self, order: u64, now_ns: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        for child in self.list.iter().filter(|child| child.is_wanted && child.order == order) {
            let left_ns = child.due_ns.saturating_sub(now_ns);
            if left_ns > 0 {
                steps.push(Step::StartAfter(Duration::from_nanos(left_ns), order));
                break;
            }
            steps.push(Step::Start(child.key));
        }
        steps
    }

    /// In place of all that is planned: ends everyone, the youngest first, then fails.
    pub(crate) fn give_up(&mut self, failure: Failure) {
        self.plan.clear();
        self.list.iter_mut().for_each(|child| child.is_wanted = false);
        let running = self.list.iter().rev().filter(|child| child.task.is_some());
        self.plan.extend(running.map(|child| Step::Stop(child.key)));
        self.plan.push_back(Step::Fail(failure));
    }
}
