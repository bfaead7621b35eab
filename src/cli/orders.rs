//! `turnwheel cancel`, `terminate`, `skip`, `retry`, `pause`, `resume`: orders for plans.

use std::collections::HashMap;

use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Value};
use turnwheel::api;
use turnwheel::engine::store::Order as Listing;
use turnwheel::engine::{Action, BulkOrder, PlanId, PlanState, StepId};
use turnwheel::flow::FlowPlan;

use super::again::{self, Changed};
use super::complete;
use super::confirm;
use super::exit::{Exit, FAILED, NOTHING};
use super::find::{id_of, PlanRef, Which};
use super::hand::Hand;
use super::many;
use super::paint::{count, one_line, print, print_json, tell, Paint};
use super::place::Place;
use super::settings::Settings;
use super::source::Source;

/// Plans of one command, at most, unless --limit says otherwise.
const PLANS: u32 = 1_000;

/// Plans that are shown before a question.
const PREVIEWED: usize = 10;

pub(crate) const AFTER_HELP: &str = "\
Plans are named by id, by the last letters of an id, as «last»; or those are taken that fit what is
said (--state, --label …): on a terminal they are shown first, and it asks, unless --yes is said. With
--dry-run nothing is done.

If a server has the store it is asked; else the store is opened, and the order written down. Code of
actions is never run by this command: what has to run is run by turnwheel serve, run or resume.

Examples:
  turnwheel cancel last
  turnwheel cancel --state running --label customer=Ann --dry-run
  turnwheel skip 398f --step 3
  turnwheel retry --state paused --since 2h
  turnwheel retry last              starts a failed flow from its failed task
  turnwheel retry last --input @repaired.json --flow-version latest
  turnwheel terminate last
  turnwheel pause --flow hello
  turnwheel resume last             goes on with an interrupted flow, to its end

Exit codes: 0 all plans took the order; 1 one of them refused it; 2 wrong usage; 3 there is no such
store, plan or step; 4 another process has the store and does not serve it; 5 no plan fits what was said.";

/// The plans of an order.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Ids of plans, last letters of ids, or «last».
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    plans: Vec<PlanRef>,

    #[command(flatten)]
    which: Which,

    /// At most so many plans, the oldest first.
    #[arg(long, value_name = "COUNT", default_value_t = PLANS,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,

    /// Only show the plans that the order would change.
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Do not ask on a terminal before plans that are described are changed.
    #[arg(long, short = 'y')]
    yes: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Cancel plans, in any state.
#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    target: Target,

    /// Do not wait for running code: its result is ignored.
    #[arg(long)]
    force: bool,
}

/// End plans where they are, without calling any of their code: no compensation, no clean-up.
#[derive(Debug, clap::Args)]
pub(crate) struct Terminate {
    #[command(flatten)]
    target: Target,
}

/// Leave failed steps of paused plans out, with all that need them, and go on.
#[derive(Debug, clap::Args)]
pub(crate) struct Skip {
    #[command(flatten)]
    target: Target,

    /// The step; all failed ones by default. After an order for a single step use resume.
    #[arg(long, value_name = "STEP")]
    step: Option<u32>,
}

/// Try failed steps of paused plans again, and failed flows from their failed task.
///
/// A flow that has failed is over: a new plan goes on in its place, with the label retry.of, and tasks that
/// were done are not done again. It runs in this process, with its progress and its result, unless a
/// server has the store.
#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    target: Target,

    /// Of a paused plan: restart from this step; it and all steps after it are reset.
    #[arg(long, value_name = "STEP")]
    step: Option<u32>,

    #[command(flatten)]
    changed: Changed,
}

/// Pause running plans: they take no new step until they are resumed.
///
/// Code that runs is not interrupted. Events are kept, and timers that come due wait for the resume.
#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    target: Target,
}

/// Resume an interrupted flow, or paused plans.
///
/// A single named flow runs in this process, with its progress and its result, unless a server has
/// the store.
#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    target: Target,

    /// Only record the resume; turnwheel serve or run continues the plan.
    #[arg(long)]
    no_wait: bool,
}

/// An order for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Cancel { is_forced: bool },
    Terminate,
    Skip(Option<StepId>),
    Retry(Option<StepId>),
    Pause,
    Resume,
    Revert,
    Fail,
    Freeze,
}

