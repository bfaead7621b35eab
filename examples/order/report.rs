//! What came of the orders, and whether the books agree.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use turnwheel_engine::{PlanResult, PlanView, StepKind, Time};

use crate::actions::Order;
use crate::books::{Account, Books};
use crate::service::Counts;

/// What came of the orders.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Results, by the number of the order.
    results: BTreeMap<u64, PlanResult>,
    /// How many were taken back, by the reason.
    reasons: BTreeMap<String, u64>,
    /// Attempts beyond the first one of each step.
    repeated: u64,
    /// Plans that were paused and resumed.
    pub(crate) resumed: u64,
    /// The most eventful order of each kind.
    complete: Option<PlanView>,
    taken_back: Option<PlanView>,
    paused: Option<PlanView>,
}

/// How much has happened in a plan.
fn events(view: &PlanView) -> usize {
    view.history.len() + view.steps.iter().map(|step| step.attempt as usize).sum::<usize>()
}

fn keep_best(best: &mut Option<PlanView>, view: &PlanView) {
    if best.as_ref().is_none_or(|best| events(best) < events(view)) {
        *best = Some(view.clone());
    }
}

/// What happened in a plan, with the begin and end of its steps.
fn timeline(view: &PlanView) -> Vec<(Time, String)> {
    let (mut lines, mut begins) = (Vec::new(), Vec::new());
    for step in view.steps.iter().filter(|step| step.kind == StepKind::Run) {
        let name = format!("step {} ({})", step.id, view.action(step.action).name);
        let attempts = match step.attempt {
            1 => String::new(),
            attempts => format!(" after {attempts} attempts"),
        };
        let end = match &step.error {
            Some(error) => format!("{name} {}{attempts}: {error}", step.state.name()),
            None => format!("{name} {}{attempts}", step.state.name()),
        };
        begins.extend(step.started_at.map(|at| (at, format!("{name} begins"))));
        lines.extend(step.ended_at.map(|at| (at, end)));
    }
    lines.extend(view.history.iter().map(|entry| (entry.at, entry.text.clone())));
    lines.extend(begins);
    // It is stable: at one moment, an end comes before what follows from it, and that before a begin.
    lines.sort_by_key(|(at, _)| *at);
    lines
}

fn was_resumed(view: &PlanView) -> bool {
    view.history.iter().any(|entry| entry.text.contains("resumed"))
}

impl Report {
    pub(crate) fn add(&mut self, number: u64, view: PlanView) {
        let runs = view.steps.iter().filter(|step| step.kind == StepKind::Run);
        self.repeated += runs.map(|step| u64::from(step.attempt.saturating_sub(1))).sum::<u64>();
        self.results.insert(number, view.result());
        if view.result() == PlanResult::Reverted {
            let reason = view.errors().first().map_or("asked for", |error| error.message.as_str());
            *self.reasons.entry(reason.to_owned()).or_default() += 1;
        }
        if was_resumed(&view) {
            keep_best(&mut self.paused, &view);
        } else if view.result() == PlanResult::Reverted {
            keep_best(&mut self.taken_back, &view);
        } else {
            keep_best(&mut self.complete, &view);
        }
    }

    /// Orders whose end was seen.
    pub(crate) fn seen(&self) -> u64 {
        self.results.len() as u64
    }

    fn count(&self, result: PlanResult) -> usize {
        self.results.values().filter(|found| **found == result).count()
    }

    /// How it stands, in short.
    pub(crate) fn line(&self) -> String {
        let (complete, back) = (self.count(PlanResult::Success), self.count(PlanResult::Reverted));
        format!("{complete} complete, {back} taken back, {} resumed", self.resumed)
    }

    pub(crate) fn print(&self, took: Duration, counts: &Counts) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        println!("{} orders in {:.1} s: {}", self.seen(), took.as_secs_f64(), self.line());
        for (reason, count) in &self.reasons {
            println!("  {count:>6} taken back: {reason}");
        }
        let (before, after) = (of(&counts.failed_before), of(&counts.failed_after));
        println!(
            "  {:>6} requests; {} failed, {after} of them after the service had done its work",
            of(&counts.requests),
            before + after,
        );
        println!("  {:>6} steps were tried again", self.repeated);
        println!("  {:>6} requests came again and were not done twice", of(&counts.repeated));
    }

    /// Prints what happened to some orders.
    pub(crate) fn histories(&self, most: usize) {
        let views = [&self.complete, &self.taken_back, &self.paused];
        for view in views.into_iter().flatten().take(most) {
            println!("\n{}: {}, plan {}", view.label, view.result().name(), view.id);
            for (at, text) in timeline(view) {
                println!("  {:>7.3} s  {text}", at.since(view.created.at).as_secs_f64());
            }
        }
        println!();
    }

    /// Whether what the service has in its books is what the plans say.
    pub(crate) fn audit(&self, books: &Books, pieces: u64) -> Result<(), String> {
        let accounts = books.accounts();
        let mut sold = 0;
        for (number, result) in &self.results {
            let order = Order::by_number(*number);
            let account = accounts.get(number).copied().unwrap_or_default();
            if account.charges > 1 {
                return Err(format!("order {number} was charged {} times", account.charges));
            }
            let expected = match result {
                PlanResult::Success => {
                    sold += order.pieces;
                    Account { charges: 1, cents: order.cents, pieces: order.pieces, parcels: 1 }
                }
                PlanResult::Reverted => Account { charges: account.charges, ..Account::default() },
                other => return Err(format!("order {number} ended with {}", other.name())),
            };
            if account != expected {
                return Err(format!(
                    "order {number} is {}: the books say {account:?} instead of {expected:?}",
                    result.name()
                ));
            }
        }
        if let Some(number) = accounts.keys().find(|number| !self.results.contains_key(number)) {
            return Err(format!("the service knows an order {number}, which is no plan"));
        }
        let left = books.pieces_left();
        if left + sold != pieces {
            return Err(format!("{pieces} pieces were there, {sold} are sold and {left} are left"));
        }
        println!(
            "ok: the books agree: no card was charged twice, every order is complete or taken back, \
             {pieces} pieces = {sold} sold + {left} left"
        );
        Ok(())
    }
}
