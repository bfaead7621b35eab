//! Searches that look at a limited number of plans.

use uuid::Uuid;

use super::{Filter, Order, PlanRow, StoreReader};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::limits::SEARCH_FIRST;

/// Result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchPage {
    /// The plans that fit, in the order of the filter.
    pub rows: Vec<PlanRow>,
    /// The last plan that was looked at, if others are left: the search goes on behind it. Nothing
    /// if all were looked at, or the limit of the filter is reached.
    pub looked_to: Option<PlanId>,
}

/// Lists the plans that fit, and stops when it has looked at so many, such as
/// [`SEARCH_PLANS`](crate::limits::SEARCH_PLANS).
///
/// A list of a filter without an index reads on until its limit is reached, which may be all plans.
/// A search reads it in windows, small ones first: most searches find enough among the newest.
///
/// # Errors
///
/// The store failed.
pub fn search(
    reader: &mut dyn StoreReader,
    filter: &Filter,
    most: usize,
) -> Result<SearchPage, StoreError> {
    let (mut page, mut rows) = (filter.clone(), Vec::new());
    let (mut looked, mut window) = (0, SEARCH_FIRST.min(most));
    loop {
        page.limit = filter.limit - rows.len();
        let last = reader.plan_at(&page, window)?;
        let found = reader.list(&last.map_or_else(|| page.clone(), |last| up_to(&page, last)))?;
        rows.extend(found);
        looked += window;
        match last {
            Some(last) if rows.len() < filter.limit && looked >= most => {
                return Ok(SearchPage { rows, looked_to: Some(last) });
            }
            Some(last) if rows.len() < filter.limit => page = page.next_page(last),
            _ => return Ok(SearchPage { rows, looked_to: None }),
        }
        window = (window * 4).min(most - looked);
    }
}

/// The filter with an end behind a plan, which may be in the list itself.
fn up_to(filter: &Filter, last: PlanId) -> Filter {
    let number = last.uuid().as_u128();
    let beside = |number: Option<u128>| number.map(|number| PlanId::new(Uuid::from_u128(number)));
    match filter.order {
        Order::NewestFirst => {
            Filter { after: filter.after.max(beside(number.checked_sub(1))), ..filter.clone() }
        }
        Order::OldestFirst => {
            let end = beside(number.checked_add(1));
            let before = [filter.before, end].into_iter().flatten().min();
            Filter { before, ..filter.clone() }
        }
    }
}