pub(crate) fn cancel(settings: &Settings, arguments: &Cancel) -> Result<(), Exit> {
    give(settings, &arguments.target, Order::Cancel { is_forced: arguments.force })
}

pub(crate) fn terminate(settings: &Settings, arguments: &Terminate) -> Result<(), Exit> {
    give(settings, &arguments.target, Order::Terminate)
}

pub(crate) fn skip(settings: &Settings, arguments: &Skip) -> Result<(), Exit> {
    give(settings, &arguments.target, Order::Skip(arguments.step.map(StepId)))
}

pub(crate) fn retry(settings: &Settings, arguments: &Retry) -> Result<(), Exit> {
    let (target, changed) = (&arguments.target, &arguments.changed);
    if arguments.step.is_none() {
        let failed = failed_flows(settings, target)?;
        let outcome = |(plan, name): (PlanId, String)| Outcome { plan, name, problem: None };
        match &failed[..] {
            [(plan, _)] if target.which.is_all() && !target.dry_run && !target.json => {
                return again::retry(settings, *plan, changed);
            }
            [] if target.which.is_of_stopped() => {
                return again::retry_many(settings, &[], changed, target.json)
            }
            [] => {}
            _ if target.dry_run => {
                let all: Vec<Outcome> = failed.into_iter().map(outcome).collect();
                return report(settings, target, "retry", &all, true);
            }
            _ => {
                let all: Vec<Outcome> = failed.iter().cloned().map(outcome).collect();
                target.agree("retry", &all)?;
                return again::retry_many(settings, &failed, changed, target.json);
            }
        }
    }
    if changed.is_said() {
        return Err(Exit::usage("--input and --flow-version are for flows that have failed")
            .advice("turnwheel edit-input changes the input of a paused plan"));
    }
    give(settings, target, Order::Retry(arguments.step.map(StepId)))
}

/// The plans of an order that are over, if none of them is under way: those are retried by new plans.
fn failed_flows(settings: &Settings, target: &Target) -> Result<Vec<(PlanId, String)>, Exit> {
    if target.plans.is_empty() && !target.which.is_of_stopped() {
        return Ok(Vec::new());
    }
    let mut source = Source::of(settings)?;
    let named = target.plans(settings, &mut source, |state| state == PlanState::Stopped)?;
    let mut failed = Vec::with_capacity(named.len());
    for Outcome { plan, name, .. } in named {
        if source.plan(plan)?.summary.state != PlanState::Stopped.name() {
            return Ok(Vec::new());
        }
        failed.push((plan, name));
    }
    Ok(failed)
}

pub(crate) fn pause(settings: &Settings, arguments: &Pause) -> Result<(), Exit> {
    give(settings, &arguments.target, Order::Pause)
}

pub(crate) fn resume(settings: &Settings, arguments: &Resume) -> Result<(), Exit> {
    if let Some(flow) = interrupted_flow(settings, arguments)? {
        return super::run::go_on(settings, flow);
    }
    give(settings, &arguments.target, Order::Resume)
}

