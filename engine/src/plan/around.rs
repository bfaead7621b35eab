//! Code around planning: middleware, and actions that extend planned ones.

use std::sync::Arc;

use super::planner::Planning;
use crate::action::Action;
use crate::error::ActionError;
use crate::id::ActionId;
use crate::middleware::{Around, Phase};
use crate::payload::Payload;

impl Planning {
    /// Plans the whole plan from its root, with the middleware of that around it.
    pub(super) fn plan_all<A: Action>(&mut self, input: A::Input) -> Result<(), ActionError> {
        let registry = self.registry();
        let (chain, transaction) = (registry.chains().of(A::NAME), registry.transaction());
        if chain.is_none() && transaction.is_none() {
            self.plan_child::<A>(None, None, input)?;
            return self.check();
        }
        let mut given = Payload::of(&input).map_err(|error| error.of("the input", A::NAME))?;
        let plan = self.plan_id();
        let mut is_passed = false;
        let mut inner = |given: &Payload| {
            is_passed = true;
            let mut work = || {
                self.plan_child::<A>(None, None, given.read()?)?;
                self.check()
            };
            match &transaction {
                Some(transaction) => transaction.transaction(&mut work),
                None => work(),
            }
        };
        let chain = chain.map_or(&[][..], |chain| &chain[..]);
        Around::new(chain, Phase::PlanAll, plan, A::NAME, &mut given, &mut inner).pass()?;
        if is_passed {
            return Ok(());
        }
        let message = format!("a middleware around the planning of «{}» did not pass", A::NAME);
        Err(ActionError::new("not_passed", message).and_final())
    }

    /// Plans one action, with its middleware around it, then those that extend it.
    pub(super) fn plan_one<A: Action>(
        &mut self,
        action: &Arc<A>,
        id: ActionId,
        extended: Option<&'static str>,
        input: A::Input,
    ) -> Result<(), ActionError> {
        let registry = self.registry();
        let chain = registry.chains().of(A::NAME);
        let is_extended = registry.extensions().is_extended(A::NAME);
        if chain.is_none() && !is_extended {
            return action.plan(&mut self.planner(id, extended), input);
        }
        let mut given = Payload::of(&input).map_err(|error| error.of("the input", A::NAME))?;
        match chain {
            None => action.plan(&mut self.planner(id, extended), input)?,
            Some(chain) => {
                let plan = self.plan_id();
                let mut inner =
                    |given: &Payload| action.plan(&mut self.planner(id, extended), given.read()?);
                Around::new(chain, Phase::Plan, plan, A::NAME, &mut given, &mut inner).pass()?;
            }
        }
        if is_extended {
            self.extend(id, &given)?;
        }
        Ok(())
    }
}
