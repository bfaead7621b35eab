//! Workloads of flows that listen, of one that continues as new, and of schedules with each policy
//! for overlaps.

use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::schedule::{Overlap, Schedule};
use turnwheel_engine::{Plan, PlanId, ScheduleError, TriggerOptions, WorldBuilder};
use turnwheel_flow::{self as flow, CloudEvent, FakeIo, Flow, Flows, WithFlows};
use turnwheel_runtime::Completion;
use turnwheel_testkit::{Client, Workload};

use super::actions::{actions, Do, Leaf, Log};

/// Flows that listen: by correlation, against one another, with a limit of time.
pub(crate) struct Listening;

fn load(name: &str, rest: &str) -> Flow {
    let head =
        format!("document: {{ dsl: '1.0.3', namespace: t, name: {name}, version: '1.0.0' }}");
    flow::load(&format!("{head}\n{rest}"), name).expect("it is right")
}

const CORRELATES: &str = "
do:
  - both:
      listen:
        to:
          all:
            - with: { type: paid }
              correlate: { order: { from: .order, expect: '${ .order }' } }
            - with: { type: packed }
              correlate: { order: { from: .order, expect: '${ .order }' } }
";

const COMPETES: &str = "
do:
  - race:
      fork:
        compete: true
        branches:
          - paid: { listen: { to: { one: { with: { type: paid } } } } }
          - gone: { listen: { to: { one: { with: { type: gone } } } } }
  - rest: { wait: PT5S }
";

const TIMES_OUT: &str = "
do:
  - careful:
      try:
        - never:
            listen: { to: { one: { with: { type: never } } } }
            timeout: { after: PT20S }
      catch: { do: [ { late: { set: { is_late: true } } } ] }
";

impl Listening {
    async fn start(
        client: &Client,
        flow: &Flow,
        key: &str,
        input: Value,
    ) -> Result<PlanId, String> {
        let flows = Flows::new(client.world()).map_err(|error| error.to_string())?;
        client.insist(|| flows.add(flow)).await?;
        let options = TriggerOptions::new().key(key);
        client.begin(key, || flows.start_with(flow, input.clone(), options.clone())).await
    }

    async fn publish(client: &Client, id: &str, kind: &str, order: u64) -> Result<(), String> {
        let flows = Flows::new(client.world()).map_err(|error| error.to_string())?;
        let event = CloudEvent::new(id, "https://shop.example", kind);
        let event = event.data(json!({ "order": order }));
        client.insist(|| flows.publish(event.clone())).await.map(|_| ())
    }
}

impl Workload for Listening {
    fn name(&self) -> &str {
        "flows"
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        builder.flows(FakeIo::new()).plan_idle(Duration::from_secs(1))
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(7_200)
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let correlates = load("correlates", CORRELATES);
        let first = Self::start(&client, &correlates, "first", json!({ "order": 1 })).await?;
        let second = Self::start(&client, &correlates, "second", json!({ "order": 2 })).await?;
        let race = Self::start(&client, &load("race", COMPETES), "race", json!({})).await?;
        let late = Self::start(&client, &load("late", TIMES_OUT), "late", json!({})).await?;
        let plans = [first, second, race, late];
        let mut round = 0;
        // An event that comes before a flow listens is gone: it is published until all have theirs.
        loop {
            round += 1;
            let mut are_over = true;
            for plan in plans {
                let view =
                    client.insist(|| async { client.world().plan(plan).view().await }).await?;
                are_over &= view.state == turnwheel_engine::PlanState::Stopped;
            }
            if are_over {
                break;
            }
            for (kind, order) in
                [("paid", 1), ("packed", 2), ("gone", 0), ("packed", 1), ("paid", 2)]
            {
                let id = format!("{round}/{kind}/{order}");
                Self::publish(&client, &id, kind, order).await?;
            }
            client.pause(Duration::from_secs(30)).await;
        }
        for (plan, is_right) in [(first, Some(1)), (second, Some(2)), (race, None), (late, None)] {
            let view = client.finished(plan).await?;
            let output = flow::result(&view).map_err(|error| error.to_string())?;
            let orders: Vec<u64> = output
                .as_array()
                .map(|all| all.iter().filter_map(|it| it["order"].as_u64()).collect())
                .unwrap_or_default();
            if is_right.is_some_and(|order| orders != [order, order]) {
                return Err(format!("plan {plan} has heard {output}"));
            }
            if plan == late && output != json!({ "is_late": true }) {
                return Err(format!("plan {plan} is not late: {output}"));
            }
        }
        Ok(())
    }
}

