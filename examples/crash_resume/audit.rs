//! What is true after the last life: by the store, and by the file of calls.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::Path;

use turnwheel_engine::store::Filter;
use turnwheel_engine::{PlanId, PlanResult, PlanState, PlanView, World};
use turnwheel_runtime::completion::block_on;

use crate::work::{label, sum_of, world, Log, ADDED, CALLS};

/// Plans that are read at once.
const PAGE: usize = 1_000;

/// Plans whose call or end is in the file of calls.
struct Calls {
    /// How often each call was made.
    counts: HashMap<String, u64>,
    ends: HashSet<String>,
}

impl Calls {
    fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let text = std::fs::read_to_string(folder.join("calls.log"))?;
        let mut calls = Self { counts: HashMap::new(), ends: HashSet::new() };
        for line in text.lines() {
            let (what, key) = line.split_once(' ').ok_or_else(|| format!("calls.log: «{line}»"))?;
            if what == "end" {
                // A later life hears of the same end.
                calls.ends.insert(key.to_owned());
                continue;
            }
            let plan = key.split('/').next().unwrap_or(key);
            if calls.ends.contains(plan) {
                return Err(format!("plan {plan} was over, and after it: {line}").into());
            }
            *calls.counts.entry(line.to_owned()).or_default() += 1;
        }
        Ok(calls)
    }
}

/// A plan is over, once, and has the right sum.
fn check(number: u64, view: &PlanView) -> Result<(), Box<dyn Error>> {
    let wrong = |what: String| format!("plan {} ({}): {what}", view.id, view.label);
    if (view.state, view.result()) != (PlanState::Stopped, PlanResult::Success) {
        return Err(wrong(format!("{} and {}", view.state.name(), view.result().name())).into());
    }
    let ends = view.history.iter().filter(|entry| entry.text.starts_with("stopped")).count();
    if ends != 1 {
        return Err(wrong(format!("it ended {ends} times")).into());
    }
    let (sum, expected) = (sum_of(view)?, number + ADDED);
    if sum != expected {
        return Err(wrong(format!("its sum is {sum} instead of {expected}")).into());
    }
    Ok(())
}

fn all_plans(world: &World) -> Result<Vec<(PlanId, String)>, Box<dyn Error>> {
    let mut plans = Vec::new();
    let mut before = None;
    loop {
        let rows = block_on(world.list(Filter { before, limit: PAGE, ..Filter::default() }))??;
        before = rows.last().map(|row| row.id);
        let is_last = rows.len() < PAGE;
        plans.extend(rows.into_iter().map(|row| (row.id, row.label.to_string())));
        if is_last {
            return Ok(plans);
        }
    }
}

/// Checks everything, and says what it came to.
pub(crate) fn audit(folder: &Path, plans: u64) -> Result<String, Box<dyn Error>> {
    let calls = Calls::read(folder)?;
    let log = Log::open(folder, false)?;
    let world = world(folder, &log)?;
    let rows = all_plans(&world)?;
    let numbers: HashMap<String, u64> = (0..plans).map(|number| (label(number), number)).collect();
    let mut seen = HashSet::new();
    for (id, label) in &rows {
        let number = numbers.get(label).ok_or_else(|| {
            format!(
                "plan {id} is «{label}»: the folder is of a run with other --plans than {plans}"
            )
        })?;
        if !seen.insert(*number) {
            return Err(format!("there are two plans for {label}").into());
        }
        check(*number, &world.plan(*id).view().wait()?)?;
    }
    world.shutdown()?;
    if seen.len() as u64 != plans || calls.ends.len() as u64 != plans {
        let (found, ended) = (seen.len(), calls.ends.len());
        return Err(format!("{plans} plans were triggered: {found} found, {ended} ended").into());
    }
    if Calls::read(folder)?.counts != calls.counts {
        return Err("looking at plans that are over has called their code".into());
    }
    let distinct = calls.counts.len() as u64;
    if distinct != plans * CALLS {
        return Err(format!("{distinct} calls instead of {}", plans * CALLS).into());
    }
    let all: u64 = calls.counts.values().sum();
    let again = calls.counts.values().filter(|count| **count > 1).count();
    let most = calls.counts.values().max().copied().unwrap_or(0);
    Ok(format!(
        "{plans} plans ended once each, with the right sum; {all} calls of {distinct} steps and \
         phases: {again} ran more than once, {most} times at most"
    ))
}
