//! The begin of a plan.

use std::sync::Arc;

use turnwheel_actors::{Context, Handler};
use turnwheel_runtime::Completer;

use super::locks::Beginning;
use super::message::{Begin, Begun};
use super::PlanActor;
use crate::error::{ActionError, TriggerError};
use crate::plan::{Created, Plan, Record};
use crate::store::Verdict;

impl Handler<Begin> for PlanActor {
    type Reply = ();

    fn handle(&mut self, begin: Begin, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(begin);
        }
        let Begin { created, planned, reply } = begin;
        if let Some(error) = &self.unreadable {
            let _late = reply.complete(Err(TriggerError::Store(error.clone())));
            return cx.passivate();
        }
        if self.plan.is_some() {
            let _late = reply.complete(Err(TriggerError::Exists(self.id)));
            return;
        }
        let error = planned.error.clone();
        let planned = Record::Planned(planned);
        self.begin_with(created, planned, error, Some(reply), cx);
    }
}

impl PlanActor {
    /// Begins the plan with a record: planned, or scheduled for later.
    pub(super) fn begin_with(
        &mut self,
        created: Box<Created>,
        mut next: Record,
        error: Option<ActionError>,
        reply: Option<Completer<Result<Begun, TriggerError>>>,
        cx: &mut Context<'_, Self>,
    ) {
        let id = self.id;
        self.key.clone_from(&created.key);
        let known = error;
        self.admit(&mut next, &created);
        let error = match &next {
            Record::Planned(planned) => known.or_else(|| planned.error.clone()),
            _ => known,
        };
        let mut plan = Plan::begin(id, (*created).clone());
        if let Err(problem) = plan.apply(&next) {
            let refused = TriggerError::Refused(problem.to_string());
            let _late = reply.map(|reply| reply.complete(Err(refused)));
            return cx.passivate();
        }
        if !plan.locks.is_empty() {
            let (created, next, reply) = (created.clone(), next.clone(), reply.clone());
            self.beginning = Some(Beginning { created, next, reply });
        }
        self.plan = Some(Arc::new(plan));
        self.records.push(Record::Created(created));
        self.records.push(next);
        self.answers.push(Box::new(move |outcome| {
            let answer = match (outcome, error) {
                (Err(problem), _) => Err(TriggerError::Store(problem.clone())),
                (Ok(Verdict::KeyTaken(plan)), _) => Ok(Begun { plan: *plan }),
                // It begins again.
                (Ok(Verdict::LockTaken { .. }), _) => return,
                (Ok(_), Some(error)) => Err(TriggerError::Planning { plan: id, error }),
                (Ok(_), None) => Ok(Begun { plan: id }),
            };
            let _late = reply.map(|reply| reply.complete(answer));
        }));
        if let Some(mut decisions) = self.decisions() {
            decisions.begun();
        }
        self.settle(cx);
    }
}