/// A flow that jumps back so often that its plan continues as new; it listens in both runs.
pub(crate) struct Looping;

const LOOPS: &str = "
do:
  - first: { listen: { to: { one: { with: { type: go } } } } }
  - begin: { set: { n: 0 } }
  - count: { set: { n: '${ .n + 1 }' } }
  - again: { switch: [ { more: { when: .n < 130, then: count } } ] }
  - second: { listen: { to: { one: { with: { type: go } } } } }
";

impl Workload for Looping {
    fn name(&self) -> &str {
        "flow that continues as new"
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        Listening.world(builder)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(7_200)
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let plan = Listening::start(&client, &load("loops", LOOPS), "loops", json!({})).await?;
        let stopped = turnwheel_engine::PlanState::Stopped;
        for round in 0.. {
            let view = client.insist(|| async { client.world().plan(plan).view().await }).await?;
            if view.state == stopped {
                break;
            }
            Listening::publish(&client, &format!("go {round}"), "go", round).await?;
            client.pause(Duration::from_secs(30)).await;
        }
        let view = client.finished(plan).await?;
        let output = flow::result(&view).map_err(|error| error.to_string())?;
        match (view.run_number, output.as_array().map(Vec::len)) {
            (2, Some(1)) => Ok(()),
            (run, _) => Err(format!("plan {plan} has made {output} in run {run}")),
        }
    }
}

async fn answer<T>(asked: Completion<Result<T, ScheduleError>>) -> Result<T, String> {
    match asked.await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(failure) => Err(failure.to_string()),
    }
}

/// A schedule whose plans take longer than its period.
pub(crate) struct Scheduled {
    overlap: Overlap,
    log: Log,
}

const PERIOD: Duration = Duration::from_secs(60);

impl Scheduled {
    pub(crate) const ALL: [Overlap; 4] =
        [Overlap::Allow, Overlap::Forbid, Overlap::Replace, Overlap::Queue];

    pub(crate) fn new(overlap: Overlap) -> Self {
        Self { overlap, log: Log::default() }
    }
}

impl Workload for Scheduled {
    fn name(&self) -> &str {
        match self.overlap {
            Overlap::Allow => "schedule that allows overlaps",
            Overlap::Forbid => "schedule that forbids overlaps",
            Overlap::Replace => "schedule that replaces",
            Overlap::Queue => "schedule that queues",
        }
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        actions(builder, &self.log)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(7_200)
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let schedule = Schedule::every("often", PERIOD).overlap(self.overlap);
        let schedule = schedule.action::<Leaf>(&Do::Rest(90)).map_err(|error| error.to_string())?;
        let schedules = || client.world().schedules();
        let found = client.insist(|| answer(schedules().list("", 10))).await?;
        if found.is_empty() {
            client.insist(|| answer(schedules().put(schedule.clone()))).await?;
        }
        client.pause(5 * PERIOD).await;
        client.insist(|| answer(schedules().pause("often", "the client", "it is over"))).await?;
        Ok(())
    }

    /// Plans of one schedule overlap only if they may, and no time has two of them.
    fn verdict(&self, plans: &[&Plan]) -> Result<(), String> {
        self.log.verdict(plans)?;
        let mut times: Vec<&str> = Vec::new();
        for plan in plans {
            let planned = plan.labels.get("planned").ok_or("a plan of no schedule")?;
            if times.contains(&planned.as_str()) {
                return Err(format!("{planned} has two launches"));
            }
            times.push(planned);
        }
        // A plan that is replaced is not told when it ends.
        let is_alone = matches!(self.overlap, Overlap::Forbid | Overlap::Queue);
        match self.log.most_at_once() {
            2.. if is_alone => Err("plans overlap".to_owned()),
            _ => Ok(()),
        }
    }
}
