//! Pages: contents of sub-plans that have not begun, where memory does not have them.
//!
//! The record of the journal that asks for plans is their page. A plan remembers the entry that it is in;
//! the actor reads it when the turn of its plans has come. So a million plans that wait cost a plan some
//! thousand numbers, and each input is stored once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{PlanId, StepId};
use crate::store::Seq;

/// The pages of a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pages {
    all: BTreeMap<u32, Page>,
    last: u32,
    /// Pages that a call has written and whose end is not written.
    ahead: BTreeMap<StepId, Vec<u32>>,
    /// Pages of records that are not handed to the journal.
    #[serde(skip)]
    fresh: Vec<u32>,
    /// Pages of the entry that is on its way to the journal.
    #[serde(skip)]
    under_way: Vec<u32>,
}

/// Location of a page.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Page {
    /// The entry; 0 as long as it is not written.
    pub(crate) entry: Seq,
    /// The first of its plans: it tells its record from others of the entry.
    pub(crate) first: PlanId,
    /// Its plans that are not over.
    left: u32,
}

impl Pages {
    /// There is one more.
    pub(super) fn add(&mut self, first: PlanId, plans: usize) -> u32 {
        self.last += 1;
        self.all.insert(self.last, Page { entry: 0, first, left: plans as u32 });
        self.fresh.push(self.last);
        self.last
    }

    /// A call has written one before its end.
    pub(super) fn add_ahead(&mut self, step: StepId, first: PlanId, plans: usize) {
        let page = self.add(first, plans);
        self.ahead.entry(step).or_default().push(page);
    }

    /// The pages that a call has written, and how many plans they have.
    pub(super) fn take_ahead(&mut self, step: StepId) -> (Vec<u32>, usize) {
        let pages = self.ahead.remove(&step).unwrap_or_default();
        let plans = pages.iter().filter_map(|page| self.all.get(page)).map(|page| page.left);
        let plans = plans.sum::<u32>() as usize;
        (pages, plans)
    }

    /// So many plans of a page are over.
    pub(super) fn ended(&mut self, page: u32, plans: u32) {
        let Some(known) = self.all.get_mut(&page) else { return };
        known.left -= plans;
        if known.left == 0 {
            self.all.remove(&page);
        }
    }

    /// Removes a page that is not needed any more; returns the number of its plans that are not
    /// over.
    pub(super) fn remove(&mut self, page: u32) -> u32 {
        self.all.remove(&page).map_or(0, |page| page.left)
    }

    /// Location of a page.
    pub(crate) fn find(&self, page: u32) -> Option<Page> {
        self.all.get(&page).copied()
    }

    /// The records so far are handed to the journal, as one entry.
    pub(crate) fn hand_over(&mut self) {
        self.under_way.append(&mut self.fresh);
    }

    /// The entry that was handed over is at this place.
    pub(crate) fn written(&mut self, entry: Seq) {
        for page in self.under_way.drain(..) {
            if let Some(page) = self.all.get_mut(&page) {
                page.entry = entry;
            }
        }
    }

    /// Whether the places of some are not known.
    pub(crate) fn are_open(&self) -> bool {
        !(self.fresh.is_empty() && self.under_way.is_empty())
    }
}
