//! A process with plans of all kinds is killed: sub-plans, chains, locks, queues, timers, flows
//! that listen, and a schedule.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use turnwheel_engine::schedule::{Overlap, Schedule};
use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, Delay, Next, PlanHandle, PlanResult, PlanState, Queue, RunAsync,
    RunsAsync, Singleton, StepContext, TriggerOptions, World,
};
use turnwheel_flow::{self as flow, CloudEvent, FakeIo, Flow, Flows, WithFlows};
use turnwheel_runtime::completion::block_on;
use turnwheel_sqlite::SqliteStore;

use super::{lives, Said, FOLDER, SAYS};

/// Plans of each kind.
const EACH: u64 = 12;

/// Kinds of plans.
const KINDS: u64 = 6;

/// Kills, if the work is not done before.
const KILLS: u64 = 8;

/// How long a plan waits that waits for a time.
const SOON: Duration = Duration::from_millis(30);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Made {
    sum: u64,
    is_timed: bool,
}

/// What a leaf does.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Do {
    Add(u64),
    Rest,
    Split(u64),
}

struct Leaf;

impl Action for Leaf {
    const NAME: &'static str = "leaf";
    type Input = Do;
    type Output = Made;
    type Phases = RunsAsync;
}

impl RunAsync for Leaf {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match step.input.clone() {
            Do::Add(number) => step.output.sum = number + 1,
            Do::Rest if step.event::<u64>()?.is_some() => step.output.sum = 1,
            Do::Rest => {
                if !step.output.is_timed {
                    step.event_after(SOON, &7_u64)?;
                    step.output.is_timed = true;
                }
                return Ok(Next::suspend("its time"));
            }
            Do::Split(count) => {
                let found = step.sub_plans();
                if found.total == 0 {
                    for number in 0..count {
                        step.trigger::<Leaf>(&Do::Add(number))?;
                    }
                    step.limit_sub_plans(2);
                    return Ok(Next::suspend("its plans"));
                }
                if found.pending > 0 {
                    return Ok(Next::suspend("its plans"));
                }
                step.output.sum = u64::from(found.success);
            }
        }
        Ok(Next::Done)
    }
}

/// One at a time for each of two keys, in a queue with one place.
struct Only;

impl Action for Only {
    const NAME: &'static str = "only";
    type Input = u64;
    type Output = u64;
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<u64>> {
        Some(Singleton::keyed(|number: &u64| format!("of {}", number % 2)).wait())
    }

    fn queue(&self) -> Option<&str> {
        Some("narrow")
    }
}

impl RunAsync for Only {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = step.input + 1;
        Ok(Next::Done)
    }
}

fn listening() -> Flow {
    let text = "
document: { dsl: '1.0.3', namespace: t, name: paid, version: '1.0.0' }
do:
  - paid:
      listen:
        to:
          one:
            with: { type: paid }
            correlate: { order: { from: .order, expect: '${ .order }' } }
";
    flow::load(text, "paid").expect("it is right")
}

fn world(folder: &Path) -> World {
    let store = SqliteStore::new(folder.join("plans.db"));
    let builder = World::builder().action(Leaf).action(Only).flows(FakeIo::new());
    let builder = builder.queue(Queue::new("narrow").size(1)).plan_idle(SOON);
    builder.build(store).expect("the world begins")
}

/// Begins plan number `number`, or finds it.
fn begin(world: &World, flows: &Flows, flow: &Flow, number: u64) -> PlanHandle {
    let key = format!("plan {number}");
    let round = number / KINDS;
    let begun = match number % KINDS {
        0 => world.trigger_once::<Leaf>(key, Do::Split(3)),
        1 => world.trigger_once::<Leaf>(key, Do::Rest),
        2 => {
            // After the plans with sub-plans and timers of its round.
            let before = [0, 1].map(|kind| format!("plan {}", number - 2 + kind));
            let inputs = [Do::Split(3), Do::Rest];
            let before = before.into_iter().zip(inputs).map(|(key, input)| {
                world.trigger_once::<Leaf>(key, input).wait().expect("it is there").id()
            });
            let delay = Delay::after(before.collect::<Vec<_>>());
            world.delay_with::<Leaf>(TriggerOptions::new().key(key), delay, Do::Add(round))
        }
        3 | 4 => world.trigger_once::<Only>(key, number),
        _ => {
            let options = TriggerOptions::new().key(key);
            flows.start_with(flow, json!({ "order": number }), options)
        }
    };
    begun.wait().expect("it is taken")
}

