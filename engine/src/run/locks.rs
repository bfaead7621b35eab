//! Locks of plans: taken in the commit in which a plan begins or goes on, given back in the one in
//! which it is stopped or paused.

use std::sync::Arc;

use turnwheel_actors::Context;
use turnwheel_runtime::Completer;

use super::decide::{Decisions, Effect};
use super::message::{Begun, Report};
use super::PlanActor;
use crate::connect::Word;
use crate::error::{PlanError, TriggerError};
use crate::journal::Held;
use crate::plan::{Created, Plan, PlanState, Record};

/// Data for a second begin of a plan with locks, if they are taken at the last moment.
pub(super) struct Beginning {
    pub(super) created: Box<Created>,
    pub(super) next: Record,
    pub(super) reply: Option<Completer<Result<Begun, TriggerError>>>,
}

impl PlanActor {
    /// A plan that was just planned fails if another one has its locks and it is not to wait.
    pub(super) fn admit(&self, next: &mut Record, created: &Created) {
        if let Record::Planned(planned) = next {
            self.world.journal().locks().admit(planned, self.id, &created.lineage);
        }
    }

    /// The plan as people see it: with the plan that has the lock for which it waits, and with signs
    /// of life that are not written yet.
    pub(super) fn shown(&self) -> Result<Arc<Plan>, PlanError> {
        let mut plan = self.plan.clone().ok_or_else(|| self.absence())?;
        let locked_by = self.world.journal().locks().waited_for(self.id);
        if plan.locked_by != locked_by {
            Arc::make_mut(&mut plan).locked_by = locked_by;
        }
        self.beats.show(&mut plan);
        Ok(plan)
    }

    /// The locks to take and to give back with the records that are handed to the journal.
    pub(super) fn locking(&mut self) -> (Vec<String>, Vec<String>) {
        let Some(plan) = self.plan.as_ref().filter(|plan| !plan.locks.is_empty()) else {
            return (Vec::new(), Vec::new());
        };
        let names = || plan.locks.iter().map(|lock| lock.name.clone()).collect();
        let runs = plan.needs_locks();
        let begins =
            |record: &Record| matches!(record, Record::Became { state: PlanState::Running, .. });
        let takes = !self.holds_locks && (runs || self.records.iter().any(begins));
        let releases = !runs && (self.holds_locks || takes);
        self.holds_locks = runs;
        let take = if takes { names() } else { Vec::new() };
        (take, if releases { names() } else { Vec::new() })
    }

    /// Another plan was faster: nothing of the last entry was written.
    pub(super) fn lost_lock(&mut self, cx: &mut Context<'_, Self>) {
        self.forget_decisions();
        match self.beginning.take() {
            Some(Beginning { created, next, reply }) => {
                self.begin_with(created, next, None, reply, cx);
            }
            None => {
                self.forget(cx);
                // The plan as it is stored looks after itself, and who waits for it is told.
                self.pass_on(Report { view: None });
            }
        }
    }

    /// After a commit: wakes the waiters of locks that this plan does not need any more.
    pub(super) fn give_locks_back(&self) {
        let is_over = |plan: &Plan| matches!(plan.state, PlanState::Stopped | PlanState::Paused);
        let needs_none = |plan: &Plan| is_over(plan) && !plan.needs_locks();
        if self.plan.as_deref().is_some_and(needs_none) {
            self.leave_locks();
        }
    }

    /// This plan does not wait for its locks any more; wakes plans that may begin now.
    pub(super) fn leave_locks(&self) {
        // A plan that cannot be read any more may have waited for some.
        let needed = self.plan.as_ref().map_or(&[][..], |plan| &plan.locks);
        if self.plan.is_some() && needed.is_empty() {
            return;
        }
        for next in self.world.journal().locks().leave(needed, self.id) {
            self.world.tell_plan(next, Word::Wake, move |world| {
                world.wakes().set(next, world.now().after(super::AGAIN));
            });
        }
    }
}

impl Decisions<'_> {
    /// Whether a planned plan may begin. If it has to wait for its locks, and is to replace those that
    /// have them, they are cancelled; if it would wait for ever, it ends.
    pub(super) fn may_begin(&mut self) -> bool {
        if self.plan.locks.is_empty() {
            return true;
        }
        match self.locks.begin(&self.plan.locks, self.plan.id, &self.plan.created.lineage) {
            Ok(()) => true,
            Err(Held::Waits(before)) => {
                self.effects.extend(before.into_iter().map(Effect::CancelPlan));
                false
            }
            Err(Held::ForEver(error)) => {
                self.not_planned(error);
                false
            }
        }
    }

    /// Whether a paused plan may go on.
    pub(super) fn may_go_on(&self) -> Result<(), String> {
        self.locks.check(&self.plan.locks, self.plan.id).map_err(|taken| taken.to_string())
    }
}
