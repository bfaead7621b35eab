//! The plans that a call asks for, until they are written.

use std::collections::{HashMap, VecDeque};

use crate::error::ActionError;
use crate::id::PlanId;
use crate::limits::{SUB_PLANS_NAMED_MAX, SUB_PLANS_PAGE, SUB_PLANS_PAGE_BYTES};
use crate::plan::{Named, SubPlan};

/// The plans that a call asks for: full pages, each as small as the journal writes it, and the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Triggered {
    pages: VecDeque<Box<[u8]>>,
    /// Plans of the pages, also of those that were taken.
    paged: usize,
    rest: Vec<SubPlan>,
    rest_bytes: usize,
    /// All in their order, as long as they are few enough to have keys.
    order: Vec<Named>,
    keys: HashMap<String, PlanId>,
}

impl Triggered {
    pub(super) fn push(&mut self, plan: SubPlan) {
        self.rest_bytes += plan.input.as_str().len();
        self.rest.push(plan);
        if self.rest.len() >= SUB_PLANS_PAGE || self.rest_bytes >= SUB_PLANS_PAGE_BYTES {
            let page = postcard::to_allocvec(&self.rest);
            let page = page.expect("plans have no maps of unknown length and memory is there");
            self.pages.push_back(page.into());
            self.paged += self.rest.len();
            self.rest.clear();
            self.rest_bytes = 0;
        }
    }

    /// Asks for one in its place among the others; with a key it may be known.
    pub(super) fn name(&mut self, plan: PlanId, key: Option<&str>) -> Result<(), ActionError> {
        self.keys.extend(key.map(|key| (key.to_owned(), plan)));
        let is_too_late = self.order.len() < self.count();
        if self.order.len() >= SUB_PLANS_NAMED_MAX || is_too_late {
            if !self.keys.is_empty() {
                let most = SUB_PLANS_NAMED_MAX;
                let message = format!("a call that gives keys asks for at most {most} sub-plans");
                return Err(ActionError::new("sub_plans", message).and_final());
            }
            self.order.clear();
            return Ok(());
        }
        self.order.push((plan, key.map(str::to_owned)));
        Ok(())
    }

    /// The one with this key.
    pub(super) fn find(&self, key: &str) -> Option<PlanId> {
        self.keys.get(key).copied()
    }

    /// All in their order, if some have keys.
    pub(crate) fn take_named(&mut self) -> Option<Vec<Named>> {
        (!self.keys.is_empty()).then(|| std::mem::take(&mut self.order))
    }

    /// Whether a call has asked for nothing, also not for what is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0 && self.keys.is_empty()
    }

    /// Number of new sub-plans, including those of taken pages.
    fn count(&self) -> usize {
        self.paged + self.rest.len()
    }

    /// Whether there are pages that were not taken.
    pub(crate) fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// The first page that was not taken.
    pub(crate) fn take_page(&mut self) -> Option<Vec<SubPlan>> {
        let page = self.pages.pop_front()?;
        Some(postcard::from_bytes(&page).expect("it was written by this version"))
    }

    /// The sub-plans outside of the pages.
    pub(crate) fn into_rest(self) -> Vec<SubPlan> {
        self.rest
    }
}
