//! `turnwheel again`, and `turnwheel retry` of flows that have failed: a new plan in place of another.

use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Map, Value};
use turnwheel::api::Rerun;
use turnwheel::engine::{
    Action, PlanHandle, PlanId, PlanView, TriggerError, TriggerOptions, World,
};
use turnwheel::flow::{in_place_of, Flow, FlowError, FlowPlan, FlowStart, Flows, AGAIN_OF};
use turnwheel::runtime::completion::block_on;

use super::complete;
use super::event::read_json;
use super::exit::{Exit, FAILED, NOT_FOUND};
use super::find::PlanRef;
use super::paint::{one_line, print, print_json, tell};
use super::place::Place;
use super::run::start_and_show;
use super::settings::Settings;
use super::source::Source;

pub(crate) const AFTER_HELP: &str = "\
The new plan has the labels of the old one, and the label again.of. It runs in this process, with its
progress and its result, unless a server has the store. turnwheel retry goes on from the failed task instead.

Examples:
  turnwheel again last
  turnwheel again 398f --input '{\"amount\": 5}'
  turnwheel again 398f --flow-version latest

Exit codes: 0 it ended well; 1 it has failed, or was cancelled; 2 wrong usage; 3 there is no such store, plan
or version; 4 another process has the store and does not serve it; 130 interrupted.";

/// Run a flow again from its begin, with the input that it had or another one.
#[derive(Debug, clap::Args)]
pub(crate) struct Again {
    /// The plan: an id, the last letters of one, or «last».
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    plan: PlanRef,

    #[command(flatten)]
    changed: Changed,
}

/// What is changed in a new run.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Changed {
    /// Another input: JSON, @FILE, or - for standard input. Of a retry: of the failed task.
    #[arg(long, short, value_name = "JSON")]
    input: Option<String>,

    /// Another version of the flow, such as a repaired one; may be «latest».
    #[arg(long, value_name = "VERSION")]
    flow_version: Option<String>,

    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

impl Changed {
    /// Whether something is said.
    pub(super) fn is_said(&self) -> bool {
        self.input.is_some() || self.flow_version.is_some()
    }

    fn rerun(&self) -> Result<Rerun, Exit> {
        let input = self.input.as_deref().map(read_json).transpose()?;
        Ok(Rerun { input, version: self.flow_version.clone() })
    }
}

/// How a plan is run in place of another one.
#[derive(Clone, Copy)]
enum How {
    Retry,
    Again,
}

impl How {
    fn path(self, plan: PlanId) -> String {
        match self {
            Self::Retry => format!("/plans/{plan}/retry"),
            Self::Again => format!("/plans/{plan}/again"),
        }
    }
}

pub(crate) fn again(settings: &Settings, arguments: &Again) -> Result<(), Exit> {
    let plan = arguments.plan.find(&mut Source::of(settings)?)?;
    in_place(settings, plan, &arguments.changed, How::Again)
}

/// Retries a plan that is over from its failed task.
pub(super) fn retry(settings: &Settings, plan: PlanId, changed: &Changed) -> Result<(), Exit> {
    in_place(settings, plan, changed, How::Retry)
}

fn in_place(settings: &Settings, plan: PlanId, changed: &Changed, how: How) -> Result<(), Exit> {
    let rerun = changed.rerun()?;
    let body = serde_json::to_string(&rerun).map_err(Exit::failed)?;
    start_and_show(
        settings,
        changed.quiet,
        |world| {
            let begun = here(settings, world, plan, rerun, how)?;
            if !changed.quiet {
                tell!("plan {} runs in place of {plan}", begun.id());
            }
            Ok(begun)
        },
        |server| server.post(&how.path(plan), "application/json", body, None),
    )
}

fn here(
    settings: &Settings,
    world: &World,
    plan: PlanId,
    rerun: Rerun,
    how: How,
) -> Result<PlanHandle, Exit> {
    let before = world.plan(plan).view().wait()?;
    let flows = Flows::new(world).map_err(Exit::failed)?;
    if before.created.action != FlowPlan::NAME {
        let message = format!(
            "plan {plan} runs the action «{}», which this program does not have",
            before.created.action
        );
        return Err(Exit::failed(message).advice("ask the program that has it, over its server"));
    }
    let start = flows.start_of(&before).map_err(refused)?;
    let begun = block_on(begin(settings, &flows, &before, start, rerun, how));
    begun.map_err(Exit::failed)?.map_err(refused)
}

async fn begin(
    settings: &Settings,
    flows: &Flows,
    before: &PlanView,
    start: FlowStart,
    rerun: Rerun,
    how: How,
) -> Result<PlanHandle, FlowError> {
    let options = TriggerOptions::new().by(settings.by());
    let known = flows.flow_of(&start).await?;
    let flow: Option<Flow> = match &rerun.version {
        Some(version) => Some(flows.find(known.namespace(), known.name(), version)?),
        None => None,
    };
    let begun = match how {
        How::Retry => {
            flows.retry(before, flow.as_ref(), rerun.input, options).await?.triggering.await
        }
        How::Again => {
            let options = in_place_of(before, options).label(AGAIN_OF, before.id.to_string());
            let input = rerun.input.unwrap_or(start.input);
            flows.start_with(&flow.unwrap_or(known), input, options).await
        }
    };
    begun.map_err(FlowError::Trigger)
}

fn refused(error: FlowError) -> Exit {
    match &error {
        FlowError::Unknown(_) => Exit::new(NOT_FOUND, error),
        FlowError::Trigger(TriggerError::KeyReused { plan, .. }) => Exit::failed(format!(
            "it was retried already, in another way, as plan {plan}: retry that plan"
        )),
        _ => Exit::failed(error),
    }
}

/// Has the server retry flows that have failed.
pub(super) fn retry_many(
    settings: &Settings,
    plans: &[(PlanId, String)],
    changed: &Changed,
    is_json: bool,
) -> Result<(), Exit> {
    let without = "several flows are retried by a server, and none has the store";
    let server = Place::of(settings).server_of(settings, without)?;
    let body = serde_json::to_string(&changed.rerun()?).map_err(Exit::failed)?;
    let (mut begun, mut problems) = (Map::new(), Vec::new());
    for (plan, name) in plans {
        let path = How::Retry.path(*plan);
        let said = match server.post(&path, "application/json", body.clone(), None) {
            Ok(started) => {
                let id = started["id"].as_str().unwrap_or_default().to_owned();
                let said = format!("retried as {id}");
                begun.insert(plan.to_string(), Value::from(id));
                said
            }
            Err(problem) => {
                problems.push(json!({ "plan": plan.to_string(), "detail": problem.message }));
                problem.message
            }
        };
        if !is_json {
            print(&format!("{plan} {} {}\n", one_line(name), one_line(&said)))?;
        }
    }
    let has_failed = !problems.is_empty();
    if is_json {
        print_json(&json!({ "order": "retry", "retried_as": begun, "refused": problems }))?;
    } else if plans.is_empty() {
        tell!("no plans fit");
    }
    if has_failed {
        return Err(Exit::new(FAILED, ""));
    }
    Ok(())
}