/// The flow to continue in this process: a single named one, not stopped, without a server.
fn interrupted_flow(settings: &Settings, arguments: &Resume) -> Result<Option<PlanId>, Exit> {
    let target = &arguments.target;
    let [plan] = &target.plans[..] else { return Ok(None) };
    if arguments.no_wait || target.dry_run || target.json || !target.which.is_all() {
        return Ok(None);
    }
    let place = Place::of(settings);
    let mut source = Source::of(settings)?;
    let plan = plan.find(&mut source)?;
    let seen = source.plan(plan)?.summary;
    let is_flow = seen.action == FlowPlan::NAME;
    if is_flow && seen.state == PlanState::Stopped.name() {
        let message = format!("plan {plan} is over, and there is nothing to resume");
        return Err(Exit::failed(message).advice(format!(
            "turnwheel retry {plan} starts a failed flow from its failed task, turnwheel again \
             {plan} runs it from its begin"
        )));
    }
    Ok((is_flow && !place.is_served_as(settings)?).then_some(plan))
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::Cancel { .. } => "cancel",
            Self::Terminate => "terminate",
            Self::Skip(_) => "skip",
            Self::Retry(_) => "retry",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Revert => "revert",
            Self::Fail => "fail",
            Self::Freeze => "freeze",
        }
    }

    /// The same for all plans that fit, if one step of a plan is not meant.
    fn of_many(self) -> Option<BulkOrder> {
        Some(match self {
            Self::Cancel { is_forced: false } => BulkOrder::Cancel,
            Self::Cancel { is_forced: true } => BulkOrder::CancelNow,
            Self::Terminate => BulkOrder::Halt,
            Self::Skip(None) => BulkOrder::Skip,
            Self::Pause => BulkOrder::Pause,
            Self::Retry(None) | Self::Resume => BulkOrder::Resume,
            Self::Skip(Some(_)) | Self::Retry(Some(_)) => return None,
            Self::Revert | Self::Fail | Self::Freeze => return None,
        })
    }

    fn is_for(self, state: PlanState) -> bool {
        match self {
            Self::Cancel { .. } | Self::Terminate => state != PlanState::Stopped,
            Self::Pause => state == PlanState::Running,
            Self::Freeze => state == PlanState::Scheduled,
            Self::Skip(_) | Self::Retry(_) | Self::Resume | Self::Revert | Self::Fail => {
                state == PlanState::Paused
            }
        }
    }

    /// The orders to each plan, in the shape of the API.
    fn asks(self) -> Vec<api::Order> {
        use api::Order as Ask;
        match self {
            Self::Cancel { is_forced } => vec![Ask::Cancel { force: is_forced }],
            Self::Terminate => vec![Ask::Halt {}],
            Self::Pause => vec![Ask::Pause {}],
            Self::Resume | Self::Retry(None) => vec![Ask::Resume {}],
            Self::Retry(Some(step)) => vec![Ask::Retry { step: step.0 }, Ask::Resume {}],
            Self::Skip(Some(step)) => vec![Ask::Skip { step: step.0 }],
            Self::Skip(None) => vec![Ask::SkipFailed {}],
            Self::Revert => vec![Ask::Revert {}],
            Self::Fail => vec![Ask::Fail {}],
            Self::Freeze => vec![Ask::Freeze {}],
        }
    }
}

/// Outcome for a plan.
pub(super) struct Outcome {
    pub(super) plan: PlanId,
    pub(super) name: String,
    pub(super) problem: Option<Exit>,
}

pub(super) fn give(settings: &Settings, target: &Target, order: Order) -> Result<(), Exit> {
    if let Some(kind) = order.of_many().filter(|_| target.is_many()) {
        if target.is_asked_for() {
            let mut source = Source::of(settings)?;
            let plans = target.plans(settings, &mut source, |state| order.is_for(state))?;
            target.agree(order.name(), &plans)?;
        }
        let outcomes = many::give(settings, &target.which, target.limit as usize, kind)?;
        return conclude(settings, target, order, &outcomes);
    }
    let mut source = Source::of(settings)?;
    let plans = target.plans(settings, &mut source, |state| order.is_for(state))?;
    if target.dry_run {
        report(settings, target, order.name(), &plans, true)?;
        return if plans.is_empty() { Err(Exit::new(NOTHING, "")) } else { Ok(()) };
    }
    target.agree(order.name(), &plans)?;
    let mut outcomes = Vec::with_capacity(plans.len());
    if !plans.is_empty() {
        let hand = Hand::open(settings)?;
        for Outcome { plan, name, .. } in plans {
            let done = order.asks().iter().try_for_each(|ask| hand.order(plan, ask));
            outcomes.push(Outcome { plan, name, problem: done.err() });
        }
        hand.close()?;
    }
    conclude(settings, target, order, &outcomes)
}

/// Prints all outcomes, and returns the exit code.
fn conclude(
    settings: &Settings,
    target: &Target,
    order: Order,
    outcomes: &[Outcome],
) -> Result<(), Exit> {
    report(settings, target, order.name(), outcomes, false)?;
    match outcomes.is_empty() {
        true => Err(Exit::new(NOTHING, "")),
        false => ended(outcomes),
    }
}

