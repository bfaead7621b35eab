//! Which index a list of plans is read along.

use rusqlite::Connection;
use turnwheel_engine::store::{Count, Filter};
use turnwheel_engine::{PlanResult, PlanState, Waiting};

use crate::counts;

/// A way through the plans in the order of their ids. Several are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// All plans.
    Ids,
    /// Those with the label at this index of the filter.
    Label(usize),
    /// Those in a state.
    State(PlanState),
    /// Those with a result that is no success, which are few.
    Fault(PlanResult),
    /// One plan, or the plans of a caller: the database finds the index.
    Few,
}

/// The condition of the index over results, word by word as the index has it.
pub(super) const FAULTS: &str = " AND result NOT IN ('pending', 'success')";

/// An index over states or results is read row by row, so reading all plans in a row is faster
/// unless at most one of so many is in it.
const ONE_OF: u64 = 4;

const LIVE: [PlanState; 6] = [
    PlanState::Pending,
    PlanState::Scheduled,
    PlanState::Planning,
    PlanState::Planned,
    PlanState::Running,
    PlanState::Paused,
];

/// The ways to the plans of a filter.
pub(super) fn of(connection: &Connection, filter: &Filter) -> rusqlite::Result<Vec<Along>> {
    if filter.key.is_some() || filter.caller.is_some() {
        return Ok(vec![Along::Few]);
    }
    if let Some(index) = filter.labels.iter().position(|(_, value)| value.is_some()) {
        return Ok(vec![Along::Label(index)]);
    }
    // Only live plans wait; a plan that cannot be read may be in any state.
    let is_live = |waits: &Waiting| !matches!(waits, Waiting::Nothing | Waiting::Unreadable);
    let is_waiting = !filter.waits.is_empty() && filter.waits.iter().all(is_live);
    let states: &[PlanState] = match filter.states.as_slice() {
        [] if is_waiting => &LIVE,
        states => states,
    };
    let is_fault =
        |result: &PlanResult| !matches!(result, PlanResult::Pending | PlanResult::Success);
    let faults = &filter.results;
    let by_fault = !faults.is_empty() && faults.iter().all(is_fault);
    if states.is_empty() && !by_fault {
        return Ok(vec![Along::Ids]);
    }
    let counts = counts::all(connection)?;
    let number = |fits: &dyn Fn(&Count) -> bool| -> u64 {
        counts.iter().filter(|count| fits(count)).map(|count| count.plans).sum()
    };
    let all = number(&|_| true);
    let with_faults = number(&|count| faults.contains(&count.result));
    if by_fault && with_faults * ONE_OF <= all {
        return Ok(distinct(faults).into_iter().map(Along::Fault).collect());
    }
    let in_states = number(&|count| states.contains(&count.state));
    if !states.is_empty() && in_states * ONE_OF <= all {
        return Ok(distinct(states).into_iter().map(Along::State).collect());
    }
    Ok(vec![Along::Ids])
}

/// A filter may say the same twice; its plans are listed once.
fn distinct<T: Copy + PartialEq>(all: &[T]) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(one) {
            once.push(*one);
        }
    }
    once
}
