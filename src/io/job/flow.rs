//! The executor `flow`: a plan of a flow, begun once for each attempt, whose result is the output.

use std::time::{Duration, Instant};

use serde_json::Value;
use turnwheel_engine::internal::now;
use turnwheel_engine::{
    PlanError, PlanHandle, PlanState, PlanView, TriggerError, TriggerOptions, World,
};
use turnwheel_flow::{result, Flows};
use turnwheel_jobs::{Call, Done, Executor, Settings, Verdict, Work};
use turnwheel_runtime::completion::{block_on, block_on_timeout};

use super::only;
use crate::io::flow_names::named;

/// Settings that the executor knows.
const KNOWN: [&str; 2] = ["flow", "input"];

/// Time for which the first look waits for an end: most flows are short.
const SOON: Duration = Duration::from_secs(1);

/// Interval of looks at a cancel meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// Pause until the next look at a flow that takes longer.
const PAUSE: Duration = Duration::from_secs(1);

/// Times that a cancelled flow is looked for.
const CANCELS_MAX: u32 = 5;

/// Begins flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowRuns;

fn input(config: &Settings) -> Result<Value, String> {
    match config.get("input").map_or("", |text| text.trim()) {
        "" => Ok(Value::Object(serde_json::Map::new())),
        text => serde_json::from_str(text)
            .map_err(|error| format!("input: JSON is wanted, such as {{\"day\": 1}}: {error}")),
    }
}

fn name(config: &Settings) -> &str {
    config.get("flow").map_or("", |text| text.trim())
}

impl Executor for FlowRuns {
    fn check(&self, config: &Settings) -> Result<(), String> {
        only("flow", config, &KNOWN)?;
        if name(config).is_empty() {
            let advice = "give NAME or NAMESPACE/NAME, with :VERSION for one that stays";
            return Err(format!("flow: it is empty: {advice}"));
        }
        input(config).map(drop)
    }

    /// The newest version that is there now; a flow may be added after its jobs.
    fn check_in(&self, world: &World, config: &Settings) -> Result<(), String> {
        let flow = Flows::new(world).ok().and_then(|flows| named(&flows, name(config)).ok());
        let Some(flow) = flow else { return Ok(()) };
        flow.check_input(&input(config)?).map_err(|problem| {
            format!("input: {} does not take it, and each run would fail: {problem}", flow.id())
        })
    }

    /// The flow of an attempt has a key.
    fn finds_its_own(&self) -> bool {
        true
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        let Some(world) = call.world() else { return Verdict::Later(PAUSE) };
        // A cancel comes once: nobody looks again, so it is tried until the flow was told.
        let mut tries = if call.is_cancelled() { CANCELS_MAX } else { 1 };
        loop {
            let looked = look(world, work, call);
            tries -= 1;
            match looked {
                Ok(Verdict::Done(done)) => return Verdict::Done(done),
                _ if tries > 0 => std::thread::sleep(PAUSE),
                Ok(later) => return later,
                Err(problem) => return Verdict::Done(Done::failure(problem, "")),
            }
        }
    }
}

/// Begins the flow of an attempt, or finds the plan that its key has begun, and looks at it.
fn look(world: &World, work: &Work, call: &Call<'_>) -> Result<Verdict, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let flows = Flows::new(world).map_err(|error| told(&error))?;
    let looked = block_on(flows.look_again()).map_err(|error| told(&error))?;
    looked.map_err(|error| told(&error))?;
    let flow = named(&flows, name(&work.config))?;
    let options = TriggerOptions::new().key(format!("{}/flow", work.key));
    let options = options.by(format!("job {}", work.job)).label("job", &work.job);
    let plan = match flows.start_with(&flow, input(&work.config)?, options).wait() {
        Ok(plan) => plan,
        // A newer version was added since it began.
        Err(TriggerError::KeyReused { plan, .. }) => world.plan(plan),
        Err(TriggerError::Store(_) | TriggerError::Connect(_)) => {
            return Ok(Verdict::Later(PAUSE));
        }
        Err(error) => return Err(told(&error)),
    };
    let (until, id) = (Instant::now() + SOON, plan.id());
    loop {
        match block_on_timeout(plan.finished(), LOOK) {
            Ok(Ok(view)) => return Ok(Verdict::Done(done(&view))),
            Ok(Err(PlanError::Unknown(plan))) => {
                return Err(format!("its plan {plan} is not there any more"));
            }
            Ok(Err(_)) if !call.is_cancelled() => return Ok(Verdict::Later(PAUSE)),
            Ok(Err(error)) => {
                end(&plan, work);
                return Err(told(&error));
            }
            // It goes on.
            Err(_) => {}
        }
        let is_late = work.timeout.is_some_and(|limit| call.began.after(limit.0) <= now(world));
        if let Some(limit) = work.timeout.filter(|_| is_late) {
            end(&plan, work);
            let problem = format!("the flow (plan {id}) ran longer than {limit}");
            return Ok(Verdict::Done(Done::failure(problem, "")));
        }
        if call.is_cancelled() {
            end(&plan, work);
            let problem = format!("the flow (plan {id}) was cancelled");
            return Ok(Verdict::Done(Done::failure(problem, "")));
        }
        if call.is_again || Instant::now() >= until {
            return Ok(Verdict::Later(PAUSE));
        }
    }
}

/// The outcome of a plan that has ended or was paused.
fn done(view: &PlanView) -> Done {
    let id = view.id;
    if view.state == PlanState::Paused {
        let advice = format!("look at it by turnwheel show {id}, and launch the job again");
        return Done::failure(format!("the flow (plan {id}) was paused: {advice}"), "");
    }
    match result(view) {
        Ok(output) => Done::success(output.to_string()),
        Err(error) => Done::failure(format!("the flow (plan {id}): {error}"), ""),
    }
}

/// Cancels the plan of a flow that nobody waits for any more.
fn end(plan: &PlanHandle, work: &Work) {
    let ended = block_on(plan.cancel(&format!("the job {}", work.job)));
    if let Ok(Err(problem)) = ended {
        tracing::warn!(job = work.job, %problem, "a flow of a job was not cancelled");
    }
}
