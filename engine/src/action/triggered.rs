//! The plans that a call asks for, until they are written.

use std::collections::VecDeque;

use crate::limits::{SUB_PLANS_PAGE, SUB_PLANS_PAGE_BYTES};
use crate::plan::SubPlan;

/// The plans that a call asks for: full pages, each as small as the journal writes it, and the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Triggered {
    pages: VecDeque<Box<[u8]>>,
    /// Plans of the pages, also of those that were taken.
    paged: usize,
    rest: Vec<SubPlan>,
    rest_bytes: usize,
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

    /// Number of sub-plans, including those of taken pages.
    pub(crate) fn count(&self) -> usize {
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
