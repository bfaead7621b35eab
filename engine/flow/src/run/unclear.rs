//! Event filters that cannot be evaluated: they mean nothing, and say so.

use std::collections::BTreeMap;

use turnwheel_engine::action::{Action, StepContext};
use turnwheel_engine::internal;

use crate::bench::Bench;
use crate::fault::Fault;

/// A filter that could not be evaluated on an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unclear {
    /// The filter, for people.
    filter: String,
    /// Why.
    why: String,
}

impl Unclear {
    /// An expression for an attribute, or for a correlation.
    pub(super) fn new(place: &str, text: &str, fault: &Fault) -> Self {
        let short: String = text.chars().take(80).collect();
        let more = if short.len() < text.len() { "…" } else { "" };
        Self { filter: format!("{place}: ${{ {short}{more} }}"), why: fault.to_string() }
    }
}

/// Tells of filters that could not be evaluated: in the log and the figures each time, in the history of the
/// plan the 1st, the 10th, the 100th time and so on, so that a flood of events does not fill it.
pub(super) fn tell<A: Action>(
    bench: &Bench,
    step: &mut StepContext<A>,
    counts: &mut BTreeMap<String, u64>,
    unclear: Vec<Unclear>,
    event: &str,
) {
    for Unclear { filter, why } in unclear {
        bench.bus.count_unclear();
        let (plan, id) = (step.plan_id(), step.step_id());
        tracing::warn!(%plan, step = %id, event, filter, why, "an event filter cannot be evaluated");
        let count = counts.entry(filter.clone()).or_default();
        *count += 1;
        if is_power_of_ten(*count) {
            let times = if *count == 1 { String::new() } else { format!(", the {count}th time") };
            internal::note(step, format!(
                "step {id} takes the event {event} as not meant, because its filter {filter} cannot be \
                 evaluated{times}: {why}"
            ));
        }
    }
}

fn is_power_of_ten(count: u64) -> bool {
    count.checked_ilog10().is_some_and(|digits| 10_u64.pow(digits) == count)
}