/// Not a test by itself: the process that is killed.
#[test]
fn the_process_with_plans_of_all_kinds() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let world = world(Path::new(&folder));
    let (flows, flow) = (Flows::new(&world).unwrap(), listening());
    block_on(flows.add(&flow)).unwrap().unwrap();
    let schedule = Schedule::every("often", Duration::from_secs(1)).overlap(Overlap::Forbid);
    let schedule = schedule.action::<Leaf>(&Do::Rest).unwrap();
    let schedules = world.schedules();
    if schedules.list("", 10).wait().unwrap().unwrap().is_empty() {
        schedules.put(schedule).wait().unwrap().unwrap();
    }
    let mut plans = Vec::new();
    for number in 0..EACH * KINDS {
        let plan = begin(&world, &flows, &flow, number);
        println!("\n{SAYS}taken {number} {}", plan.id());
        plans.push(plan);
    }
    for (plan, number) in plans.into_iter().zip(0..) {
        // An event that comes before the flow listens is gone: it is published until it is heard.
        for round in 0.. {
            let view = plan.view().wait().unwrap();
            if number % KINDS != KINDS - 1 || view.state == PlanState::Stopped {
                break;
            }
            let id = format!("{number}/{round}/{}", std::process::id());
            let event = CloudEvent::new(id, "https://shop.example", "paid");
            let event = event.data(json!({ "order": number }));
            block_on(flows.publish(event)).unwrap().unwrap();
            if plan.finished().wait_timeout(SOON).is_ok() {
                break;
            }
        }
        let view = plan.finished().wait().unwrap();
        println!("\n{SAYS}over {} {}", plan.id(), view.result().name());
    }
    schedules.pause("often", "the process", "it is over").wait().unwrap().unwrap();
    println!("\n{SAYS}done");
    world.shutdown().unwrap();
}

#[test]
fn plans_of_all_kinds_go_on_after_kills() {
    let folder = tempfile::tempdir().unwrap();
    let process = "mixed::the_process_with_plans_of_all_kinds";
    let Said { taken, over, kills } = lives(process, folder.path(), EACH * KINDS, KILLS);
    assert_eq!((taken.len() as u64, over.len() as u64), (EACH * KINDS, EACH * KINDS));
    assert!(over.values().all(|result| result == "success"), "{over:?}");
    let world = world(folder.path());
    for (number, plan) in &taken {
        let plan = world.plan(plan.parse().unwrap());
        let view = plan.finished().wait().unwrap();
        assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
        match number % KINDS {
            0 => assert_eq!(view.output::<Leaf>().unwrap().sum, 3, "each sub-plan counts once"),
            1 => assert_eq!(view.output::<Leaf>().unwrap().sum, 1),
            2 => assert_eq!(view.output::<Leaf>().unwrap().sum, number / KINDS + 1),
            3 | 4 => assert_eq!(view.output::<Only>().unwrap(), number + 1),
            _ => {
                let heard = flow::result(&view).unwrap();
                assert_eq!(heard, json!([{ "order": number }]), "its own event, once");
            }
        }
    }
    let filter = Filter { limit: usize::MAX, ..Filter::default() };
    let rows = world.list(filter).wait().unwrap();
    let mut times = HashSet::new();
    for row in &rows {
        world.plan(row.id).finished().wait().unwrap();
        if let Some(planned) = row.labels.get("planned") {
            assert!(times.insert(planned.clone()), "{planned} has two launches");
        }
    }
    let plans = EACH * KINDS + EACH * 3;
    assert_eq!(rows.len(), usize::try_from(plans).unwrap() + times.len(), "no plan is twice there");
    assert!(world.locks().is_empty(), "{:?}", world.locks());
    eprintln!("{kills} kills, {} plans, {} launches", rows.len(), times.len());
    world.shutdown().unwrap();
}
