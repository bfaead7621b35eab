//! `turnwheel tree`: the actions of a plan under those that planned them, and its sub-plans.

use serde_json::{json, Value};
use turnwheel::engine::picture::{error_of, name_of, state_of};
use turnwheel::engine::plan::ActionData;
use turnwheel::engine::store::{Filter, Order, StoreView};
use turnwheel::engine::{ActionId, PlanId, PlanView, StepState};

use super::exit::Exit;
use super::find::PlanRef;
use super::paint::{one_line, print, print_json, Paint};
use super::place::Place;
use super::settings::Settings;
use super::span;

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
    plan: PlanRef,

    /// Also show the plans started by its steps.
    #[arg(long)]
    sub_plans: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let mut view = Place::of(settings).view()?;
    let id = arguments.plan.find(&mut view)?;
    let paint = Paint::stdout(settings.colour());
    if arguments.json {
        let tree = json_of(&mut view, id, arguments.sub_plans, 0)?;
        return print_json(&tree);
    }
    let mut text = String::new();
    draw(&mut view, paint, id, arguments.sub_plans, 0, &mut text)?;
    print(&text)
}

/// The plans started by a plan, oldest first.
fn children(view: &mut StoreView, plan: PlanId) -> Result<Vec<PlanId>, Exit> {
    let filter = Filter {
        caller: Some(plan),
        order: Order::OldestFirst,
        limit: CHILDREN_MAX,
        ..Filter::default()
    };
    Ok(view.list(&filter)?.into_iter().map(|row| row.id).collect())
}

fn draw(
    view: &mut StoreView,
    paint: Paint,
    id: PlanId,
    goes_down: bool,
    depth: usize,
    text: &mut String,
) -> Result<(), Exit> {
    let plan = view.plan(id)?;
    let indent = "    ".repeat(depth);
    let name = paint.bold(&one_line(&plan.label));
    let (state, result) = (paint.plan(plan.state), paint.result(plan.result()));
    text.push_str(&format!("{indent}{name} {state} {result} {}\n", paint.dim(&id.to_string())));
    let roots: Vec<&ActionData> = plan.actions.iter().filter(|a| a.parent.is_none()).collect();
    branches(paint, &plan, &roots, &indent, text);
    if goes_down && depth < DEPTH_MAX {
        for child in children(view, id)? {
            draw(view, paint, child, goes_down, depth + 1, text)?;
        }
    }
    Ok(())
}

/// One line for each action, with the actions that it planned below it. Plans can be deep, so it
/// does not recurse.
fn branches(paint: Paint, plan: &PlanView, roots: &[&ActionData], indent: &str, text: &mut String) {
    let mut below: Vec<Vec<ActionId>> = vec![Vec::new(); plan.actions.len() + 1];
    for action in &plan.actions {
        if let Some(parent) = action.parent {
            below[parent.0 as usize].push(action.id);
        }
    }
    let mut open: Vec<(ActionId, String, bool)> = Vec::new();
    let last = roots.len().saturating_sub(1);
    for (place, root) in roots.iter().enumerate().rev() {
        open.push((root.id, indent.to_owned(), place == last));
    }
    while let Some((id, before, is_last)) = open.pop() {
        let action = plan.action(id);
        let branch = if is_last { "└── " } else { "├── " };
        text.push_str(&format!("{before}{branch}{}\n", action_line(paint, plan, action)));
        let next = format!("{before}{}", if is_last { "    " } else { "│   " });
        let children = &below[id.0 as usize];
        for (place, child) in children.iter().enumerate().rev() {
            open.push((*child, next.clone(), place + 1 == children.len()));
        }
    }
}

fn action_line(paint: Paint, plan: &PlanView, action: &ActionData) -> String {
    let mut line = one_line(&name_of(action));
    for step in [action.run_step, action.finalize_step].into_iter().flatten() {
        let step = plan.step(step);
        let state = state_of(action, step);
        line.push_str(&format!(" {} {}", paint.dim(&format!("#{}", step.id)), paint.step(state)));
        if step.calls > 0 && step.state.is_done() {
            line.push_str(&paint.dim(&format!(" {}", span::long(step.execution_time()))));
        }
        if let Some(error) = error_of(action, step).filter(|_| state != StepState::Success) {
            line.push_str(&format!(" {}", paint.bad(&one_line(&error.to_string()))));
        } else if !step.waits_for.is_empty() {
            line.push_str(&format!(" {}", paint.dim(&one_line(&step.waits_for))));
        }
    }
    line
}

fn json_of(view: &mut StoreView, id: PlanId, goes_down: bool, depth: usize) -> Result<Value, Exit> {
    let plan = view.plan(id)?;
    let actions: Vec<Value> = plan
        .actions
        .iter()
        .map(|action| {
            let state = |step: Option<_>| step.map(|step| state_of(action, plan.step(step)).name());
            json!({
                "id": action.id.0,
                "name": name_of(action),
                "action": action.name,
                "parent": action.parent.map(|parent| parent.0),
                "run_step": action.run_step.map(|step| step.0),
                "run_state": state(action.run_step),
                "finalize_step": action.finalize_step.map(|step| step.0),
                "finalize_state": state(action.finalize_step),
            })
        })
        .collect();
    let mut below = Vec::new();
    if goes_down && depth < DEPTH_MAX {
        for child in children(view, id)? {
            below.push(json_of(view, child, goes_down, depth + 1)?);
        }
    }
    Ok(json!({
        "id": id.to_string(),
        "label": plan.label,
        "state": plan.state.name(),
        "result": plan.result().name(),
        "actions": actions,
        "sub_plans": below,
    }))
}
