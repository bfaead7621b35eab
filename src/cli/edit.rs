//! `turnwheel edit-input`, `revert`, `fail`, `freeze`, `delay`: rarer orders for plans.

use clap_complete::engine::ArgValueCompleter;
use turnwheel::api;
use turnwheel::engine::{PlanId, Time};

use super::complete;
use super::event::read_json;
use super::exit::Exit;
use super::find::PlanRef;
use super::hand::Hand;
use super::orders::{self, Order, Target};
use super::paint::print;
use super::settings::Settings;
use super::source::Source;
use super::span;

pub(crate) const AFTER_HELP: &str = "\
If a server has the store it is asked; else the store is opened, and the order written down.

Examples:
  turnwheel edit-input 398f 2 '{\"amount\": 5}' && turnwheel resume 398f
  turnwheel revert 398f             takes back what a paused plan has done
  turnwheel fail 398f               ends a paused plan as failed
  turnwheel freeze last             a delayed plan waits until it is given a time
  turnwheel delay last --until 2026-12-01T08:00:00Z
  turnwheel delay last              a delayed plan begins at once

Exit codes: 0 the order is durable; 1 it was refused; 2 wrong usage; 3 there is no such store or plan;
4 another process has the store and does not serve it; 5 no plan fits what was said.";

/// Change the input of an action of a paused plan.
///
/// Of a flow that has failed: turnwheel retry PLAN --input JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct EditInput {
    /// The plan.
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    plan: PlanRef,

    /// Number of the action in the plan, as turnwheel show PLAN --step STEP --json tells it.
    action: u32,

    /// The new input: JSON, @FILE to read a file, - for standard input.
    #[arg(value_name = "JSON")]
    input: String,
}

/// Revert what paused plans have done, step by step, and end them.
#[derive(Debug, clap::Args)]
pub(crate) struct Revert {
    #[command(flatten)]
    target: Target,
}

/// End paused plans as failed, without reverting anything.
#[derive(Debug, clap::Args)]
pub(crate) struct Fail {
    #[command(flatten)]
    target: Target,
}

/// Hold delayed plans until they are given a time.
#[derive(Debug, clap::Args)]
pub(crate) struct Freeze {
    #[command(flatten)]
    target: Target,
}

/// Give a delayed plan another time, and allow it; without a time it begins at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Delay {
    /// The plan.
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    plan: PlanRef,

    /// The time (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = span::moment)]
    until: Option<Time>,
}

pub(crate) fn edit_input(settings: &Settings, arguments: &EditInput) -> Result<(), Exit> {
    let EditInput { plan, action, input } = arguments;
    let order = api::Order::EditInput { action: *action, input: read_json(input)? };
    let plan = one(settings, plan, &order)?;
    print(&format!("action {action} of plan {plan} has another input\n"))
}

pub(crate) fn delay(settings: &Settings, arguments: &Delay) -> Result<(), Exit> {
    let start_at = arguments.until.map(|time| time.to_string());
    let when = start_at.clone().unwrap_or_else(|| "now".to_owned());
    let plan = one(settings, &arguments.plan, &api::Order::DelayUntil { start_at })?;
    print(&format!("plan {plan} may begin: {when}\n"))
}

pub(crate) fn revert(settings: &Settings, arguments: &Revert) -> Result<(), Exit> {
    orders::give(settings, &arguments.target, Order::Revert)
}

pub(crate) fn fail(settings: &Settings, arguments: &Fail) -> Result<(), Exit> {
    orders::give(settings, &arguments.target, Order::Fail)
}

pub(crate) fn freeze(settings: &Settings, arguments: &Freeze) -> Result<(), Exit> {
    orders::give(settings, &arguments.target, Order::Freeze)
}

/// Gives an order to the plan that is named.
fn one(settings: &Settings, plan: &PlanRef, order: &api::Order) -> Result<PlanId, Exit> {
    let plan = plan.find(&mut Source::of(settings)?)?;
    let hand = Hand::open(settings)?;
    let done = hand.order(plan, order);
    hand.close()?;
    done.map(|()| plan)
}
