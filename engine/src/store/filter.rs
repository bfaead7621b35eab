//! Filter and order of listed plans.

use super::PlanRow;
use crate::id::PlanId;
use crate::plan::{PlanResult, PlanState, Waiting};
use crate::time::Time;

/// Filter of plans: all set conditions must hold. Unset conditions do not apply.
///
/// ```
/// use turnwheel_engine::store::{Filter, Order};
/// use turnwheel_engine::{PlanState, Waiting};
///
/// // The oldest paused plans of a customer.
/// let filter = Filter {
///     waits: vec![Waiting::Decision],
///     labels: vec![("customer".to_owned(), Some("Ann".to_owned()))],
///     order: Order::OldestFirst,
///     ..Filter::default()
/// };
/// # let _ = filter;
/// ```
///
/// Cost: a page is read along the index of ids, of one state, or of a label with its value; rows
/// that the rest of the filter excludes are read and skipped. Parts of texts have no index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Only these states; empty for all.
    pub states: Vec<PlanState>,
    /// Only these results; empty for all.
    pub results: Vec<PlanResult>,
    /// Only what waits for one of these; empty for all.
    pub waits: Vec<Waiting>,
    /// Only plans that are called so.
    pub label: Option<String>,
    /// Only plans whose name has this part, whatever the case of ASCII letters.
    pub name: Option<String>,
    /// Only plans whose name, or whose reason to wait or to fail, has this part, likewise.
    pub text: Option<String>,
    /// Only plans that have all of these labels, with this value if one is said.
    pub labels: Vec<(String, Option<String>)>,
    /// Only plans with this root action.
    pub action: Option<String>,
    /// Only the plan that has taken this idempotency key.
    pub key: Option<String>,
    /// Only plans that this person or part of a program has triggered.
    pub by: Option<String>,
    /// Only plans that a step of this plan has asked for.
    pub caller: Option<PlanId>,
    /// Only plans that were created at this time or later.
    pub created_from: Option<Time>,
    /// Only plans that were created before this time.
    pub created_before: Option<Time>,
    /// Only plans that were stopped at this time or later.
    pub ended_from: Option<Time>,
    /// Only plans that were stopped before this time.
    pub ended_before: Option<Time>,
    /// Only plans that no plan waits for which is not stopped.
    pub is_unneeded: bool,
    /// Order of the plans.
    pub order: Order,
    /// Only plans with smaller ids, which are older: for the next page of the newest.
    pub before: Option<PlanId>,
    /// Only plans with greater ids, which are newer: for the next page of the oldest.
    pub after: Option<PlanId>,
    /// Maximum number of plans; a page of 100 by default.
    pub limit: usize,
}

/// In which order plans are listed. Ids that the world has made are in the order of creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The greatest id first.
    #[default]
    NewestFirst,
    /// The smallest id first.
    OldestFirst,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            results: Vec::new(),
            waits: Vec::new(),
            label: None,
            name: None,
            text: None,
            labels: Vec::new(),
            action: None,
            key: None,
            by: None,
            caller: None,
            created_from: None,
            created_before: None,
            ended_from: None,
            ended_before: None,
            is_unneeded: false,
            order: Order::NewestFirst,
            before: None,
            after: None,
            limit: 100,
        }
    }
}

impl Filter {
    /// The same, from the plan after the last one of a page.
    #[must_use]
    pub fn next_page(mut self, last: PlanId) -> Self {
        match self.order {
            Order::NewestFirst => self.before = Some(last),
            Order::OldestFirst => self.after = Some(last),
        }
        self
    }

    /// Puts rows into the order that is asked for.
    pub(super) fn sort(&self, rows: &mut [PlanRow]) {
        match self.order {
            Order::NewestFirst => rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.id)),
            Order::OldestFirst => rows.sort_unstable_by_key(|row| row.id),
        }
    }

    /// Whether a row fits what can be seen of it alone: all but `key` and `is_unneeded`.
    pub(super) fn fits(&self, row: &PlanRow) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| *wanted == found)
        };
        let has = |(name, value): &(String, Option<String>)| {
            row.labels.get(name).is_some_and(|found| is(value, found))
        };
        (self.states.is_empty() || self.states.contains(&row.state))
            && (self.results.is_empty() || self.results.contains(&row.result))
            && (self.waits.is_empty() || self.waits.contains(&row.waits))
            && is(&self.label, &row.label)
            && self.name.as_ref().is_none_or(|part| has_part(&row.label, part))
            && self
                .text
                .as_ref()
                .is_none_or(|part| has_part(&row.label, part) || has_part(&row.waits_for, part))
            && is(&self.action, &row.action)
            && is(&self.by, &row.by)
            && self.labels.iter().all(has)
            && self.caller.is_none_or(|caller| row.caller.is_some_and(|(plan, _)| plan == caller))
            && self.created_from.is_none_or(|from| row.created_at >= from)
            && self.created_before.is_none_or(|before| row.created_at < before)
            && self.ended_from.is_none_or(|from| row.ended_at.is_some_and(|at| at >= from))
            && self.ended_before.is_none_or(|before| row.ended_at.is_some_and(|at| at < before))
            && self.before.is_none_or(|before| row.id < before)
            && self.after.is_none_or(|after| row.id > after)
    }
}

/// Whether a text has a part, whatever the case of ASCII letters.
fn has_part(text: &str, part: &str) -> bool {
    text.to_ascii_lowercase().contains(&part.to_ascii_lowercase())
}
