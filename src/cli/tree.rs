//! `turnwheel tree`: the actions of a plan under those that planned them, and its sub-plans.

use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Value};
use turnwheel::api::{Node, PlanSummary, Tree, TreeNode};
use turnwheel::engine::store::{Filter, Order};
use turnwheel::engine::{PlanId, PlanState, StepKind, StepState};

use super::complete;
use super::exit::Exit;
use super::find::{id_of, PlanRef};
use super::format::{Output, Watch};
use super::paint::{one_line, Paint};
use super::settings::Settings;
use super::show::{error_text, ran};
use super::source::Source;
use super::words::{plain, task};

/// Plans below plans are shown to this depth; deeper ones have their ids.
const DEPTH_MAX: usize = 32;

/// Sub-plans of one plan that are shown.
const CHILDREN_MAX: usize = 1_000;

const AFTER_HELP: &str = "\
Examples:
  turnwheel tree last
  turnwheel tree last --sub-plans        with the trees of the plans that its steps have asked for
  turnwheel tree 398f --json

Exit codes: 0 shown; 2 wrong usage; 3 there is no such store or plan.";

/// Show the actions of a plan as a tree.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The plan.
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    plan: PlanRef,

    /// Also show the plans started by its steps.
    #[arg(long)]
    sub_plans: bool,

    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let mut source = Source::of(settings)?;
    let id = arguments.plan.find(&mut source)?;
    arguments.output.repeat(|| show(settings, arguments, &mut source, id))
}

fn show(
    settings: &Settings,
    arguments: &Arguments,
    source: &mut Source,
    id: PlanId,
) -> Result<Watch, Exit> {
    let (output, goes_down) = (&arguments.output, arguments.sub_plans);
    let summary = source.plan(id)?.summary;
    let mut text = String::new();
    if output.is_for_people() {
        let paint = Paint::stdout(settings.colour());
        draw(source, paint, &summary, goes_down, 0, &mut text)?;
        output.one(&summary.id, &Value::Null, || text)?;
    } else {
        let tree = json_of(source, id, goes_down, 0)?;
        output.json(&summary.id, &tree)?;
    }
    let is_over = summary.state == PlanState::Stopped.name();
    Ok(if is_over { Watch::End } else { Watch::GoOn })
}

/// The plans started by a plan, oldest first.
fn children(source: &mut Source, plan: PlanId) -> Result<Vec<PlanSummary>, Exit> {
    let filter = Filter {
        caller: Some(plan),
        order: Order::OldestFirst,
        limit: CHILDREN_MAX,
        ..Filter::default()
    };
    source.list(&filter)
}

fn draw(
    source: &mut Source,
    paint: Paint,
    plan: &PlanSummary,
    goes_down: bool,
    depth: usize,
    text: &mut String,
) -> Result<(), Exit> {
    let id = id_of(plan)?;
    let indent = "    ".repeat(depth);
    let name = paint.bold(&one_line(&plan.label));
    let (state, result) = (paint.plan(&plan.state), paint.result(&plan.result));
    text.push_str(&format!("{indent}{name} {state} {result} {}\n", paint.dim(&plan.id)));
    branches(paint, &source.tree(id)?, &indent, text);
    if goes_down && depth < DEPTH_MAX {
        for child in children(source, id)? {
            draw(source, paint, &child, goes_down, depth + 1, text)?;
        }
    }
    Ok(())
}

/// One line for each action, with the actions that it planned below it: they follow it.
fn branches(paint: Paint, tree: &Tree, indent: &str, text: &mut String) {
    // From the end: whether a node of the same depth follows below the same node.
    let (mut has_next, mut follows) = (vec![false; tree.nodes.len()], Vec::<bool>::new());
    for (place, node) in tree.nodes.iter().enumerate().rev() {
        let depth = node.depth as usize;
        follows.resize(depth + 1, false);
        has_next[place] = std::mem::replace(&mut follows[depth], true);
    }
    let mut open: Vec<bool> = Vec::new();
    for (node, has_next) in tree.nodes.iter().zip(has_next) {
        open.truncate(node.depth as usize);
        let before: String =
            open.iter().map(|goes_on| if *goes_on { "│   " } else { "    " }).collect();
        let branch = if has_next { "├── " } else { "└── " };
        text.push_str(&format!("{indent}{before}{branch}{}\n", action_line(paint, node)));
        open.push(has_next);
    }
}

fn action_line(paint: Paint, node: &TreeNode) -> String {
    let mut line = one_line(&task(&node.name));
    let is_shown = |step: &&Node| step.phase != StepKind::Plan.name();
    for step in node.steps.iter().filter(is_shown) {
        let (number, state) = (format!("#{}", step.id), paint.step(&step.state));
        line.push_str(&format!(" {} {state}", paint.dim(&number)));
        let known = StepState::from_name(&step.state);
        if step.attempts > 0 && known.is_some_and(StepState::is_done) {
            line.push_str(&paint.dim(&format!(" {}", ran(step.ran_ms))));
        }
        let error = step.error.as_ref().filter(|_| known != Some(StepState::Success));
        if let Some(error) = error {
            line.push_str(&format!(" {}", paint.bad(&error_text(error))));
        } else if let Some(waits_for) = &step.waits_for {
            line.push_str(&format!(" {}", paint.dim(&one_line(&plain(waits_for)))));
        }
    }
    line
}

fn json_of(source: &mut Source, id: PlanId, goes_down: bool, depth: usize) -> Result<Value, Exit> {
    let mut tree = json!(source.tree(id)?);
    let mut below = Vec::new();
    if goes_down && depth < DEPTH_MAX {
        for child in children(source, id)? {
            below.push(json_of(source, id_of(&child)?, goes_down, depth + 1)?);
        }
    }
    tree["sub_plans"] = Value::Array(below);
    Ok(tree)
}
