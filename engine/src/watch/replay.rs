//! From entries of the journal to what happened, with the plans as they were before.

use std::collections::{HashMap, VecDeque};

use super::{apply_and_tell, Happening};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::journal::decode;
use crate::limits::{WATCH_PLANS_MAX, WATCH_STEPS_MAX};
use crate::plan::{Plan, PlanState, Record};
use crate::store::{Seq, StoreReader, Written};

/// Plans as of the last entries that were seen of them.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    plans: HashMap<PlanId, (Seq, Plan)>,
    /// In the order in which they came; some may be gone.
    order: VecDeque<PlanId>,
    steps: usize,
}

impl Replay {
    /// Happenings of an entry; `None` if the plan's earlier state is not known here.
    pub(crate) fn entry(&mut self, entry: &Written) -> Result<Option<Vec<Happening>>, StoreError> {
        let mut plan = if entry.prev == 0 {
            None
        } else {
            match self.take(entry.plan) {
                Some((seq, plan)) if seq == entry.prev => Some(plan),
                _ => return Ok(None),
            }
        };
        let told = tell(&mut plan, entry.plan, entry.seq, &entry.records)?;
        if let Some(plan) = plan.filter(|plan| plan.state != PlanState::Stopped) {
            self.keep(entry.seq, plan);
        }
        Ok(Some(told))
    }

    /// As [`Replay::entry`]; the plan before it is read if it has to be.
    pub(crate) fn entry_from(
        &mut self,
        reader: &mut dyn StoreReader,
        entry: &Written,
    ) -> Result<Vec<Happening>, StoreError> {
        if let Some(told) = self.entry(entry)? {
            return Ok(told);
        }
        let mut plan = None;
        let history = match reader.history(entry.plan, entry.prev) {
            // The plan was removed after its entry was read: nothing is left to tell of it.
            Err(error)
                if error.is_unreadable()
                    && reader.place_after(entry.seq - 1)? != Some(entry.seq) =>
            {
                return Ok(Vec::new());
            }
            history => history?,
        };
        for (seq, records) in history {
            tell(&mut plan, entry.plan, seq, &records)?;
        }
        if let Some(plan) = plan {
            self.keep(entry.prev, plan);
        }
        let told = self.entry(entry)?;
        told.ok_or_else(|| StoreError::Corrupt(format!("plan {} has no begin", entry.plan)))
    }

    fn take(&mut self, plan: PlanId) -> Option<(Seq, Plan)> {
        let taken = self.plans.remove(&plan);
        self.steps -= taken.as_ref().map_or(0, |(_, plan)| plan.steps.len());
        taken
    }

    fn keep(&mut self, seq: Seq, plan: Plan) {
        let id = plan.id;
        self.steps += plan.steps.len();
        if self.plans.insert(id, (seq, plan)).is_none() {
            self.order.push_back(id);
        }
        while (self.plans.len() > WATCH_PLANS_MAX || self.steps > WATCH_STEPS_MAX)
            && self.plans.len() > 1
        {
            let Some(oldest) = self.order.pop_front() else { break };
            if oldest != id {
                self.take(oldest);
            } else {
                self.order.push_back(oldest);
            }
        }
        if self.order.len() > 4 * WATCH_PLANS_MAX {
            let plans = &self.plans;
            self.order.retain(|plan| plans.contains_key(plan));
            // A plan that left and came back is listed twice; keep one.
            let mut seen = std::collections::HashSet::new();
            self.order.retain(|plan| seen.insert(*plan));
        }
    }
}

/// Applies an entry to a plan, or begins it with it.
pub(crate) fn tell(
    plan: &mut Option<Plan>,
    id: PlanId,
    seq: Seq,
    records: &[u8],
) -> Result<Vec<Happening>, StoreError> {
    let records = decode(id, records)?;
    if plan.is_none() {
        let Some(Record::Created(created)) = records.first() else {
            let problem = format!("the first record of plan {id} does not say how it began");
            return Err(StoreError::Corrupt(problem));
        };
        *plan = Some(Plan::begin(id, (**created).clone()));
    }
    let mut told = Vec::new();
    let known = plan.as_mut().expect("it was made just now");
    apply_and_tell(known, &records, seq, |happening| told.push(happening))
        .map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(told)
}
