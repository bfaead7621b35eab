//! Workloads of plans that depend on one another, or on people: fan-outs with keys, events between
//! plans, promises and named timers.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Cause, EventTarget, Next, Plan, PlanId, PlanResult, PlanState, Rescue,
    RetryPolicy, RunAsync, RunsAsync, StepContext, TriggerOptions, WorldBuilder,
};
use turnwheel_runtime::Backoff;
use turnwheel_testkit::{Client, Workload};

use super::actions::{actions, Do, Leaf, Log, Made};
use super::plans::{ends, makes};

/// Plans of a fan-out.
const PARTS: u64 = 4;

/// Subject of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    FanOuts,
    Events,
    Promises,
}

impl Topic {
    pub(crate) const ALL: [Self; 3] = [Self::FanOuts, Self::Events, Self::Promises];
}

/// Has a plan for each number, some of which fail at first; those that failed are made again.
struct FanOut(Log);

impl Action for FanOut {
    const NAME: &'static str = "fan-out";
    type Input = u64;
    type Output = u64;
    type Phases = RunsAsync;

    fn retry(&self) -> RetryPolicy {
        // Reads of outputs fail as long as the store does.
        RetryPolicy::attempts(60).pauses(Backoff::constant(Duration::from_secs(7)))
    }
}

impl RunAsync for FanOut {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let _call = self.0.enter(step);
        let found = step.sub_plans();
        let are_over = step.cause() == Cause::SubPlans && found.pending == 0;
        if are_over && u64::from(found.success) == PARTS {
            step.output = step.child_outputs::<Fragile>().all().await?.iter().sum();
            return Ok(Next::Done);
        }
        if are_over && step.attempt() == 1 {
            return Err(ActionError::new("again", "some of its plans have failed"));
        }
        let inputs: Vec<u64> = (0..PARTS).map(|number| step.input + number).collect();
        step.trigger_each::<Fragile>("part", &inputs)?;
        step.limit_sub_plans(2);
        Ok(step.wait_for_sub_plans())
    }
}

/// Fails in its first plan if its number is odd.
struct Fragile(Log);

impl Action for Fragile {
    const NAME: &'static str = "fragile";
    type Input = u64;
    type Output = u64;
    type Phases = RunsAsync;

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Fail
    }
}

impl RunAsync for Fragile {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let _call = self.0.enter(step);
        if step.input % 2 == 1 && self.0.is_first(step.input) {
            return Err(ActionError::new("fragile", "as it was told").and_final());
        }
        step.output = step.input;
        Ok(Next::Done)
    }
}

/// Sends an event at once and another one later, both to two plans.
struct Sender(Log);

impl Action for Sender {
    const NAME: &'static str = "sender";
    type Input = Vec<EventTarget>;
    type Output = bool;
    type Phases = RunsAsync;
}

impl RunAsync for Sender {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let _call = self.0.enter(step);
        let (name, number) = if step.output { ("second", 2_u64) } else { ("first", 1) };
        for (place, to) in step.input.clone().into_iter().enumerate() {
            step.send_event::<Leaf>(to, &format!("{name} {place}"), &number)?;
        }
        if step.output {
            return Ok(Next::Done);
        }
        step.output = true;
        step.event_after(Duration::from_secs(5), &())?;
        Ok(step.wait_for_event("its time"))
    }
}

/// Calls of a step that waits for an approval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Approved {
    calls: Vec<String>,
}

/// Waits for an approval, then for a timer; is reminded until it is approved.
struct Approval(Log);

impl Action for Approval {
    const NAME: &'static str = "approval";
    type Input = String;
    type Output = Approved;
    type Phases = RunsAsync;
}

impl RunAsync for Approval {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let _call = self.0.enter(step);
        if let Some(value) = step.promise::<u64>("approval")? {
            step.output.calls.push(format!("approved {value}"));
            step.cancel_timer("remind");
            step.set_timer("end", Duration::from_secs(10), &0_u64)?;
            return Ok(step.wait_for_event("its end"));
        }
        let timer = step.timer().map(str::to_owned);
        match timer.as_deref() {
            Some("end") => {
                step.output.calls.push("end".to_owned());
                return Ok(Next::Done);
            }
            Some(timer) => step.output.calls.push(timer.to_owned()),
            None => {}
        }
        step.set_timer("remind", Duration::from_secs(15), &1_u64)?;
        let key = step.input.clone();
        step.wait_for_promise("approval", &key)
    }
}

