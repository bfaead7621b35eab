//! Check of a new set of actions against the plans of a store, before its use.

use std::collections::BTreeMap;

use super::WorldBuilder;
use crate::error::{ActionError, BuildError, UNKNOWN_ACTION};
use crate::id::{PlanId, StepId};
use crate::payload::Payload;
use crate::plan::{Plan, PlanState};
use crate::store::{read_plan, CodedStore, Filter, Seq, Store};

/// Rows that are read at once.
const PAGE: usize = 256;

/// Why a plan of a store could not go on with the actions of a builder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokenPlan {
    /// The plan.
    pub plan: PlanId,
    /// The first step that could not be called; `None` if it is yet to be planned.
    pub step: Option<StepId>,
    /// The action.
    pub action: String,
    /// The problem.
    pub problem: String,
}

impl WorldBuilder {
    /// The plans of a store that are not over and could not continue with these actions: one is
    /// missing, or cannot read a stored input or output, even after
    /// [migration](crate::Action::migrate). Nothing is written, and no plan runs.
    ///
    /// Cost: every live plan is read. It may be called while another world uses the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn broken_plans(&self, store: &dyn Store) -> Result<Vec<BrokenPlan>, BuildError> {
        let mut reader = match self.codec.clone() {
            Some(codec) => CodedStore::new(store, codec).reader()?,
            None => store.reader()?,
        };
        let mut plans: BTreeMap<PlanId, Option<Seq>> =
            reader.behind()?.into_iter().map(|(plan, head)| (plan, Some(head))).collect();
        let states = [
            PlanState::Pending,
            PlanState::Scheduled,
            PlanState::Planning,
            PlanState::Planned,
            PlanState::Running,
            PlanState::Paused,
        ];
        let mut filter = Filter { states: states.to_vec(), limit: PAGE, ..Filter::default() };
        loop {
            let page = reader.list(&filter)?;
            for row in &page {
                plans.entry(row.id).or_default();
            }
            filter.before = page.last().map(|row| row.id);
            if page.len() < PAGE {
                break;
            }
        }
        let mut broken = Vec::new();
        for (plan, head) in plans {
            let plan = read_plan(&mut *reader, plan, head)?;
            broken.extend(plan.and_then(|plan| self.breaks(&plan)));
        }
        Ok(broken)
    }

    /// The first thing that would not work.
    fn breaks(&self, plan: &Plan) -> Option<BrokenPlan> {
        let broken = |step, action: &str, problem: ActionError| BrokenPlan {
            plan: plan.id,
            step,
            action: action.to_owned(),
            problem: problem.message,
        };
        if plan.state == PlanState::Stopped {
            return None;
        }
        if plan.actions.is_empty() {
            let name = &plan.created.action;
            let problem = self.check(name, None, &plan.created.input, &Payload::null()).err()?;
            return Some(broken(None, name, problem));
        }
        plan.actions.iter().find_map(|action| {
            let steps = [action.run_step, action.finalize_step].into_iter().flatten();
            let open = steps.into_iter().find(|step| !plan.step(*step).state.is_done())?;
            let version = Some(action.version);
            let problem = self.check(&action.name, version, &action.input, &action.output).err()?;
            Some(broken(Some(open), &action.name, problem))
        })
    }

    fn check(
        &self,
        name: &str,
        version: Option<u32>,
        input: &Payload,
        output: &Payload,
    ) -> Result<(), ActionError> {
        let Some(action) = self.registry.find(name) else {
            let message = format!("no action «{name}» is registered: was it renamed or removed?");
            return Err(ActionError::new(UNKNOWN_ACTION, message));
        };
        action.check(version.unwrap_or(action.version()), input, output)
    }
}
