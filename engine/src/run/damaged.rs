//! Plans whose entries are damaged: they cannot go on, but somebody can end them, so that nobody waits for
//! them for ever, and nothing is kept from others.

use std::sync::Arc;

use turnwheel_actors::{Context, Handler};
use turnwheel_runtime::{Completer, Failure};

use super::{message, OrderKind, PlanActor};
use crate::action::{PlanLock, WhenTaken};
use crate::error::{ActionError, PlanError, StoreError};
use crate::id::PlanId;
use crate::journal::encode_plan;
use crate::payload::Payload;
use crate::plan::{Created, Plan, PlanState};
use crate::store::{Filter, Order, PlanRow};

/// The store's remaining knowledge of a damaged plan that an operator ends.
pub(super) struct EndDamaged {
    row: Result<Result<Vec<PlanRow>, StoreError>, Failure>,
    by: String,
    reply: Completer<Result<(), PlanError>>,
}

impl PlanActor {
    /// Whether an order ends the plan because it is damaged. A plan that only this world cannot
    /// read does not count.
    pub(super) fn ends_damaged(&self, kind: &OrderKind) -> bool {
        let is_end = matches!(kind, OrderKind::Halt | OrderKind::Fail | OrderKind::Cancel { .. });
        is_end && self.plan.is_none() && matches!(self.unreadable, Some(StoreError::Corrupt(_)))
    }

    pub(super) fn end_damaged(
        &self,
        by: String,
        reply: Completer<Result<(), PlanError>>,
        cx: &mut Context<'_, Self>,
    ) {
        let id = self.id;
        let before = u128::from_be_bytes(id.to_bytes()).saturating_sub(1);
        let after = Some(PlanId::from_bytes(before.to_be_bytes()));
        let filter = Filter { order: Order::OldestFirst, after, limit: 1, ..Filter::default() };
        let row = self.world.journal().read(move |reader| reader.list(&filter));
        cx.pipe(row, move |row| EndDamaged { row, by, reply });
        cx.hold();
    }
}

impl Handler<EndDamaged> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: EndDamaged, cx: &mut Context<'_, Self>) {
        let EndDamaged { row, by, reply } = message;
        let Some(problem) = self.unreadable.as_ref().filter(|_| self.plan.is_none()) else {
            return self.pass_on(message::Order { kind: OrderKind::Halt, by, reply });
        };
        let rows = row.unwrap_or_else(|failure| Err(StoreError::unanswered(&failure)));
        let row = match rows {
            Ok(rows) => rows.into_iter().find(|row| row.id == self.id),
            Err(error) => {
                // Ended without its row it would lose its labels, and who waits for it.
                let _late = reply.complete(Err(error.into()));
                return cx.passivate();
            }
        };
        let head = self.world.journal().head(self.id).or(row.as_ref().map(|row| row.head));
        let Some(head) = head else {
            let _late = reply.complete(Err(self.absence()));
            return cx.passivate();
        };
        let mut created = self.still_known(row);
        // Its row may be lost, or may not have named the plan that waits for it.
        created.caller = created.caller.or_else(|| self.world.callers().of(self.id));
        let mut plan = Plan::begin(self.id, created);
        plan.planning_error = Some(ActionError::new("damaged", problem).and_final());
        let locks = self.world.journal().locks().all().into_iter();
        let held = locks.filter(|lock| lock.holder == Some(self.id));
        plan.locks =
            held.map(|lock| PlanLock { name: lock.name, taken: WhenTaken::Wait }).collect();
        // It replaces all entries up to now: damaged ones are not read any more.
        self.snapshot = Some((head, encode_plan(&plan)));
        self.holds_locks = !plan.locks.is_empty();
        let why = format!("ended by {by}, because it cannot be read: {problem}");
        (self.head, self.plan, self.unreadable) = (head, Some(Arc::new(plan)), None);
        self.followed = self.world.journal().followers().before(self.id);
        if let Some(mut decisions) = self.decisions() {
            decisions.become_state(PlanState::Stopped, &why);
        }
        self.answers.push(Box::new(move |outcome| {
            let done = outcome.as_ref().map(|_| ()).map_err(|error| error.clone().into());
            let _late = reply.complete(done);
        }));
        self.settle(cx);
    }
}

impl PlanActor {
    fn still_known(&self, row: Option<PlanRow>) -> Created {
        let Some(row) = row else {
            return Created {
                at: self.world.now(),
                action: "unknown".to_owned(),
                input: Payload::null(),
                caller: None,
                lineage: Vec::new(),
                key: None,
                labels: Vec::new(),
                by: "unknown".to_owned(),
                priority: 0,
                deadline: None,
                trace: None,
            };
        };
        Created {
            at: row.created_at,
            action: row.action.to_string(),
            caller: row.caller,
            labels: row.labels.clone().into_iter().collect(),
            by: row.by.to_string(),
            ..self.still_known(None)
        }
    }
}