pub(crate) struct Messages {
    topic: Topic,
    log: Log,
}

impl Messages {
    pub(crate) fn new(topic: Topic) -> Self {
        Self { topic, log: Log::default() }
    }
}

impl Workload for Messages {
    fn name(&self) -> &str {
        match self.topic {
            Topic::FanOuts => "fan-outs with keys",
            Topic::Events => "events between plans",
            Topic::Promises => "promises and named timers",
        }
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        let log = || self.log.clone();
        let builder = actions(builder, &self.log).action(FanOut(log())).action(Fragile(log()));
        builder.action(Sender(log())).action(Approval(log()))
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(7_200)
    }

    /// No part of a fan-out is done twice.
    fn verdict(&self, plans: &[&Plan]) -> Result<(), String> {
        self.log.verdict(plans)?;
        let mut done = HashMap::new();
        for plan in plans.iter().filter(|plan| plan.result() == PlanResult::Success) {
            let Some((parent, _)) = plan.created.caller else { continue };
            let part = (parent, plan.created.input.to_string());
            if let Some(other) = done.insert(part, plan.id) {
                return Err(format!("plans {other} and {} do the same part", plan.id));
            }
        }
        Ok(())
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        match self.topic {
            Topic::FanOuts => fan_outs(&client).await,
            Topic::Events => events(&client).await,
            Topic::Promises => promises(&client).await,
        }
    }
}

async fn fan_outs(client: &Client) -> Result<(), String> {
    let one = client.trigger::<FanOut>("one", 0).await?;
    let other = client.trigger::<FanOut>("other", 10).await?;
    makes::<FanOut>(client, one, |sum: &u64| *sum == 6).await?;
    makes::<FanOut>(client, other, |sum: &u64| *sum == 46).await
}

async fn events(client: &Client) -> Result<(), String> {
    let keyed = client.trigger::<Leaf>("keyed", Do::Hear(3)).await?;
    let options = TriggerOptions::new().key("labelled").label("ear", "left");
    let begin = || client.world().trigger_with::<Leaf>(options.clone(), Do::Hear(3));
    let labelled = client.begin("labelled", begin).await?;
    let label = EventTarget::Label("ear".to_owned(), "left".to_owned());
    let to = vec![EventTarget::Key("keyed".to_owned()), label];
    let sender = client.trigger::<Sender>("sender", to).await?;
    ends(client, sender, PlanResult::Success).await?;
    for plan in [keyed, labelled] {
        let is_right = |made: &Made| {
            let mut heard = made.heard.clone();
            heard.sort_unstable();
            heard == [1, 2, 7]
        };
        makes::<Leaf>(client, plan, is_right).await?;
    }
    Ok(())
}

async fn promises(client: &Client) -> Result<(), String> {
    let mut plans = Vec::new();
    for key in ["42", "43"] {
        plans.push((key, client.trigger::<Approval>(key, key.to_owned()).await?));
    }
    client.pause(Duration::from_secs(20)).await;
    for (key, plan) in &plans {
        approve(client, key, *plan).await?;
    }
    for (_, plan) in plans {
        let is_right = |approved: &Approved| {
            let calls: Vec<&str> = approved.calls.iter().map(String::as_str).collect();
            let (last, before) = calls.split_at(calls.len().saturating_sub(2));
            before == ["approved 1", "end"] && last.iter().all(|call| *call == "remind")
        };
        makes::<Approval>(client, plan, is_right).await?;
    }
    Ok(())
}

/// Completes a promise; a client whose answer is lost finds that nobody waits for it any more.
async fn approve(client: &Client, key: &str, plan: PlanId) -> Result<(), String> {
    let approved = || async {
        let view = client.world().plan(plan).view().await.map_err(|error| error.to_string())?;
        let output = view.output::<Approval>().map_err(|error| error.to_string())?;
        let is_approved = output.calls.iter().any(|call| call.starts_with("approved"));
        if view.state == PlanState::Stopped || is_approved {
            return Ok(());
        }
        let done = client.world().complete_named("approval", key, &1_u64, "the client").await;
        done.map(|_| ()).map_err(|error| error.to_string())
    };
    client.insist(approved).await
}