/// The exit of the command, after the outcomes were printed.
pub(super) fn ended(outcomes: &[Outcome]) -> Result<(), Exit> {
    let mut advices: Vec<&str> =
        outcomes.iter().filter_map(|outcome| Some(&*outcome.problem.as_ref()?.advice)).collect();
    advices.sort_unstable();
    advices.dedup();
    advices.iter().filter(|advice| !advice.is_empty()).for_each(|advice| tell!("{advice}"));
    match outcomes.iter().find_map(|outcome| outcome.problem.as_ref()) {
        None => Ok(()),
        // The error of the plan was printed already.
        Some(problem) if outcomes.len() == 1 => Err(Exit::new(problem.code, "")),
        Some(_) => Err(Exit::new(FAILED, "")),
    }
}

impl Target {
    /// Whether somebody is asked before plans that are described are changed: on a terminal.
    fn is_asked_for(&self) -> bool {
        self.plans.is_empty() && !self.yes && !self.json && confirm::can_ask()
    }

    /// Shows the plans that are described, and asks whether they are to be changed.
    pub(super) fn agree(&self, order: &str, plans: &[Outcome]) -> Result<(), Exit> {
        if !self.is_asked_for() || plans.is_empty() {
            return Ok(());
        }
        for Outcome { plan, name, .. } in plans.iter().take(PREVIEWED) {
            tell!("{plan} {}", one_line(name));
        }
        if plans.len() > PREVIEWED {
            tell!("… and {} more", plans.len() - PREVIEWED);
        }
        match confirm::agreed(&format!("{order}: {}?", count(plans.len(), "plan")))? {
            true => Ok(()),
            false => Err(Exit::failed("nothing was changed")),
        }
    }

    /// Whether plans are described, and something is to be done with them; a key is of one plan.
    fn is_many(&self) -> bool {
        self.plans.is_empty() && !self.which.is_all() && !self.dry_run && !self.which.has_key()
    }

    /// The selected plans; named plans are taken in any state.
    pub(super) fn plans(
        &self,
        settings: &Settings,
        source: &mut Source,
        is_for: impl Fn(PlanState) -> bool,
    ) -> Result<Vec<Outcome>, Exit> {
        let is_all = self.which.is_all();
        if self.plans.is_empty() && is_all {
            return Err(Exit::usage("no plan is named")
                .advice("name plans, or say which ones are meant, for instance --state paused"));
        }
        if !self.plans.is_empty() && !is_all {
            return Err(Exit::usage("plans are named, and others are described")
                .advice("do either the one or the other"));
        }
        let mut found = Vec::new();
        let mut known = HashMap::new();
        for plan in &self.plans {
            let plan = plan.find(source)?;
            let name = source.plan(plan)?.summary.label;
            if known.insert(plan, ()).is_none() {
                found.push(Outcome { plan, name, problem: None });
            }
        }
        if !is_all {
            let mut filter = self.which.filter_in(source, settings, self.limit as usize)?;
            filter.order = Listing::OldestFirst;
            for row in source.list_of(&filter, self.which.node())? {
                if PlanState::from_name(&row.state).is_some_and(&is_for) {
                    found.push(Outcome { plan: id_of(&row)?, name: row.label, problem: None });
                }
            }
        }
        Ok(found)
    }
}

pub(super) fn report(
    settings: &Settings,
    target: &Target,
    order: &str,
    outcomes: &[Outcome],
    is_dry_run: bool,
) -> Result<(), Exit> {
    if target.json {
        let (refused, done): (Vec<&Outcome>, Vec<&Outcome>) =
            outcomes.iter().partition(|outcome| outcome.problem.is_some());
        let refused: Vec<Value> = refused
            .iter()
            .map(|outcome| {
                let detail = outcome.problem.as_ref().map(|problem| problem.message.clone());
                json!({ "plan": outcome.plan.to_string(), "detail": detail })
            })
            .collect();
        let plans: Vec<String> = done.iter().map(|outcome| outcome.plan.to_string()).collect();
        return print_json(&json!({
            "order": order, "plans": plans, "refused": refused, "is_dry_run": is_dry_run,
        }));
    }
    let paint = Paint::stdout(settings.colour());
    let mut text = String::new();
    for Outcome { plan, name, problem } in outcomes {
        let said = match problem {
            Some(problem) => paint.bad(&one_line(&problem.message)),
            None if is_dry_run => format!("would be asked: {order}"),
            None => paint.good(&format!("{order} is done")),
        };
        text.push_str(&format!("{plan} {} {said}\n", one_line(name)));
    }
    if outcomes.is_empty() {
        tell!("no plans fit");
    }
    print(&text)
}
